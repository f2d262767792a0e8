"""A seed means the same result, in any process."""

import hashlib
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, sys, torch
torch.set_num_threads(1)
from dsacc import DSAC
env, constraint, preset = sys.argv[1], sys.argv[2] or None, sys.argv[3]
model = DSAC(env, constraint=constraint, preset=preset, seed=int(sys.argv[4]), random_steps=100, batch_size=16)
model.learn(400)
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
    ("env", "constraint", "preset"),
    [
        ("CartPole-v1", "mean", "classic"),
        ("CartPole-v1", "both", "classic"),
        ("dsacc/Catch-v0", "variance", "efficient"),
    ],
)
def test_same_seed_gives_the_same_parameter_hash_in_two_fresh_processes(env, constraint, preset):
    first = digest(env, constraint, preset, "0")
    assert digest(env, constraint, preset, "0") == first
    assert digest(env, constraint, preset, "1") != first
