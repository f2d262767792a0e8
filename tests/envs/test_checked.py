"""A wrong answer of an environment, or an exception in it, ends in one sentence about it."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import PassiveEnvChecker, TimeLimit
from probes import Probe

from dsacc import DSAC, Shift, evaluate, harden, make_env
from dsacc.cli import main
from dsacc.envs import checked
from dsacc.errors import EnvError, EnvFailed
from dsacc.views.preview import preview
from dsacc.views.watch import watch

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:gymnasium")  # it sees the same faults
SEEN = np.zeros(2, np.float32)
FIVE = "Gymnasium expects (observation, reward, terminated, truncated, info)"
TWO = "Gymnasium expects (observation, info), where info is a dict"


class Answers(Probe):
    """Gives these answers, whatever is asked."""

    def __init__(self, step=(SEEN, 0.0, False, False, {}), reset=(SEEN, {})):
        super().__init__()
        self.answers = (step, reset)

    def reset(self, *, seed=None, options=None):
        return self.answers[1]

    def step(self, action):
        return self.answers[0]


class Raises(gym.Env):
    """A game of pictures whose third step raises."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = spaces.Box(0, 255, (40, 40, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.age = 0
        return np.zeros((40, 40, 3), np.uint8), {}

    def step(self, action):
        self.age += 1
        return np.zeros((40, 40, 3), np.uint8), 1.0 / (3 - self.age), False, False, {}


class RaisesAtOnce(Raises):
    def __init__(self):
        self.table = {}["missing"]


gym.register("Raises-v0", Raises)
gym.register("RaisesAtOnce-v0", RaisesAtOnce)


@pytest.fixture(params=["plain", "checked by Gymnasium", "with a time limit", "under a shift"])
def wrapped(request):
    """Wrappers unpack answers before they reach us; the sentence is the same."""
    return {
        "plain": lambda env: env,
        "checked by Gymnasium": PassiveEnvChecker,
        "with a time limit": lambda env: TimeLimit(PassiveEnvChecker(env), 9),
        "under a shift": lambda env: Shift(PassiveEnvChecker(env), "gaussian_noise"),
    }[request.param]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((SEEN, 0.0, False, {}), f"step 7 of Answers returned 4 values; {FIVE}"),
        (None, f"step 7 of Answers returned None; {FIVE}"),
        ((SEEN, None, False, False, {}), f"returned None as reward, which must be one number; {FIVE}"),
        ((SEEN, np.ones(1), False, False, {}), "returned an array of shape (1,) as reward, which must be one number"),
        ((SEEN, "1", False, False, {}), "returned a str as reward"),
        ((SEEN, float("nan"), False, False, {}), "returned the reward nan; rewards must be finite numbers"),
        ((SEEN, np.float32("inf"), False, False, {}), "returned the reward inf"),
        ((SEEN, 0.0, False, {}, {}), "returned a dict as truncated, which must be True or False"),
        ((SEEN, 0.0, None, False, {}), "returned None as terminated"),
        ((SEEN, 0.0, False, False, None), "returned None as info, which must be a dict"),
    ],
)
def test_a_wrong_answer_of_step_is_told_with_what_gymnasium_expects(answer, sentence, wrapped):
    env = wrapped(Answers(step=answer))
    checked.reset(env, 0)
    with pytest.raises(EnvError) as told:
        checked.step(env, 0, 7)
    assert sentence in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (SEEN, f"reset() of Answers returned the observation alone; {TWO}"),
        ((SEEN, {}, 0), f"reset() of Answers returned 3 values; {TWO}"),
        ((SEEN, None), f"reset() of Answers returned 2 values; {TWO}"),
        ((np.zeros(3, np.float32), {}), "as observation; its observation_space says an array of shape (2,)"),
    ],
)
def test_a_wrong_answer_of_reset_is_told_with_what_gymnasium_expects(answer, sentence):
    for env in (Answers(reset=answer), PassiveEnvChecker(Answers(reset=answer))):
        with pytest.raises(EnvError) as told:
            checked.reset(env, 0)
        assert sentence in str(told.value)


def test_an_observation_of_another_shape_is_told_when_it_comes():
    with pytest.raises(EnvError, match=r"step 2 of Answers returned an array of shape \(3,\) as observation"):
        checked.step(Answers(step=(np.zeros(3), 0.0, False, False, {})), 0, 2)


@pytest.mark.parametrize("reward", [1, True, np.float32(1), np.int64(1), np.array(1.0)])
@pytest.mark.parametrize("flag", [False, np.False_, 0, np.array(False)])
def test_numbers_and_flags_of_numpy_are_taken_as_pythons_own(reward, flag):
    answer = checked.step(Answers(step=([0.0, 1.0], reward, flag, flag, {})), 0, 1)
    assert answer == ([0.0, 1.0], 1.0, False, False, {})
    assert [type(value) for value in answer[1:4]] == [float, bool, bool]


def test_a_reset_without_a_seed_argument_says_how_it_is_called():
    class Old(Probe):
        def reset(self):
            return SEEN, {}

    with pytest.raises(EnvFailed, match=r"unexpected keyword argument 'seed'; Gymnasium calls reset\(seed=\.\.\., opt"):
        checked.reset(Old(), 0)


def _act(observations):
    return np.zeros(len(observations), np.int64)


@pytest.mark.parametrize(
    "verb",
    [
        lambda env, out: DSAC(env, random_steps=1).learn(9, out=out),
        lambda env, out: evaluate(_act, env, shifts=["id"], out=out),
        lambda env, out: evaluate("random", env, shifts=["snow"], out=out),
        lambda env, out: watch("random", env, shifts=["id"], out=out / "film.gif"),
        lambda env, out: preview([env], out / "preview.png", shifts=[]),
        lambda env, out: harden(_act, env, states=300, updates=1, rounds=0, out=out),
    ],
    ids=["learn", "evaluate", "evaluate a shift", "watch", "preview", "harden"],
)
def test_whoever_plays_tells_of_an_exception_in_step_and_keeps_it(verb, tmp_path):
    with pytest.raises(
        EnvFailed, match=r"^step 3 of Raises-v0 failed: ZeroDivisionError: float division by zero$"
    ) as told:
        verb("Raises-v0", tmp_path)
    assert isinstance(told.value, ValueError)
    assert isinstance(told.value.__cause__, ZeroDivisionError)


def test_an_exception_in_a_constructor_is_told_and_kept():
    for make in (lambda: make_env("RaisesAtOnce-v0"), lambda: DSAC(RaisesAtOnce)):
        with pytest.raises(EnvFailed, match=r"RaisesAtOnce\S* could not be made: KeyError: 'missing'") as told:
            make()
        assert isinstance(told.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("env", "sentence", "line"),
    [
        ("Raises-v0", "dsacc: step 3 of Raises-v0 failed", "ZeroDivisionError: float division by zero"),
        ("RaisesAtOnce-v0", "dsacc: RaisesAtOnce-v0 could not be made", "KeyError: 'missing'"),
    ],
)
def test_the_command_line_shows_the_users_own_lines_beneath_the_sentence(env, sentence, line, capsys):
    assert main(["evaluate", "random", "--env", env, "--shifts", "id"]) == 2
    first, *below = capsys.readouterr().err.splitlines()
    assert first.startswith(sentence)
    assert below[-1] == line
    assert "test_checked.py" in below[0]
    assert not any("dsacc/envs" in text or "gymnasium" in text for text in below)


def test_an_environment_whose_reward_is_nan_is_not_scored(capsys):
    gym.register("Nan-v0", lambda **_: Answers(step=(SEEN, float("nan"), True, False, {})))
    assert main(["evaluate", "random", "--env", "Nan-v0", "--format", "json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "dsacc: step 1 of Nan-v0 returned the reward nan; rewards must be finite numbers\n"
