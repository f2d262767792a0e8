"""The results of an experiment in one file: unpacked elsewhere they are read as they were, and the rest goes on."""

import tarfile

import pytest
from helpers.experiments import Here, plan_of
from helpers.grids import tiny_grid

from dsacc.cli import main
from dsacc.experiments.driver import run_experiment
from dsacc.experiments.pack import pack_results
from dsacc.experiments.plan import write_plan
from dsacc.experiments.status import read_standings
from dsacc.experiments.task import is_done


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """Two runs are planned and one is done: the plan of the first, grown."""
    folder = tmp_path_factory.mktemp("experiment")
    run_experiment(plan_of(tiny_grid(["dsac"], 60), folder), folder / "out", Here(), print)
    plan = plan_of(tiny_grid(["dsac", "dsac-m"], 60), folder)
    write_plan(plan, folder / "out")
    return plan, folder / "out"


def unpack(path, folder):
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    return folder / "out"


def test_what_is_finished_is_packed_without_agents_and_the_rest_goes_on_elsewhere(half, tmp_path):
    plan, out = half
    made = pack_results(out, tmp_path / "results.tar.gz")
    assert (made.runs, made.planned, made.bytes) == (1, 2, (tmp_path / "results.tar.gz").stat().st_size)
    there = unpack(made.path, tmp_path)
    name = plan.runs[0].name
    assert {path.name for path in there.iterdir()} == {"plan.json", "tasks", "runs"}
    assert [path.name for path in (there / "runs").iterdir()] == [name]
    assert not list(there.rglob("*.safetensors"))
    assert not list(there.rglob("*.log"))  # they name folders of the machine
    for path in [path for path in there.rglob("*") if path.is_file()]:
        assert path.read_bytes() == (out / path.relative_to(there)).read_bytes()
    assert [s.state for s in read_standings(there)] == ["finished", "waiting"]
    task = there / "tasks" / f"{name}.json"
    before = task.read_bytes()
    rows = run_experiment(plan, there, Here(), print)
    assert {row.run for row in rows} == set(plan.names)
    assert task.read_bytes() == before  # it was not done again
    assert all(is_done(run, plan.tests, there) for run in plan.runs)


def test_the_same_results_give_the_same_bytes(half, tmp_path):
    _, out = half
    first, second = (pack_results(out, tmp_path / name) for name in ("first.tar.gz", "second.tar.gz"))
    assert first.path.read_bytes() == second.path.read_bytes()
    again = pack_results(unpack(first.path, tmp_path), tmp_path / "third.tar.gz")
    assert again.path.read_bytes() == first.path.read_bytes()


def test_the_command_says_how_many_runs_it_packed(half, tmp_path, monkeypatch, capsys):
    _, out = half
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(out), "--format", "results"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("wrote out.tar.gz (")
    assert "1 of 2 runs" in said
    assert (tmp_path / "out.tar.gz").is_file()


def test_nothing_to_pack_is_one_sentence_and_writes_nothing(half, tmp_path, monkeypatch, capsys):
    plan, _ = half
    monkeypatch.chdir(tmp_path)
    write_plan(plan, tmp_path / "new")
    (tmp_path / "empty").mkdir()
    for folder in ("new", "empty"):
        assert main(["export", folder, "--format", "results"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "dsacc: no run of new is finished yet; `dsacc status new` shows their progress",
        "dsacc: empty holds no experiment; `dsacc experiment` creates them",
    ]
    assert not list(tmp_path.glob("*.tar.gz"))
