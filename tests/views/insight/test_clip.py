"""The clip figure shows a real state of a run, chosen by its rule, and says so where there is none to show."""

import numpy as np
import pytest

from dsacc import DSAC
from dsacc.errors import ConfigError
from dsacc.views.insight import look
from dsacc.views.insight.clip import _choose, clip_figure_data, draw_clip

TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8}


@pytest.fixture(scope="module")
def model():
    return DSAC("CartPole-v1", constraint="mean", noise_std=0.1, **TINY).learn(100)


def facts(**columns):
    count = len(columns["sure"])
    names = ("outside", "unreachable", "lost", "lost_clipped")
    return {name: np.array(columns.get(name, [False] * count)) for name in names} | {"sure": np.array(columns["sure"])}


def test_the_surest_state_that_the_clip_saves_is_chosen_and_one_that_can_be_met_before_one_that_cannot():
    sure, yes, no = [0.5, 0.9, 0.7, 0.8, 0.8], True, False
    outside, lost = [yes, yes, yes, yes, yes], [yes, yes, no, yes, yes]
    assert _choose(facts(sure=sure, outside=outside, lost=lost, unreachable=[no, yes, no, no, no])) == ("lost", 3)
    assert _choose(facts(sure=sure, outside=outside, lost=lost, unreachable=[yes] * 5)) == ("lost", 1)
    assert _choose(facts(sure=sure, outside=outside, lost=lost, lost_clipped=[no, yes, no, yes, yes])) == ("lost", 0)
    assert _choose(facts(sure=sure, outside=[no, no, yes, no, no])) == ("changed", 2)
    assert _choose(facts(sure=sure)) == ("none", 1)


def test_the_chosen_state_is_one_that_the_agent_sees_and_the_numbers_are_its_own(model):
    data = clip_figure_data(model, seed=3, steps=40)
    again = clip_figure_data(model, seed=3, steps=40)
    assert data.sentence == again.sentence
    assert np.array_equal(data.q, again.q)
    assert (data.game_step, data.noise) == (again.game_step, again.noise)
    one = look(model, data.observation, noise=[data.noise])
    assert np.array_equal(one.q_BA[0], data.q)
    assert np.array_equal(one.unclipped_BA[0], data.unclipped)
    assert data.verdict == "lost"
    assert data.kept_clipped
    assert not data.kept_unclipped
    assert data.lam == 1
    assert data.root > 1
    assert data.unclipped.argmax() != data.best == data.q.argmax()
    assert data.looked_at == 320
    assert 0 < data.share_lost <= data.share_clipped < 1
    assert data.share_lost_clipped == 0
    assert "best action is lost in" in data.sentence


def test_choosing_a_state_leaves_the_agent_as_it_was(model):
    state = model.streams.actions.bit_generator.state
    clip_figure_data(model, steps=5)
    assert model.streams.actions.bit_generator.state == state


def test_without_noise_there_is_none_and_it_says_so():
    model = DSAC("CartPole-v1", constraint="mean", perturbation="none", **TINY)
    data = clip_figure_data(model, steps=10)
    assert (data.verdict, data.share_clipped) == ("none", 0)
    assert data.sentence.startswith("Clipping has no effect here")
    assert draw_clip(data).axes


@pytest.mark.parametrize("settings", [{"constraint": "variance"}, {"constraint": "mean", "perturbation": "weights"}])
def test_a_run_folder_serves_and_so_do_other_readings(settings, tmp_path):
    DSAC("dsacc/Catch-v0", preset="classic", hidden=8, encoder="small", **settings).save(tmp_path / "agent")
    data = clip_figure_data(tmp_path / "agent", steps=12, draws=2)
    assert data.actions == ("left", "stay", "right")
    assert data.constraint == settings["constraint"]
    assert isinstance(data.noise, tuple) == ("perturbation" in settings)
    assert data.observation.shape == (84, 84, 3)


def test_it_is_drawn_into_axes_of_the_caller_or_into_a_figure_of_its_own(model, tmp_path):
    from matplotlib.figure import Figure

    data = clip_figure_data(model, steps=20)
    figure = Figure()
    axes = figure.subplots(2, 1)
    assert draw_clip(data, axes) is figure
    own = draw_clip(data)
    assert own is not figure
    own.savefig(tmp_path / "clip.svg")
    assert (tmp_path / "clip.svg").stat().st_size > 1_000
    labels = [text.get_text() for text in own.axes[1].get_legend().get_texts()]
    assert any("best action lost" in label for label in labels)
    assert any("all actions equally likely" in label for label in labels)  # lambda_1 = 1 is the uniform policy


@pytest.mark.parametrize(
    ("settings", "how", "message"),
    [
        ({}, {}, "dsac has no constraint"),
        ({"constraint": "both"}, {}, "dsac-mv has two"),
        ({"constraint": "mean", "fixed_lambda": 0.5}, {}, "dsac-m has a fixed lambda"),
        ({"constraint": "mean"}, {"steps": 0}, "steps and draws must be at least 1, not 0 and 8"),
        ({"constraint": "mean"}, {"seed": -1}, "seed must be at least 0"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_sentence(settings, how, message):
    with pytest.raises(ConfigError, match=message):
        clip_figure_data(DSAC("CartPole-v1", **settings, **TINY), **how)
