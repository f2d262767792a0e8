"""Settings: what is refused and how, and what makes two runs the same."""

import dataclasses

import pytest

from dsacc.config import PRESETS, Config, agent_name, make_config
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
        ({"preset": "fast"}, "unknown preset 'fast'; choose classic, paper, efficient"),
        ({"alpha": 0, "constraint": "mean"}, "alpha 0 has no surrogate policy"),
        (
            {"natural_gradient": True, "surrogate_kl": 1},
            "surrogate_kl has no bounded natural gradient; turn natural_gradient off",
        ),
        ({"alpha": 0, "surrogate_kl": 1}, "alpha 0 has no surrogate policy"),
        ({"replay_size": 3, "n_step": 3}, "cannot hold n_step 3"),
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


def test_settings_are_laid_over_the_preset():
    assert make_config("paper", batch_size=7).batch_size == 7
    assert make_config("paper", batch_size=7).hidden == 512


def test_run_id_is_the_content():
    assert make_config(seed=1).run_id == make_config("classic", seed=1).run_id
    changed = {make_config(seed=1).run_id, make_config(seed=2).run_id, make_config(noise_std=0.5).run_id}
    assert len(changed) == 3


def test_numbers_are_stored_in_their_declared_type():
    c = make_config(batch_size=32.0, gamma=1)
    assert (type(c.batch_size), type(c.gamma)) == (int, float)
    assert make_config(gamma=1).run_id == make_config(gamma=1.0).run_id


def test_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_config().seed = 3  # type: ignore[misc]


def test_every_field_is_explained():
    for f in dataclasses.fields(Config):
        assert len(f.metadata["help"]) > 10, f.name


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_valid(preset):
    assert make_config(preset).agent == "dsac"


def test_agents_are_named_as_in_the_paper():
    assert [agent_name(c) for c in (None, "mean", "variance", "both")] == ["dsac", "dsac-m", "dsac-v", "dsac-mv"]
