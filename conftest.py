"""For all tests: one thread per process, what belongs to the slow lane, and what is skipped without its extra.

`make test-fast` runs the tests that are not `slow`. A test is slow by its own mark, or because its file is listed here.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

# The tests run side by side, and results must not depend on how many cores the machine has.
torch.set_num_threads(1)

TESTS = Path(__file__).parent / "tests"
# Rooms and files whose tests start programs, browsers, clusters or emulators, or train for longer than a second or two.
SLOW = [
    "cli/test_demo.py",
    "envs/test_atari.py",
    "experiments",
    "play/test_adapters.py",
    "play/test_export.py",
    "robustness",
    "runs/test_lock.py",
    "test_document_blocks.py",
    "test_examples.py",
    "training/test_determinism.py",
    "views/report/test_browser.py",
    "views/report/test_report.py",
    "views/test_watch.py",
]
# What a message calls the package, and the extra that brings it.
EXTRAS = {
    "ale_py": ("ale-py", "atari"),
    "Box2D": ("box2d", "box2d"),
    "imageio_ffmpeg": ("dsacc[video]", "video"),
    "onnx": ("dsacc[onnx]", "onnx"),
    "ray": ("dsacc[ray]", "ray"),
    "sb3_contrib": ("dsacc[sb3]", "sb3"),
    "stable_baselines3": ("dsacc[sb3]", "sb3"),
    "submitit": ("dsacc[slurm]", "slurm"),
    "tensorboardX": ("dsacc[tensorboard]", "tensorboard"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = [TESTS / name for name in SLOW]
    for item in items:
        if any(item.path == place or place in item.path.parents for place in slow):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that fails because an extra is not installed is skipped, and says what to install."""
    report = yield
    if report.failed:
        said = report.longreprtext + report.capstderr
        for package, extra in _missing().items():
            names = (package, EXTRAS[package][0])
            if any(name in line and _says_absent(line) for line in said.splitlines() for name in names):
                report.outcome = "skipped"
                report.longrepr = (str(item.path), 0, f"Skipped: needs {package}: pip install 'dsacc[{extra}]'")
                break
    return report


def _missing() -> dict[str, str]:
    return {package: extra for package, (_, extra) in EXTRAS.items() if find_spec(package) is None}


def _says_absent(line: str) -> bool:
    return any(words in line for words in ("No module named", "not installed", "pip install"))
