"""Settings as editors, type checkers and users of Stable-Baselines3 see them."""

import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from dsacc import DSAC
from dsacc.config import Config, make_config
from dsacc.errors import ConfigError
from dsacc.settings import Settings, answer

SOURCE = Path(__file__).parents[1] / "src"
OWN_ARGUMENTS = {"env", "constraint", "seed"}  # of DSAC, beside the settings


def test_the_typed_settings_are_those_of_config():
    assert Settings.__annotations__ == {f.name: f.type for f in fields(Config) if f.name not in OWN_ARGUMENTS}
    assert set(inspect.signature(DSAC).parameters) >= OWN_ARGUMENTS


# The large libraries are passed over: their types do not matter here, and reading them takes a minute.
MYPY = """
[mypy]
follow_imports = silent
python_version = 3.11
[mypy-torch.*,numpy.*,gymnasium.*,safetensors.*,lz4.*,psutil.*,cv2.*,rich.*,ale_py.*]
follow_imports = skip
ignore_missing_imports = True
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('DSAC("CartPole-v1", n_step=3, learning_rate=1e-4, alpha=None)', None),
        ('DSAC("CartPole-v1", n_stp=3)', 'Unexpected keyword argument "n_stp"'),
        ('DSAC("CartPole-v1", critics="mean")', "incompatible type \"Literal['mean']\""),
    ],
)
def test_mypy_finds_a_misspelt_setting_before_anything_runs(call, said, tmp_path, mypy_cache):
    pytest.importorskip("mypy")
    (tmp_path / "mine.py").write_text(f"from dsacc import DSAC\n{call}\n")
    (tmp_path / "mypy.ini").write_text(MYPY)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(mypy_cache), "mine.py"]
    done = subprocess.run(command, cwd=tmp_path, env={"MYPYPATH": str(SOURCE)}, capture_output=True, text=True)
    assert done.returncode == (0 if said is None else 1), done.stdout + done.stderr
    if said is not None:
        assert "mine.py:2: error:" in done.stdout
        assert said in done.stdout


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


# --- Stable-Baselines3's names ---


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("learning_starts", "random_steps"),
        ("buffer_size", "replay_size"),
        ("ent_coef", "alpha"),
        ("train_freq", "train_every"),
        ("gradient_steps", "updates"),
        ("tau", "target_tau"),
        ("target_update_interval", "target_every"),
        ("verbose", "progress_bar=True"),
        ("tensorboard_log", "tensorboard=True"),
        ("policy_kwargs", "hidden"),
    ],
)
def test_a_name_of_stable_baselines3_is_answered_with_ours(theirs, ours):
    with pytest.raises(ConfigError, match=f"Stable-Baselines3's {theirs} is .*{ours}"):
        DSAC("CartPole-v1", **{theirs: 1})
    with pytest.raises(ConfigError, match=ours):
        make_config(**{theirs: 1})


def test_every_argument_of_stable_baselines3s_agents_is_ours_or_answered():
    sb3 = pytest.importorskip("stable_baselines3")
    known = {f.name for f in fields(Config)} | set(inspect.signature(DSAC).parameters)
    for agent in (sb3.DQN, sb3.SAC, sb3.PPO, sb3.A2C):
        for name in inspect.signature(agent).parameters:
            assert name in known or answer(name) or name in UNANSWERED, f"{agent.__name__}({name}=...)"


# Rarely used, and of one algorithm alone.
UNANSWERED = {
    "_init_setup_model",
    "rollout_buffer_class",
    "rollout_buffer_kwargs",
    "rms_prop_eps",
    "use_rms_prop",
    "double_q",
}


def test_an_answer_names_a_setting_that_exists():
    names = {f.name for f in fields(Config)}
    from dsacc.settings import _CALLED_HERE, _INSTEAD

    assert set(_CALLED_HERE.values()) <= names
    assert not (_CALLED_HERE.keys() | _INSTEAD.keys()) & names


@pytest.mark.parametrize("policy", ["MlpPolicy", "CnnPolicy", "MultiInputPolicy"])
def test_a_policy_before_the_environment_is_answered(policy):
    with pytest.raises(ConfigError, match=rf"takes no policy such as '{policy}'.*DSAC\(env\)"):
        DSAC(policy, "CartPole-v1")
    with pytest.raises(ConfigError, match="policy is not needed here"):
        DSAC(policy=policy, env="CartPole-v1")
