"""What is checked before a run begins."""

import pytest
import torch

from dsacc.config import make_config
from dsacc.errors import ConfigError
from dsacc.training.checks import find_device, only_random, refuse_policy, require_memory, whole_steps


def test_a_call_as_stable_baselines3_has_it_is_answered():
    refuse_policy("CartPole-v1", {"gamma": 0.9})
    with pytest.raises(ConfigError, match="DSAC takes no policy such as 'MlpPolicy'"):
        refuse_policy("MlpPolicy", {})
    with pytest.raises(ConfigError, match="replay_size"):
        refuse_policy("CartPole-v1", {"gamma": 0.9, "buffer_size": 10})


@pytest.mark.parametrize("steps", [0, -1, 1.5, True])
def test_steps_are_whole_and_at_least_one(steps):
    with pytest.raises(ConfigError, match="steps must be a whole number of at least 1"):
        whole_steps(steps)
    assert (whole_steps(1), whole_steps(2e3)) == (1, 2_000)
    assert isinstance(whole_steps(2e3), int)


def test_a_replay_that_just_fits_is_taken_and_one_byte_more_is_not():
    config = make_config("classic", replay_size=1_000)
    require_memory(config, 500, 500, 10_000, pictures=True)
    with pytest.raises(ConfigError, match=r"of 1,000 steps needs .*; use replay_size 450 or replay_compression lz4"):
        require_memory(config, 1_000, 500, 10_000, pictures=True)
    with pytest.raises(ConfigError, match=r"of 100 steps needs .*; use replay_size 89$"):
        require_memory(config, 501, 500, 100, pictures=False)
    with pytest.raises(ConfigError, match=r"; use replay_size 449$"):
        require_memory(make_config("classic", replay_size=500, replay_compression="lz4"), 501, 500, 10_000, True)


def test_a_device_that_is_not_there_is_refused():
    assert find_device("cpu") == "cpu"
    assert find_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ConfigError, match=r"device 'abacus' is not available here \(there are cpu, cuda and mps\)"):
        find_device("abacus")
    if not torch.cuda.is_available():
        with pytest.raises(
            ConfigError, match=r"device 'cuda:1' is not available here \((?!there are cpu).+\); use cpu"
        ):
            find_device("cuda:1")  # torch's own reason says more than which devices there are


def test_a_run_that_ends_before_it_learns_is_told_so():
    assert only_random(1_500, 20_000).startswith("all 1,500 steps are random play")
    assert "random_steps = 20,000" in only_random(1_500, 20_000)
