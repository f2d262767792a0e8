"""Slurm without a cluster: submitit's local executor, and programs that stand in for sbatch, srun and squeue.

What a real Slurm does to runs is shown by tests/robustness/slurm.py, which `make slurm-test` runs.
"""

import json
import os
import re
import signal
import time
from pathlib import Path

import psutil
import pytest
from helpers.grids import tiny_grid

pytest.importorskip("submitit")

from dsacc.cli import main
from dsacc.errors import ConfigError
from dsacc.experiments.backends.base import Attempt
from dsacc.experiments.backends.slurm import OnSlurm, sbatch_options
from dsacc.experiments.backends.slurm_job import BEGINS, Job
from dsacc.experiments.grids import load_plan
from dsacc.experiments.plan import write_plan
from dsacc.experiments.scheduler import execute
from dsacc.experiments.taken import times
from dsacc.experiments.task import TaskFile, is_done

HERE = Path(__file__).parents[1]
GRID = tiny_grid(["dsac-m"], 60)
# sbatch keeps the script and starts it; squeue lists what still runs; srun leaves out its own options.
PROGRAMS = {
    "sbatch": """
        id=$(($(ls {state} | grep -c script) + 17))
        cp "$1" {state}/script-$id
        SLURM_JOB_ID=$id setsid bash "$1" </dev/null >>{state}/log 2>&1 &
        echo $! >{state}/pid-$id
        echo "Submitted batch job $id"
    """,
    "srun": 'while [ "$1" != "${1#--}" ]; do case $1 in --output|--error) shift;; esac; shift; done; exec "$@"',
    "squeue": 'for f in {state}/pid-*; do kill -0 $(cat $f) 2>/dev/null && echo ${{f##*-}}; done; true',
    "scancel": "kill -TERM -$(cat {state}/pid-$1)",
    "scontrol": "echo scontrol $* >>{state}/asked; [ $1 = requeue ] || cat {state}/facts",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _probes_can_be_imported(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """A folder of programs in front of PATH; returns where they keep what they were told."""
    programs, state = tmp_path / "programs", tmp_path / "state"
    programs.mkdir()
    state.mkdir()
    for name, text in PROGRAMS.items():
        text = text if name == "srun" else text.format(state=state)
        (programs / name).write_text(f"#!/bin/bash\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return state


def grid(tmp_path: Path, text: str = GRID) -> str:
    (tmp_path / "grid.toml").write_text(text)
    return str(tmp_path / "grid.toml")


def command(tmp_path: Path, *more: str, text: str = GRID) -> list[str]:
    return ["experiment", grid(tmp_path, text), "--backend", "slurm", "--out", str(tmp_path / "out"), *more]


def test_a_run_is_a_job_with_its_cpu_its_memory_its_time_and_requeue(stand_ins, tmp_path, capsys):
    asked = ["--slurm", "partition=long", "--slurm", "account=me", "--slurm", "exclusive", "--slurm-time", "90"]
    assert main(command(tmp_path, *asked)) == 0
    seen = capsys.readouterr()
    assert "Slurm jobs: 17\n" in seen.err
    assert "dsac-m" in seen.out
    script = (stand_ins / "script-17").read_text()
    flags = set(re.findall(r"^#SBATCH --(.*)$", script, re.MULTILINE))
    expected = "cpus-per-task=1 nodes=1 ntasks-per-node=1 mem=1GB time=90 requeue signal=USR2@180 open-mode=append"
    assert set(expected.split()) | {"job-name=dsacc", "partition=long", "account=me", "exclusive"} <= flags
    assert "-m submitit.core._submit" in script
    assert main(command(tmp_path)) == 0  # nothing is left to do
    assert [p.name for p in stand_ins.glob("script-*")] == ["script-17"]


def test_memory_and_gpu_are_those_of_the_run(stand_ins, tmp_path):
    backend = OnSlurm(device="cuda")
    parameters = backend.submitit_executor(tmp_path, 7_600_000_000)._executor.parameters
    assert (parameters["mem"], parameters["gpus_per_node"], parameters["cpus_per_task"]) == ("8GB", 1, 1)


def test_a_job_that_must_leave_its_node_saves_and_is_queued_again(tmp_path, capfd):
    """As at the end of its time or when it is preempted: USR2."""
    out = tmp_path / "out"
    plan = load_plan(grid(tmp_path, GRID.replace("steps = 60", "steps = 900")))
    name = plan.names[0]
    write_plan(plan, out)
    execute(plan, out, plan.names, OnSlurm(executor="local", detach=True), print)
    (job,) = json.loads((out / "slurm" / "jobs.json").read_text()).values()
    until = time.monotonic() + 120
    while not any((out / "runs" / name / "checkpoints").glob("step-*")) and time.monotonic() < until:
        time.sleep(0.05)
    (submission,) = psutil.Process(int(job)).children()
    submission.send_signal(signal.SIGUSR2)
    told = []
    execute(plan, out, plan.names, OnSlurm(executor="local"), told.append)
    assert [(outcome.name, outcome.ok) for outcome in told] == [(name, True)]
    assert json.loads((out / "slurm" / "jobs.json").read_text()) == {name: job}  # the second call took it over
    assert TaskFile(out, name).read()["attempts"] == 2
    assert told[0].taken == "out of time once"
    assert is_done(plan.runs[0], plan.tests, out)
    assert "Requeued job" in (out / "slurm" / f"{job}_0_log.out").read_text()


# What a Slurm 22.05 says of a job that it signals (scontrol), and what its slurmstepd writes into the job's log.
ENDING = "JobId=17 JobName=dsacc JobState={state} Reason={reason} Requeue=1 Restarts={restarts} PreemptTime={preempted}"
STEP = "slurmstepd-n1: error: *** STEP 17.0 ON n1 CANCELLED AT 2026-11-17T15:13:11{why} ***"
AT = "2026-11-17T15:18:03"


def facts(state="COMPLETING", reason="None", restarts=0, preempted="None") -> str:
    return ENDING.format(state=state, reason=reason, restarts=restarts, preempted=preempted)


@pytest.mark.parametrize(
    ("said", "log", "why", "asked_again"),
    [
        (facts(restarts=1), STEP.format(why=" DUE TO PREEMPTION"), "preempted", False),
        (facts(restarts=1), "", "preempted", False),
        (facts("RUNNING", preempted=AT), STEP.format(why=""), "preempted", True),  # has a grace time
        (facts(preempted=AT), STEP.format(why=" DUE TO PREEMPTION"), "preempted", True),  # PreemptMode=CANCEL
        (facts(reason="TimeLimit"), STEP.format(why=" DUE TO TIME LIMIT"), "out of time", True),
        (facts(reason="TimeLimit"), "", "out of time", True),
        (facts(restarts=1), STEP.format(why=" DUE TO NODE FAILURE"), "lost with its node", False),
        (facts(), STEP.format(why=""), None, False),  # scancel
        ("", "", None, False),
    ],
)
def test_after_sigterm_a_job_notes_why_and_is_queued_again_unless_slurm_did_or_it_was_cancelled(
    said, log, why, asked_again, stand_ins, tmp_path, monkeypatch
):
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    (stand_ins / "facts").write_text(said)
    (tmp_path / "slurm").mkdir()
    earlier = STEP.format(why=" DUE TO PREEMPTION")  # of the job's start before this one
    (tmp_path / "slurm" / "17_0_log.err").write_text(f"{BEGINS}\n{earlier}\n{BEGINS}\n{log}\n")
    Job(str(tmp_path), "run", "cpu")._leave()
    assert times(TaskFile(tmp_path, "run").read()) == ({} if why is None else {why: 1})
    assert ("scontrol requeue 17" in (stand_ins / "asked").read_text()) is asked_again


@pytest.mark.parametrize(("state", "asked_again"), [("RUNNING", True), ("COMPLETING", False)])
def test_a_run_that_was_stopped_alone_has_its_job_queued_again_unless_that_was_cancelled(
    state, asked_again, stand_ins, tmp_path, monkeypatch
):
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    (stand_ins / "facts").write_text(facts(state))
    Job(str(tmp_path), "run", "cpu")._leave("stopped from outside")
    assert ("scontrol requeue 17" in (stand_ins / "asked").read_text()) is asked_again
    assert times(TaskFile(tmp_path, "run").read()) == {}  # whoever saw it has noted it


@pytest.mark.parametrize(
    ("state", "restarts", "log", "why"),
    [
        ("training", 1, "", "lost with its node"),
        ("testing", 2, STEP.format(why=" DUE TO PREEMPTION"), "preempted"),  # it had no time to save
        ("stopped", 1, "", "preempted"),
        ("waiting", 1, "", None),  # noted by then
        ("training", 0, "", None),  # a new job, after a kill of the command that waited for the last one
    ],
)
def test_a_job_that_starts_again_notes_what_its_last_start_could_not(state, restarts, log, why, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_RESTART_COUNT", str(restarts))
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm" / "17_0_log.err").write_text(f"{BEGINS}\n{log}\n")
    TaskFile(tmp_path, "run").set(state)
    Job(str(tmp_path), "run", "cpu")._note_silent_end()
    assert times(TaskFile(tmp_path, "run").read()) == ({} if why is None else {why: 1})


def test_a_job_whose_run_gets_no_further_ends_with_the_sentence_also_where_nobody_waits(tmp_path, monkeypatch):
    file = TaskFile(tmp_path, "run")
    for _ in range(10):
        file.take_away("preempted")
    assert "taken away 10 times in a row" in (Job(str(tmp_path), "run", "cpu")() or "")
    assert file.read()["state"] == "failed"


@pytest.mark.parametrize(
    ("state", "run", "taken", "error"),
    [
        ("TIMEOUT", "training", {"out of time": 1}, None),
        ("PREEMPTED", "training", {"preempted": 1}, None),
        ("NODE_FAIL", "training", {"lost with its node": 1}, None),
        ("COMPLETED", "stopped", {"stopped from outside": 1}, None),
        ("CANCELLED", "stopped", {}, "job 17 was cancelled; see "),
        ("OUT_OF_MEMORY", "training", {}, "job 17 ran out of the memory that it asked for; see "),
        ("COMPLETED", "training", {}, "job 17 ended before its run did; see "),
    ],
)
def test_a_job_that_is_gone_was_taken_away_or_failed_as_slurm_says(state, run, taken, error, stand_ins, tmp_path):
    plan = load_plan(grid(tmp_path))
    (stand_ins / "facts").write_text(facts(state))
    TaskFile(tmp_path, plan.names[0]).set(run)
    ending = OnSlurm()._ending("17", Attempt(plan.runs[0], plan.tests, tmp_path, 0))
    assert ending.taken == next(iter(taken), None)
    assert times(TaskFile(tmp_path, plan.names[0]).read()) == taken
    assert (ending.error or "").startswith(error or "")
    assert (ending.error is None) is (error is None)


def test_a_failed_run_is_named_with_its_error_after_another_try(tmp_path, capsys):
    plan = load_plan(grid(tmp_path))
    write_plan(plan, tmp_path / "out")
    folder = tmp_path / "out" / "runs" / plan.names[0]
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")  # nothing that the run could continue from
    assert main(command(tmp_path, "--slurm-executor", "local")) != 0
    said = capsys.readouterr().err
    assert f"failed (tried 2 times): {plan.names[0]}: {folder} has format None" in said
    assert "1 of 1 runs failed" in said


def test_without_slurm_one_sentence_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(command(tmp_path)) == 2
    assert capsys.readouterr().err.strip() == (
        "dsacc: --backend slurm needs the command sbatch, which this machine does not have; log in to a node of the "
        "Slurm cluster, or use --backend local or ray"
    )


@pytest.mark.parametrize(
    "text", ["", "=1", "Partition", "partition=", "a b=1", "comment=a\n#SBATCH --uid=0", "--time=1"]
)
def test_an_odd_sbatch_option_is_refused(text):
    with pytest.raises(ConfigError, match=r"^--slurm takes an option of sbatch as KEY=VALUE"):
        sbatch_options([text])


def test_a_limit_too_short_to_save_in_is_refused():
    with pytest.raises(ConfigError, match="--slurm-time must be at least 5 minutes, not 1"):
        OnSlurm(minutes=1)
