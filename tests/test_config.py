"""Settings: what is refused and how, and what makes two runs the same."""

import dataclasses
import hashlib
import re
import typing

import pytest
from helpers.documents import ROOT

from dsacc import DSAC
from dsacc.cli import main
from dsacc.config import PRESETS, Config, agent_name, make_config, present_presets
from dsacc.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise_std": -1}, "noise_std must be at least 0, not -1"),
        ({"noise_std": float("nan")}, "noise_std must be a finite number"),
        ({"gamma": 1.5}, "gamma must be at most 1"),
        ({"learning_rate": 0}, "learning_rate must be above 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"batch_size": "many"}, "batch_size must be a finite number"),
        ({"batch_size": None}, "batch_size must be given"),
        ({"critics": "max"}, "critics is one of average, min, not 'max'"),
        ({"constraint": "media"}, "constraint is one of mean, variance, both"),
        ({"clip_rewards": 1}, "clip_rewards is True or False"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"min_alpha": 2.0}, "initial_alpha 1.0 is below min_alpha 2.0"),
        ({"noise_sdt": 1}, "unknown setting 'noise_sdt'; did you mean 'noise_std'"),
        ({"preset": "fast"}, "unknown preset 'fast'; choose classic, paper, paper-minatar, efficient"),
        ({"alpha": 0, "constraint": "mean"}, "alpha 0 has no surrogate policy"),
        (
            {"natural_gradient": True, "surrogate_kl": 1},
            "surrogate_kl has no bounded natural gradient; turn natural_gradient off",
        ),
        ({"alpha": 0, "surrogate_kl": 1}, "alpha 0 has no surrogate policy"),
        (
            {"alpha_scale": "range"},
            "^alpha none tunes the temperature, which does not go with alpha_scale range; "
            "give alpha_scale fixed, or an alpha above 0, such as 0.01$",
        ),
        (
            {"alpha": 0, "alpha_scale": "range", "alpha_final": 0.001, "actor_rate_over_alpha": True},
            "alpha 0 is no temperature, which does not go with alpha_scale range, alpha_final 0.001 and "
            "actor_rate_over_alpha; give alpha_scale fixed, alpha_final none and actor_rate_over_alpha off, or",
        ),
        ({"alpha_scale": "wide"}, "alpha_scale is one of fixed, range, not 'wide'"),
        ({"alpha_final": 0.001}, "alpha none tunes the temperature, which does not go with alpha_final 0.001; give"),
        ({"alpha_final": 0, "alpha": 0.1}, "alpha_final must be above 0"),
        ({"min_range": 0}, "min_range must be above 0"),
        ({"actor_rate_over_alpha": True, "alpha": 0.1}, "actor_rate_over_alpha is for an actor that is one layer on"),
        (
            {"actor_rate_over_alpha": True, "shared_trunk": True},
            "alpha none tunes the temperature, which does not go with actor_rate_over_alpha; give actor_rate",
        ),
        ({"replay_size": 3, "n_step": 3}, "cannot hold n_step 3"),
        ({"replay_size": 8, "n_step": 3, "n_step_final": 9}, "replay_size 8 for 1 environment.s. cannot hold n_step 9"),
        ({"critic_loss": "hl-gauss", "q_clip": 0.5}, "q_clip is for critics that give one number; leave it at 0"),
        ({"value_bins": 1}, "value_bins must be at least 2"),
        ({"value_limit": 0}, "value_limit must be above 0"),
        ({"value_sigma": -1}, "value_sigma must be above 0"),
        ({"layer_norm": True, "rescale_features": True}, "layer_norm takes the place of rescale_features; turn"),
        ({"weight_decay": -0.1}, "weight_decay must be at least 0"),
        ({"weight_decay": 3_000}, "weight_decay 3000 times the learning rate 0.0005 leaves nothing of the weights"),
        ({"n_step_final": 0}, "n_step_final must be at least 1"),
        ({"gamma_final": 1.5}, "gamma_final must be at most 1"),
        ({"anneal_start": 10_000}, "anneal_end 10000 must come after anneal_start 10000"),
        ({"gamma_final": 1.0}, "gamma 1 has an infinite horizon, which cannot change by factors; use anneal_shape lin"),
        ({"anneal_shape": "cosine"}, "anneal_shape is one of exponential, linear, not 'cosine'"),
        ({"reset_every": -1}, "reset_every must be at least 0"),
        ({"reset_keep": 1.1}, "reset_keep must be at most 1"),
        ({"reset_until": 5_000}, "reset_until 5000 has no meaning without resets; give reset_every too"),
        ({"augment_pictures": "weather"}, "augment_pictures is one of none, generic, near, not 'weather'"),
        (
            {"augment_pictures": "near", "picture_filter": "high-pass"},
            "augment_pictures must change pictures before picture_filter does.*harden the trained agent instead",
        ),
        (
            {"augment_pictures": "generic", "batch_size": 8},
            "augmented_states 16 is more than batch_size 8; at most the whole minibatch can be shown a second time",
        ),
        ({"augmented_states": 0}, "augmented_states must be at least 1"),
    ],
)
def test_a_bad_setting_is_answered_with_a_sentence(settings, message):
    with pytest.raises(ConfigError, match=message) as caught:
        make_config(**settings)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


def test_the_paper_preset_is_the_papers_setting():
    c = make_config("paper")
    assert (c.gamma, c.batch_size, c.replay_size, c.random_steps) == (0.99, 64, 1_000_000, 20_000)
    assert (c.learning_rate, c.adam_eps, c.train_every, c.target_every, c.target_tau) == (3e-4, 1e-4, 4, 8_000, 1.0)
    assert (c.hidden, c.n_step, c.shared_trunk, c.critics, c.initial_alpha) == (512, 1, False, "average", 1.0)
    assert (c.target_entropy_ratio, c.critic_entropy, c.clip_rewards, c.critic_loss) == (0.89, 1.0, True, "mse")
    assert (c.noise_std, c.perturbation, c.multiplier_form, c.noise_scope) == (1.0, "target", "tempered", "state")


def test_the_page_about_minatar_names_every_setting_in_which_its_preset_is_not_the_papers():
    page = (
        (ROOT / "docs" / "minatar.md").read_text(encoding="utf-8").partition("## The preset")[2].partition("\n## ")[0]
    )
    rows = dict(re.findall(r"^\| `(\w+)` \| `?[\w,.-]+`? \| `?([\w,.-]+)", page, re.MULTILINE))
    paper, here = make_config("paper", encoder="nature"), make_config("paper-minatar")
    differing = {f.name for f in dataclasses.fields(Config) if getattr(paper, f.name) != getattr(here, f.name)}
    assert rows.keys() == differing
    for name, said in rows.items():
        value = getattr(here, name)
        assert said == value if isinstance(value, str) else float(said.replace(",", "")) == value, name


def test_settings_are_laid_over_the_preset():
    config = make_config("paper", hidden=7, batch_size=8)  # the preset has its own hidden, and no batch_size
    assert (config.hidden, config.batch_size, config.n_step) == (7, 8, 1)


def test_the_run_id_is_the_hash_of_the_settings_that_are_not_at_their_default():
    """Worked out here from the text, so that a folder written today is found by every later version."""
    text = '{"constraint":"mean","env":"CartPole-v1","noise_std":0.5,"seed":3}'
    config = make_config(env="CartPole-v1", constraint="mean", seed=3, noise_std=0.5, gamma=0.99)
    assert config.run_id == hashlib.sha256(text.encode()).hexdigest()[:16] == "c7ff0235eb46b33a"
    assert config.run_name == "CartPole-v1-dsac-m-s3-c7ff0235"


def test_the_run_id_of_a_preset_is_that_of_its_settings():
    assert make_config(seed=1).run_id == make_config("classic", seed=1).run_id
    assert make_config(**PRESETS["paper"]).run_id == make_config("paper").run_id
    assert len({make_config(preset).run_id for preset in present_presets()}) == len(present_presets())


def test_augmented_states_count_only_where_pictures_are_augmented():
    assert make_config(batch_size=8).augmented_states == 16
    assert make_config(augment_pictures="generic", batch_size=8, augmented_states=8).augmented_states == 8


def test_numbers_are_stored_in_their_declared_type():
    c = make_config(batch_size=32.0, gamma=1)
    assert (type(c.batch_size), type(c.gamma)) == (int, float)
    assert make_config(gamma=1).run_id == make_config(gamma=1.0).run_id


def test_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_config().seed = 3  # type: ignore[misc]


def test_every_setting_is_explained_in_words_of_its_own_on_the_command_line(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "--help"])
    assert stop.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    explained = {f.name: f.metadata["help"] for f in dataclasses.fields(Config)}
    assert len(set(explained.values())) == len(explained)
    for name, text in explained.items():
        beyond_its_name = set(re.findall("[a-z]+", text.lower())) - set(name.split("_"))
        assert len(beyond_its_name) >= 2, name
        if name not in ("env", "constraint"):  # the command has an argument and --agent for these
            assert re.search(rf"--{name.replace('_', '-')}(?![\w-])", shown), name
            assert " ".join(text.split()) in shown, name


def test_a_setting_that_may_be_left_out_says_what_happens_then():
    optional = [f for f in dataclasses.fields(Config) if type(None) in typing.get_args(f.type)]
    assert "alpha" in [f.name for f in optional]
    for f in optional:
        assert re.search(r"\bnone\b", f.metadata["help"]), f.name


@pytest.mark.parametrize(
    ("setting", "allowed", "refused"),
    [
        ("gamma", (0.0, 1.0), (-0.01, 1.01)),
        ("target_tau", (1e-9, 1.0), (0.0, 1.01)),
        ("learning_rate", (1e-12, 10.0), (0.0, -1e-3)),
        ("n_step", (1, 1_000), (0, 1_001)),
        ("seed", (0, 2**32 - 1), (-1, 2**32)),
        ("fixed_lambda", (0.0, 1.0), (-0.1, 1.1)),
        ("envs", (1, 64), (0, -1)),
        ("random_steps", (0, 10**9), (-1,)),
        ("initial_alpha", (1e-9, 100.0), (0.0,)),
        ("critic_entropy", (0.0, 1.0), (-0.1, 1.1)),
    ],
)
def test_the_ends_of_a_range_are_allowed_and_what_lies_beyond_is_refused(setting, allowed, refused):
    for value in allowed:
        assert getattr(make_config(**{setting: value}), setting) == value
    for value in refused:
        with pytest.raises(ConfigError, match=f"^{setting} must be"):
            make_config(**{setting: value})


def test_pictures_get_the_efficient_preset_and_everything_else_the_classic_one():
    assert DSAC("dsacc/Catch-v0").config == make_config("efficient", env="dsacc/Catch-v0")
    assert DSAC("CartPole-v1").config == make_config("classic", env="CartPole-v1")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_complete_and_names_no_agent(preset):
    config = make_config(preset)
    assert (config.agent, config.env, config.seed) == ("dsac", "", 0)
    assert {name: getattr(config, name) for name in PRESETS[preset]} == PRESETS[preset]


def test_agents_are_named_as_in_the_paper():
    assert [agent_name(c) for c in (None, "mean", "variance", "both")] == ["dsac", "dsac-m", "dsac-v", "dsac-mv"]
