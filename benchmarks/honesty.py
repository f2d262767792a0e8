"""What a user sees where a number could be of something else: eight trials, with any installation of dsacc.

    python benchmarks/honesty.py
    python benchmarks/honesty.py --bin /path/to/another/.venv/bin     # the same with another version

Each trial is a command or a small program in an empty folder. What it prints and its exit code are shown as they are.
Takes about two minutes. Needs the extra atari.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MODULE = """
import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Good(gym.Env):
    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(self.observation_space.shape, self.observation_space.dtype), {}

    def step(self, action):
        self.t += 1
        return np.zeros(self.observation_space.shape, self.observation_space.dtype), 1.0, self.t >= 5, False, {}


class NanReward(Good):
    def step(self, action):
        seen, _, *rest = super().step(action)
        return seen, float("nan"), *rest


class FourValues(Good):
    def step(self, action):
        seen, reward, over, _, info = super().step(action)
        return seen, reward, over, info


class NoReward(Good):
    def step(self, action):
        seen, _, *rest = super().step(action)
        return seen, None, *rest


class OldReset(Good):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class Raises(Good):
    def step(self, action):
        return 1 / 0


class Pictures(Good):
    observation_space = spaces.Box(0, 1, (40, 40, 3), np.float32)


class ManyActions(Good):
    action_space = spaces.Discrete(1_000_000)


for kind in (Good, NanReward, FourValues, NoReward, OldReset, Raises, Pictures, ManyActions):
    gym.register(f"{kind.__name__}-v0", kind, disable_env_checker=True)
"""
WRAPPED = """
import gymnasium as gym, numpy as np
from dsacc import DSAC, evaluate

def wrapped():
    env = gym.make("CartPole-v1")
    return gym.wrappers.TransformObservation(env, lambda x: np.float32(-3) * x[::-1].copy(), env.observation_space)

model = DSAC(wrapped(), constraint="mean", seed=0).learn(4_000, out="wrapped")
env, own = wrapped(), []
for seed in range(5):
    (seen, _), score, over = env.reset(seed=seed), 0.0, False
    while not over:
        action, _ = model.predict(seen, deterministic=True)
        seen, reward, terminated, truncated, _ = env.step(int(action))
        score, over = score + reward, terminated or truncated
    own.append(score)
print("its own loop:   ", own)
print("evaluate(model):", evaluate(model, episodes=5)[0]["returns"])
"""
NAMELESS = """
from bad_envs import Good
from dsacc import DSAC, evaluate

model = DSAC(Good(), random_steps=20, hidden=16, batch_size=8).learn(60)
for name, env in {"no env": None, "an instance": Good(), "a class": Good, "a function": lambda: Good()}.items():
    try:
        print(name, evaluate(model, env, episodes=2)[0]["returns"])
    except Exception as error:
        print(name, type(error).__name__, error)
"""
FLIPPED = """
from pathlib import Path
from dsacc import DSAC

DSAC("CartPole-v1", hidden=16).save("agent")
data = bytearray(Path("agent.safetensors").read_bytes())
data[-40] ^= 1
Path("agent.safetensors").write_bytes(data)
print(DSAC.load("agent"))
"""
PROGRESS = re.compile(r" (steps|episodes)/s ")
RANDOM = "evaluate random --episodes 2 --env bad_envs:"
TRIALS: list[tuple[str, list[str]]] = [
    (
        "1. Runs that differ are not one agent",
        [
            "train CartPole-v1 --steps 1200 --out r1",
            "train CartPole-v1 --steps 1200 --gamma 0.5 --seed 1 --out r2",
            "evaluate r1 r2",
        ],
    ),
    ("2. The environment that an agent was trained on", ["python wrapped.py", "evaluate wrapped"]),
    ("3. An instance, a class and a function are environments", ["python nameless.py"]),
    ("4. A run that cannot be written", ["sh rm -rf r1/evaluations; touch r1/evaluations", "evaluate r1"]),
    (
        "5. Environments with a mistake",
        [f"{RANDOM}{kind}-v0" for kind in ("NanReward", "FourValues", "NoReward", "OldReset", "Raises")],
    ),
    (
        "6. Nothing learned, float pictures, a million actions",
        [
            "train bad_envs:Good-v0 --steps 500 --out short",
            "train bad_envs:Pictures-v0 --steps 60 --random-steps 30 --batch-size 8 --out pictures",
            'sh grep -o \'"encoder": "[a-z]*"\' pictures/config.json',
            "train bad_envs:ManyActions-v0 --steps 1 --random-steps 0 --out many",
        ],
    ),
    ("7. Not shown to beat random play", ["evaluate random --env Breakout --episodes 3 --shifts id"]),
    ("8. A saved agent with one flipped bit", ["python flipped.py"]),
]


def shown(command: str, binaries: Path, folder: Path) -> str:
    """What the command prints, its last lines if these are many, and its exit code."""
    program, _, rest = command.partition(" ")
    if program == "sh":
        call = ["sh", "-c", rest]
    elif program == "python":
        call = [str(binaries / "python"), rest]
    else:
        call = [str(binaries / "dsacc"), *command.split()]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=300)
    lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip() and not PROGRESS.search(line)]
    cut = ["   ..."] if len(lines) > 14 else []
    typed = rest if program == "sh" else command if program == "python" else f"dsacc {command}"
    return "\n".join([f"$ {typed}", *cut, *(f"   {line}" for line in lines[-14:]), f"   exit code {done.returncode}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(sys.executable).parent, help="folder of python and dsacc")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = {"bad_envs": MODULE, "wrapped": WRAPPED, "nameless": NAMELESS, "flipped": FLIPPED}
        for program, text in programs.items():
            (folder / f"{program}.py").write_text(text)
        for title, commands in TRIALS:
            print(f"\n{title}", flush=True)
            for command in commands:
                print(shown(command, args.bin.absolute(), folder), flush=True)


if __name__ == "__main__":
    main()
