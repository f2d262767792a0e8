"""The same seed gives the same result in any process."""

import hashlib
import subprocess
import sys

import pytest
from helpers.extras import atari

PROGRAM = """
import hashlib, sys, torch
torch.set_num_threads(int(sys.argv[5]))
from dsacc import DSAC
env, constraint, preset = sys.argv[1], sys.argv[2] or None, sys.argv[3]
model = DSAC(env, constraint=constraint, preset=preset, seed=int(sys.argv[4]), random_steps=100, batch_size=16)
model.learn(140)
digest = hashlib.sha256()
for name, tensor in sorted(model.learner.state().items()):
    digest.update(name.encode() + tensor.numpy().tobytes())
print(digest.hexdigest())
"""


def digest(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True)
    assert len(done.stdout.strip()) == len(hashlib.sha256().hexdigest())
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("env", "constraint", "preset", "threads"),
    [
        ("CartPole-v1", "mean", "classic", "1"),
        ("CartPole-v1", "both", "classic", "1"),
        ("dsacc/Catch-v0", "variance", "efficient", "1"),
        pytest.param("Breakout", "mean", "efficient", "2", marks=atari),
    ],
)
def test_same_seed_gives_the_same_parameter_hash_in_two_fresh_processes(env, constraint, preset, threads):
    first = digest(env, constraint, preset, "0", threads)
    assert digest(env, constraint, preset, "0", threads) == first
    assert digest(env, constraint, preset, "1", threads) != first
