"""Page faults of a training loop's allocations, counted in processes of their own."""

import os
import subprocess
import sys

import pytest

# Fixed, because thresholds of glibc's own move with what a process has freed before: large blocks go back when freed.
GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}

COUNT = """
import resource, sys
import torch
from dsacc.system.memory import keep_freed_memory
torch.set_num_threads(1)
if sys.argv[1] == "keep":
    assert keep_freed_memory()
weight = torch.ones(256, 4 * 84 * 84)
def update():
    pictures = torch.zeros(32, 4, 84, 84, dtype=torch.uint8).float().div_(255)
    return (pictures.flatten(1) @ weight.T).relu().sum()
for _ in range(5):
    update()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    update()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20)
"""


def faults(how: str) -> float:
    command, env = [sys.executable, "-c", COUNT, how], os.environ | GIVE_BACK
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return float(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator is Linux's")
def test_an_update_finds_its_memory_where_the_last_one_left_it():
    kept, left = faults("keep"), faults("leave")
    assert kept < left / 5  # a busy machine adds some to both: its kernel takes back pages that seem idle
    assert left > 500
