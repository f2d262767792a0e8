"""For all tests: one thread per process, which tests are slow or long, which begin first, and which are skipped without
their extra.

`make test-fast` runs the tests that are not `slow`, `make test` those that are not `long`, `make test-long` the others.
A test is slow or long by its own mark, or because it is listed here.
"""

import re
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch

from dsacc.system.extras import how_to_install

# The tests run side by side, and results must not depend on how many cores the machine has.
torch.set_num_threads(1)

# Rooms, files and tests that start programs, browsers, clusters or emulators, or train for more than two seconds.
SLOW = (
    "tests/agent/test_heads.py",
    "tests/benchmarks/test_recipe.py",
    "tests/cli/test_demo.py",
    "tests/cli/test_trust.py",
    "tests/envs/test_atari.py",
    "tests/experiments/",
    "tests/hardening/",
    "tests/play/test_adapters.py",
    "tests/play/test_export.py",
    "tests/robustness/",
    "tests/runs/test_checkpoint.py::test_no_manifest_gives_a_traceback_or_a_write_outside",
    "tests/runs/test_checkpoint.py::test_steps_may_grow_and_the_run_goes_on_from_its_end",
    "tests/runs/test_lock.py",
    "tests/runs/test_two_hosts.py",
    "tests/system/test_memory.py::test_an_update_finds_its_memory_where_the_last_one_left_it",
    "tests/system/test_progress.py",
    "tests/test_document_blocks.py",
    "tests/test_examples.py",
    "tests/training/test_candidates.py",
    "tests/training/test_determinism.py",
    "tests/views/report/test_browser.py",
    "tests/views/report/test_report.py",
    "tests/views/test_watch.py",
)
# Kills, clusters, studies, and single tests that take long: `make test-long` and CI run them.
LONG = (
    "tests/cli/test_demo.py::test_the_demo_trains_tests_and_says_where_the_results_are",
    "tests/experiments/test_experiment.py::test_a_killed_driver_leaves_no_process_and_the_next_one",
    "tests/experiments/test_ray.py::test_a_cluster_that_answers_without_a_token_is_refused",
    "tests/experiments/test_ray.py::test_after_a_stop_a_kill_and_a_failing_run",
    "tests/experiments/test_ray.py::test_the_death_of_the_head_is_one_sentence",
    "tests/experiments/test_slurm.py::test_a_failed_run_is_named_with_its_error_after_another_try",
    "tests/experiments/test_slurm.py::test_a_job_that_must_leave_its_node_saves_and_is_queued_again",
    "tests/experiments/test_stage.py::test_a_task_ended_while_it_hardens_continues",
    "tests/experiments/test_stage.py::test_the_command_trains_hardens_and_tests_and_repeats_nothing",
    "tests/experiments/test_taken.py::test_a_run_that_somebody_stops_continues_at_no_cost",
    "tests/play/test_export.py::test_a_graph_acts_as_the_agent_on_1000_observations[nature]",
    "tests/play/test_export.py::test_a_graph_acts_as_the_agent_on_1000_observations[standardised]",
    "tests/robustness/test_crash.py",
    "tests/robustness/test_mutants.py::test_a_tiny_project_is_judged_change_by_change",
    "tests/test_document_blocks.py::test_every_block_of_a_document_does_what_it_says[README.md]",
    "tests/test_document_blocks.py::test_every_block_of_a_document_does_what_it_says[evaluation.md]",
    "tests/test_document_blocks.py::test_every_block_of_a_document_does_what_it_says[hardening.md",
    "tests/test_document_blocks.py::test_every_block_of_a_document_does_what_it_says[agents.md]",
    "tests/test_document_blocks.py::test_every_block_of_a_document_does_what_it_says[report.md]",
    "tests/test_document_blocks.py::test_every_block_of_a_document_does_what_it_says[training.md]",
    "tests/test_examples.py::test_an_example_runs[ray_two_nodes]",
    "tests/test_examples.py::test_an_example_runs[sb3_under_weather]",
    "tests/training/test_determinism.py::test_same_seed_gives_the_same_parameter_hash_in_two_fresh_processes[CartPole-v1-b",
    "tests/training/test_determinism.py::test_same_seed_gives_the_same_parameter_hash_in_two_fresh_processes[Breakout",
    "tests/training/test_determinism.py::test_same_seed_gives_the_same_parameter_hash_in_two_fresh_processes[dsacc/Catch",
    "tests/training/test_learning.py::test_constant_lambda_raises_the_actors_temperature_as_derived",
    "tests/training/test_learning.py::test_decoupled_critics_learn_the_value_without_the_entropy_bonus",
    "tests/training/test_learning.py::test_temperature_brings_the_entropy_to_its_target",
    "tests/training/test_learning.py::test_two_state_chain_has_its_soft_values",
    "tests/training/test_loop.py::test_train_breakout_from_the_command_line",
    "tests/views/report/test_report.py::test_the_papers_grid_fits_into_one_page",
)
# What begins first. Workers take tests from the end of one another's lists. So files whose tests share something that
# takes long to make are at the beginning, where it is made once, then those whose single tests take longest, then the
# other slow ones. What is left at the end is short, and nobody waits for the last one.
FIRST = ("tests/views/report/", "tests/test_document_blocks.py", "tests/test_examples.py", "tests/experiments/")
# By package: the extra that brings it, and what a failure says where it is missing, beside how to install it.
EXTRAS = {
    "ale_py": ("atari", r"ale[-_]py|there is no Atari game"),
    "Box2D": ("box2d", r"Box2D is not installed"),
    "minatar": ("minatar", r"MinAtar's games are not installed"),
    "imageio_ffmpeg": ("video", r"imageio_ffmpeg"),
    "onnx": ("onnx", r"named 'onnx"),
    "ray": ("ray", r"named 'ray'"),
    "stable_baselines3": ("sb3", r"stable_baselines3|sb3_contrib"),
    "submitit": ("slurm", r"submitit"),
    "tensorboardX": ("tensorboard", r"tensorboardX"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
        if item.nodeid.startswith(LONG):
            item.add_marker(pytest.mark.long)
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """When a test begins. The order of tests of the same turn stays, so that modules are not torn apart."""
    turns = (turn for turn, start in enumerate(FIRST) if item.nodeid.startswith(start))
    return next(turns, len(FIRST) + (item.get_closest_marker("slow") is None))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that fails because an extra is not installed is skipped, and says what to install.

    `make test` installs every extra, so nothing is hidden there.
    """
    report = yield
    if report.failed:
        said = report.longreprtext + report.capstderr
        for package, (extra, sign) in EXTRAS.items():
            if find_spec(package) is None and (re.search(sign, said) or how_to_install(extra) in said):
                report.outcome = "skipped"
                report.longrepr = (str(item.path), 0, f"Skipped: needs {package}: {how_to_install(extra)}")
                break
    return report
