"""A file must not choose code: what a downloaded agent names is imported only where the user says so."""

import dataclasses
import json
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
from helpers.studies import change_rows

from dsacc import DSAC, evaluate, harden
from dsacc.analysis.rows import Row
from dsacc.cli import demo_pictures, main
from dsacc.errors import Untrusted
from dsacc.experiments import task
from dsacc.experiments.plan import Plan, Run, Tests, write_plan
from dsacc.runs import read_latest
from dsacc.runs.checkpoint import _sealed
from dsacc.runs.model_file import model_bytes
from dsacc.system.files import sha256
from dsacc.system.seals import sealed
from dsacc.views.insight.clip import clip_figure_data
from dsacc.views.report import write_report
from dsacc.views.report.films import shoot
from dsacc.views.report.study import read_study
from dsacc.views.watch import watch

NAME = "canary:dsacc/Catch-v0"
CANARY = "from pathlib import Path\nPath(__file__).with_name('it ran').touch()\n"
TINY = {"preset": "classic", "hidden": 8, "random_steps": 20, "batch_size": 8, "encoder": "small"}
FEW = ["--episodes", "1", "--shifts", "id"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run folder and a saved agent whose environment is named with a module."""
    folder = tmp_path_factory.mktemp("made")
    model = DSAC("dsacc/Catch-v0", constraint="mean", **TINY)
    model.config = dataclasses.replace(model.config, env=NAME)
    model.learn(24, out=folder / "run")
    model.save(folder / "agent")
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A current folder with both, and with the module that they name."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    (tmp_path / "canary.py").write_text(CANARY)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield tmp_path
    sys.modules.pop("canary", None)
    assert sys.path == before


def ran(folder):
    return (folder / "it ran").exists() or "canary" in sys.modules


def rewritten(folder, **changes):
    """The newest agent of a run folder with other settings, sealed as if dsacc had written it."""
    file = read_latest(folder)
    data = model_bytes(dataclasses.replace(file, config=dataclasses.replace(file.config, **changes)))
    path = folder / "checkpoints" / f"step-{file.step}"
    (path / "agent.safetensors").write_bytes(data)
    manifest = json.loads((path / "manifest.json").read_text())
    for entry in manifest["files"]:
        if entry["name"] == "agent.safetensors":
            entry |= {"sha256": sha256(data), "bytes": len(data)}
    manifest.pop("sha256")
    (path / "manifest.json").write_bytes(_sealed(manifest))


@pytest.mark.parametrize("file", ["run", "agent"])
@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", "{}", *FEW],
        ["evaluate", "blind:{}", *FEW],
        ["watch", "{}", "--max-steps", "3", "--shifts", "id", "--out", "film.gif"],
        ["harden", "{}", "--updates", "1", "--states", "64", "--rounds", "0", "--out", "student"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_module_that_a_file_names_is_not_imported_and_the_sentence_says_what_it_is(here, capsys, command, file):
    words = [word.format(file) for word in command]
    assert main(words) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "canary" in line]
    assert line.startswith(f"dsacc: {file} names the environment '{NAME}': its module 'canary' would be imported from ")
    assert str(here / "canary.py") in line
    assert f"(--env {NAME}), or add --trust (in Python: env='{NAME}', or trust=True)" in line
    assert not ran(here)
    assert not (here / "student").exists()


@pytest.mark.parametrize("more", [["--trust"], ["--env", NAME], ["--import", "canary"]])
def test_a_module_that_the_user_names_or_trusts_is_imported(here, capsys, more):
    assert main(["evaluate", "agent", *FEW, *more]) == 0
    assert ran(here)
    assert main(["evaluate", "agent", *FEW]) == 0, "one that is imported already runs nothing more"


def test_in_python_only_a_name_that_is_passed_or_trusted_is_imported(here):
    asked = {"episodes": 1, "shifts": ["id"]}
    with pytest.raises(Untrusted, match="'canary' would be imported from"):
        evaluate("agent", **asked)
    with pytest.raises(Untrusted, match="agent names the environment"):
        evaluate(DSAC.load("agent"), **asked)
    with pytest.raises(Untrusted):
        harden("agent", updates=1, states=64, rounds=0)
    with pytest.raises(Untrusted):
        watch("agent", out="film.gif", max_steps=2, shifts=["id"])
    with pytest.raises(Untrusted):
        clip_figure_data("agent", steps=2)
    assert not ran(here)
    assert evaluate("agent", trust=True, **asked)
    assert ran(here)
    sys.modules.pop("canary")
    assert evaluate("agent", NAME, **asked)


def test_a_graph_chooses_no_code_either_and_export_imports_nothing(here, capsys):
    pytest.importorskip("onnxruntime")
    assert main(["export", "agent"]) == 0
    assert main(["evaluate", "onnx:agent.onnx", *FEW]) == 2
    assert "agent.onnx names the environment 'canary:dsacc/Catch-v0'" in capsys.readouterr().err
    assert not ran(here)
    assert main(["evaluate", "onnx:agent.onnx", *FEW, "--trust"]) == 0


def test_a_page_imports_what_a_folder_names_only_with_trust(here):
    assert main(["evaluate", "run", "--env", NAME, "--episodes", "1", "--shifts", "id", "snow"]) == 0
    for path in (here / "run" / "evaluations").glob("*.json"):
        change_rows(path, '"dsacc/Catch-v0"', f'"{NAME}"')
    sys.modules.pop("canary")
    (here / "it ran").unlink()
    page = write_report("run").read_text(encoding="utf-8")
    shoot(read_study(Path("run")), print)
    assert not ran(here)
    assert f"No picture of {NAME}: run names the environment" in page.replace("&#39;", "'")
    assert main(["report", "run", "--trust"]) == 0
    assert ran(here)
    assert "No picture of" not in (here / "run" / "report.html").read_text(encoding="utf-8")


def test_a_page_does_not_believe_that_the_agent_names_what_the_folder_names(here):
    """config.json is harmless here, and the agent beside it is not."""
    path = here / "run" / "config.json"
    path.write_text(json.dumps(sealed(json.loads(path.read_text().replace("canary:", "")))))
    lines: list[str] = []
    row = {"env": "dsacc/Catch-v0", "agent": "dsac-m", "train_seed": 0, "eval_seed": 0, "step": 24, "shift": "id"}
    row |= {"severity": None, "mode": None, "policy": "greedy", "returns": [1.0], "lengths": [21]}
    (here / "run" / "evaluations" / "a.json").write_text(json.dumps([row]))
    study = read_study(Path("run"))
    assert study.rows
    shoot(study, lines.append)
    page = write_report("run").read_text(encoding="utf-8")
    assert not ran(here)
    assert any("no video of run: run names the environment" in line for line in lines), lines
    assert "No clip figure of run: run names the environment" in page


def test_the_demo_draws_no_game_that_only_a_row_in_its_folder_names(here):
    row = Row(NAME, "dsac-m", 0, 0, 24, "fog", "paper", "independent", "greedy", returns=[1.0], lengths=[21])
    with pytest.raises(Untrusted, match="run names the environment"):
        demo_pictures._film(demo_pictures.Tested("dsac-m", "", here / "run", [row]), 0)
    assert not ran(here)


def test_an_encoder_of_a_file_is_imported_only_with_trust(here, capsys):
    code = "from torch import nn\nfrom dsacc.agent import register_encoder\n"
    code += "register_encoder('flat', lambda space, config: nn.Sequential(nn.Flatten(), nn.LazyLinear(4)))\n"
    (here / "canary.py").write_text(CANARY + code)
    DSAC("CartPole-v1", encoder="canary:flat", hidden=8).save("own")
    sys.modules.pop("canary")
    (here / "it ran").unlink()
    told = "own names the encoder 'canary:flat': its module 'canary' would be imported from "
    for command in (["evaluate", "own"], ["export", "own", "--format", "agent", "--out", "small"]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"dsacc: {told}{here / 'canary.py'}")
        assert "(--import canary), or add --trust (in Python: first import canary, or trust=True)" in said
    with pytest.raises(Untrusted, match=told):
        DSAC.load("own")
    assert not ran(here)
    assert DSAC.load("own", trust=True).predict([0.0] * 4)
    sys.modules.pop("canary")
    assert main(["export", "own", "--format", "agent", "--out", "small", "--trust"]) == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:Id-v0", "its module 'no_such_module' is neither in this folder nor installed"),
        ("pack.age.deep:Id-v0", "would be imported from {here}/pack/age/deep.py, and"),
        ("antigravity:Id-v0", "would be imported from .*antigravity.py, and"),
        ("a;rm -rf x:Id-v0", "which is not of the form MODULE:name"),
        ("../canary:Id-v0", "which is not of the form MODULE:name"),
        ("canary:$(touch x)", r"names the environment 'canary:\$\(touch x\)', which is not of the form"),
    ],
)
def test_the_module_is_found_without_running_any_package_around_it(here, capsys, name, said):
    (here / "pack" / "age").mkdir(parents=True)
    for path in ("pack/__init__.py", "pack/age/__init__.py", "pack/age/deep.py"):
        (here / path).write_text(f"from pathlib import Path\nPath({str(here / 'it ran')!r}).touch()\n")
    rewritten(here / "run", env=name)
    assert main(["evaluate", "run", *FEW]) == 2
    assert re.search(said.format(here=re.escape(str(here))), capsys.readouterr().err)
    assert not ran(here)
    assert not {"pack", "antigravity"} & set(sys.modules)


# --- the current folder ----------------------------------------------------------------------------------------------


def fails_to_import(here, *names):
    """Files that would be found if the current folder were searched."""
    for name in names:
        (here / f"{name}.py").write_text(f"from pathlib import Path\nPath({str(here / 'it ran')!r}).touch()\n")


def test_an_environment_without_a_module_takes_nothing_from_the_current_folder(here, monkeypatch):
    """Gymnasium imports a class and what it needs when it is made: here a package that is not installed."""
    import gymnasium as gym

    fails_to_import(here, "game_of_a_plugin")
    monkeypatch.setattr("dsacc.system.imports._folders", set())
    gym.register("Plugin-v0", entry_point="game_of_a_plugin:Game")
    try:
        rewritten(here / "run", env="Plugin-v0")
        assert main(["evaluate", "run", *FEW]) == 2
        assert not ran(here)
        assert main(["evaluate", "run", *FEW, "--import", "canary"]) == 2  # it has no Game, but now it was looked at
        assert "game_of_a_plugin" in sys.modules
    finally:
        del gym.registry["Plugin-v0"]
        sys.modules.pop("game_of_a_plugin", None)


def test_a_stored_plan_imports_only_what_the_command_that_started_it_named(here, capsys):
    settings = {k: v for k, v in TINY.items() if k != "preset"}
    run = Run("dsacc/Catch-v0", "dsac", 0, 24, "classic", settings, source=NAME)
    write_plan(Plan("grid", (run,), Tests(episodes=1)), here / "grid")
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert task.main(["grid", run.name]) == 1
        assert "plan.json names the module 'canary:dsacc/Catch-v0'" in capsys.readouterr().err
        assert not ran(here)
        assert task.main(["grid", run.name, "--named", NAME]) == 0
        assert ran(here)
    finally:
        signal.signal(signal.SIGTERM, handler)


def test_an_experiment_imports_what_its_grid_names_and_its_runs_nothing_else_from_the_current_folder(here):
    settings = "hidden = 8\nrandom_steps = 20\nbatch_size = 8\nencoder = 'small'\n"
    head = f"envs = ['{NAME}']\nagents = ['dsac']\nsteps = 24\npreset = 'classic'\n"
    (here / "grid.toml").write_text(f"{head}[settings]\n{settings}[tests]\nepisodes = 1\n")
    (here / "torch.py").write_text("raise SystemExit('from the current folder')\n")
    assert main(["experiment", "grid.toml", "--out", "done", "--workers", "1"]) == 0
    assert ran(here)
