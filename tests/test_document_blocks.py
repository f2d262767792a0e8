"""Every Python and shell block of README and docs does what it says: each is run as it is written.

The blocks of a document are run in their order, in one folder and one namespace, with `dsacc` on the path. A comment
right above a block says where that needs help, and why:

- `<!-- test: short: REASON -->` runs it with fewer steps and episodes (`SHORT`);
- `<!-- test: given NAME, NAME -->` puts files there that readers have (`GIVEN`); both may be combined;
- `<!-- test: parse only: REASON -->` runs nothing: options, choices, presets, grids, names and keywords are looked up.

`make` says what it would do and does not do it; `pip` is never run. The reference, docs/api.md, has
signatures and no programs; its examples are doctests, which run where they stand.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.commands_check import prose_problems, python_problems, shell_problems
from helpers.documents import ROOT, Block, blocks, documents
from helpers.quick_dsacc import program, serving

from dsacc import DSAC, make_env
from dsacc.experiments.grids import load_plan

SHELL = ("sh", "bash", "console")
FIRE = 1  # the action that begins a game of Breakout
STEPS = 300  # at most, where a block is short
SHORT = {
    "harden": ["--updates", "8", "--states", "64", "--rounds", "0"],
    "train": ["--steps", str(STEPS)],
    # An agent that has not learned may never begin a game of Breakout with its best action; sampled ones do.
    "evaluate": ["--episodes", "1", "--policy", "sampled"],
    "evaluate sb3": ["--episodes", "1"],
    "watch": ["--max-steps", "12"],
    "experiment": ["--steps", "150"],
}
TINY: dict[str, Any] = {"hidden": 16, "random_steps": 20, "replay_size": 200, "batch_size": 4}
NEEDS = {  # packages of extras, without which a document's readers could not do what it says
    "README.md": ("ale_py", "stable_baselines3"),
    "agents.md": ("ale_py", "stable_baselines3", "onnx", "onnxruntime"),
    "atari.md": ("ale_py",),
    "evaluation.md": ("ale_py", "stable_baselines3"),
    "experiments.md": ("ale_py",),
    "from-sb3.md": ("stable_baselines3", "tensorboardX"),
    "minatar.md": ("minatar",),
    "shifts.md": ("ale_py",),
    "watching.md": ("ale_py", "imageio_ffmpeg"),
}
TESTED = [path for path in documents() if path.name != "api.md"]


@dataclass(frozen=True)
class Mark:
    """What the comment above a block says."""

    how: str = ""  # short, parse only, or nothing
    given: tuple[str, ...] = ()
    reason: str = ""


def read_mark(text: str) -> Mark:
    """A ValueError says why it cannot be understood."""
    match = re.fullmatch(r"(short|parse only)?(?:(?:^|, )given ([^:]+))?(?:: (.+))?", text)
    if not match or (text and not match[1] and not match[2]):
        raise ValueError(f"the mark {text!r} is not understood")
    mark = Mark(match[1] or "", tuple(re.split(r", ", match[2])) if match[2] else (), match[3] or "")
    if mark.how and not mark.reason:
        raise ValueError(f"the mark {text!r} needs a reason after a colon")
    if unknown := set(mark.given) - set(GIVEN):
        raise ValueError(f"the mark {text!r} asks for {', '.join(sorted(unknown))}, which nobody makes")
    return mark


# --- what readers have ------------------------------------------------------------------------------------------------


def _run(folder: Path, env: str = "dsacc/Catch-v0", constraint: str | None = "mean", seed: int = 0) -> None:
    model = DSAC(env, constraint, "efficient", seed, **TINY)
    if env == "Breakout":
        with torch.no_grad():
            for actor in (model.learner.actor, model.learner.target_actor):
                actor.head.bias[FIRE] = 100.0  # so that its games begin, and end soon
    model.learn(40, out=folder)


def _dqn(file: Path) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    model = sb3.DQN("CnnPolicy", make_env("Breakout"), buffer_size=10, policy_kwargs={"net_arch": [8]})
    with torch.no_grad():
        model.q_net.q_net[-1].bias[FIRE] = 100.0  # so that its games begin, and end soon
    model.save(file)


def _onnx(file: Path) -> None:
    pytest.importorskip("onnxruntime")
    from dsacc.play.export import export_onnx

    export_onnx(DSAC("Breakout", preset="efficient", **TINY), file)


def _experiment(folder: Path) -> None:
    from dsacc.experiments.backends.local import Local
    from dsacc.experiments.driver import run_experiment

    grid = folder.with_suffix(".toml")
    grid.parent.mkdir(parents=True, exist_ok=True)
    grid.write_text('envs = ["CartPole-v1"]\nagents = ["dsac", "dsac-m"]\nsteps = 60\n[tests]\nepisodes = 1\n')
    run_experiment(load_plan(grid), folder, Local(), print)


def _runs(folder: Path) -> None:
    for constraint in (None, "mean"):
        _run(folder / f"Catch-{constraint}", constraint=constraint)


GIVEN: dict[str, Callable[[Path], None]] = {
    "RUN": _run,
    "RUN1": lambda folder: _run(folder, constraint=None),
    "RUN2": lambda folder: _run(folder, constraint="mean"),
    "RUN3": lambda folder: _run(folder, constraint="variance"),
    "runs/breakout": lambda folder: _run(folder, "Breakout"),
    "runs/Breakout-dsac-m-s0-1a2b3c4d": lambda folder: _run(folder, "Breakout"),
    "runs": _runs,
    "demo": _runs,
    "experiments/paper-100k": _experiment,
    "dqn.zip": _dqn,
    "policy.onnx": _onnx,
    "mymodule.py": lambda file: file.write_text("def policy(seen):\n    return [1] * len(seen)\n") and None,
}


# --- running ----------------------------------------------------------------------------------------------------------


def _programs(folder: Path, address: str) -> Path:
    """`dsacc` of this interpreter, a `make` that does nothing but look, and a `pip` that refuses."""
    folder.mkdir()
    make = [shutil.which("make") or "true", "-n", "-C", str(ROOT)]
    texts = {
        "make": f"import subprocess\nfrom pathlib import Path\nsubprocess.run([*{make!r}, *sys.argv[1:]], check=True)\n"
        "Path('.venv/bin').mkdir(parents=True, exist_ok=True)\nPath('.venv/bin/activate').touch()\n",
        "pip": "sys.exit('a test installs nothing: mark the block as parse only')\n",
    }
    texts = {name: f"#!{sys.executable}\nimport sys\n{text}" for name, text in texts.items()}
    for name, text in (texts | {"dsacc": program(address, SHORT)}).items():
        file = folder / name
        file.write_text(text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return folder


def _shell_text(block: Block) -> str:
    if block.language != "console":
        return block.text
    return "\n".join(line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ "))


def _run_shell(block: Block, folder: Path, programs: Path, short: bool) -> None:
    env = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src") + os.pathsep + os.environ.get("PYTHONPATH", ""),
        "HOME": str(folder),
        "SHORT": "1" if short else "",
    }
    command = ["bash", "-e", "-o", "pipefail", "-c", _shell_text(block)]
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=1800)
    assert ended.returncode == 0, f"{block.name}\n{block.text}\n{ended.stdout[-1500:]}\n{ended.stderr[-1500:]}"
    assert "Traceback" not in ended.stderr, f"{block.name}\n{ended.stderr[-3000:]}"


def _few(learn: Callable[..., DSAC]) -> Callable[..., DSAC]:
    def few(model: DSAC, total_timesteps: int, *callback: Any, every: Any = None, **how: Any) -> DSAC:
        every = {min(steps, STEPS // 2): hooks for steps, hooks in (every or {}).items()}
        return learn(model, min(total_timesteps, STEPS), *callback, every=every, **how)

    return few


def run_document(path: Path, folder: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run every block, and tell of each how it was done."""
    from dsacc.shifts import augmentations, kinds

    programs, learn, namespace = _programs(folder / ".programs", address), DSAC.learn, {"__name__": "__main__"}
    monkeypatch.chdir(folder)
    monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))  # a block may register one
    monkeypatch.setattr(augmentations, "_AUGMENTATIONS", dict(augmentations._AUGMENTATIONS))
    for block in blocks(path):
        mark = read_mark(block.mark)
        for name in mark.given:
            if not (folder / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                GIVEN[name](folder / name)
        if block.language in SHELL:
            if mark.how == "parse only":
                assert shell_problems(_shell_text(block)) == [], block.name
            else:
                _run_shell(block, folder, programs, mark.how == "short")
        elif block.language == "python":
            assert python_problems(block.text) == [], block.name
            file = re.match(r"# (\w+\.py)\n", block.text)
            if file:  # a block that says which file it is
                (folder / file[1]).write_text(block.text, encoding="utf-8")
            if mark.how != "parse only":
                short = mark.how == "short"
                with monkeypatch.context() as patch:
                    patch.setattr(DSAC, "learn", _few(learn) if short else learn)
                    exec(compile(block.text, block.name, "exec"), namespace)
        elif block.language == "toml":  # a grid
            (folder / "grid.toml").write_text(block.text, encoding="utf-8")
            load_plan(folder / "grid.toml")
        elif block.language == "json":
            json.loads(block.text)
        else:
            continue
        yield f"{block.name} {block.language}: {mark.how or 'run as it is'}{f', {mark.reason}' if mark.reason else ''}"


@pytest.fixture(scope="module")
def address():
    with serving() as there:
        yield there


@pytest.mark.parametrize("path", TESTED, ids=lambda path: path.name)
def test_every_block_of_a_document_does_what_it_says(path, address, tmp_path, monkeypatch, record_property):
    for package in NEEDS.get(path.name, ()):
        pytest.importorskip(package)
    for line in run_document(path, tmp_path, address, monkeypatch):
        record_property("block", line)
        print(line)


def test_what_is_not_run_as_it_is_says_why():
    """With -s this prints the list."""
    marked = [(block, read_mark(block.mark)) for path in TESTED for block in blocks(path) if block.mark]
    for block, mark in marked:
        print(f"{block.name} {block.language}: {block.mark}")
        assert block.language in (*SHELL, "python"), f"{block.name}: a mark above a block that nobody runs"
        assert mark.reason or not mark.how
    parsed = [block for block, mark in marked if mark.how == "parse only"]
    every = [block for path in TESTED for block in blocks(path) if block.language in (*SHELL, "python")]
    assert len(parsed) < len(every) / 3  # the rule is to run


def test_a_block_with_a_command_names_its_language():
    for path in TESTED:
        for block in blocks(path):
            if block.language == "":
                command = re.search(r"^(\$ )?(dsacc|python|pip|make|ray|import|from) ", block.text, re.MULTILINE)
                assert command is None, f"{block.name}: which language is it?"


def test_commands_and_options_in_sentences_are_known():
    assert {path.name: said for path in documents() if (said := prose_problems(path.read_text("utf-8")))} == {}


# --- the test can fail ---


@pytest.mark.parametrize(
    "text",
    [
        "```python\nassert 1 == 2\n```",
        "```python\na = 1\n```\n\n```python\nassert a == 2\n```",
        "```python\nfrom dsacc import DSAK\n```",
        "<!-- test: parse only: slow -->\n```python\nfrom dsacc import DSAC\nDSAC('x', noise_sdt=1)\n```",
        "```sh\ndsacc train CartPole-v1 --stepz 3\n```",
        "```sh\ndsacc train CartPole-v1 --noise-std -1 --dry-run\n```",
        "```sh\nfalse\ntrue\n```",
        "```console\n$ dsacc trian CartPole-v1\nsome output\n```",
        "```sh\nmake tea\n```",
        "```sh\npip install '.[tea]'\n```",
        "<!-- test: parse only: slow -->\n\n```sh\ndsacc experiment papr\n```",
        "<!-- test: short -->\n```sh\ntrue\n```",
        "<!-- test: quickly: slow -->\n```sh\ntrue\n```",
        "<!-- test: given tea -->\n```sh\ntrue\n```",
    ],
)
def test_a_block_that_is_wrong_is_found(tmp_path, address, monkeypatch, text):
    path = tmp_path / "wrong.md"
    path.write_text(f"# Wrong\n\n{text}\n", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    with pytest.raises((AssertionError, ImportError, ValueError)):
        list(run_document(path, tmp_path / "folder", address, monkeypatch))


def test_blocks_that_are_right_are_run_in_their_order_in_one_folder(tmp_path, address, monkeypatch):
    path = tmp_path / "right.md"
    path.write_text(
        "```python\n# lib.py\na = 1\n```\n\n```sh\ncat lib.py > copy  # as a file too\n```\n\n"
        "```python\nb = a + len(open('copy').read())\nopen('b', 'w').write(str(b))\n```\n\n"
        "<!-- test: parse only: it\nends everything -->\n\n```sh\nrm -rf copy\n```\n\n"
        "```text\nnot run\n```\n\n- in a list:\n\n  ```console\n  $ test -f copy\n  hello\n  ```\n",
        encoding="utf-8",
    )
    (tmp_path / "folder").mkdir()
    told = list(run_document(path, tmp_path / "folder", address, monkeypatch))
    assert [line.split()[1] for line in told] == ["python:", "sh:", "python:", "sh:", "console:"]
    assert told[3].endswith("parse only, it ends everything")
    assert (tmp_path / "folder" / "b").read_text() == "15"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dsacc train Breakout --agent dsac-x", "the parser refuses it"),
        ("dsacc train Breakot", "there is no environment 'Breakot'"),
        ("dsacc train Breakout --gamma 2", "gamma must be at most 1"),
        ("dsacc train Breakout --preset quick", "the parser refuses it"),
        ("dsacc evaluate RUN --shifts id snwo", "unknown shift 'snwo'"),
        ("dsacc evaluate RUN --severity 6", "severity is 'paper' or 1 to 5"),
        ("dsacc evaluate RUN --env Breakot", "there is no environment"),
        ("dsacc experiment paper-1M --out x", "paper-1M"),
        ("dsacc experiment smoke --agents dsac-x", "dsac-x"),
        ("dsacc preview Breakot", "there is no environment"),
        ("make setup && make tea", "no target tea"),
        ("pip install '.[atari,tea]'", "no extra tea"),
        ("pip install 'dist/dsacc-0.1.0-py3-none-any.whl[tea]'", "no extra tea"),
        ("pip install 'dsacc[atari]'", "dsacc is on no package index"),
        ("python examples/gone.py", "there is no examples/gone.py"),
        ("if then", "bash"),
    ],
)
def test_a_command_that_would_be_refused_is_found_without_running_it(text, said):
    (found,) = shell_problems(f"{text}  # a comment")
    assert said in found


def test_rays_options_are_asked_of_ray():
    pytest.importorskip("ray")
    assert shell_problems("ray start --head --port=6379\nray stop") == []
    assert len(shell_problems("ray start --heads\nray begin")) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from dsacc import DSAK", "dsacc has no DSAK"),
        ("from dsacc.math import boltzmann", "there is no module dsacc.math"),
        ("import dsacc\ndsacc.evaluat('random')", "dsacc has no evaluat"),
        ("from dsacc import DSAC\nDSAC('x', constrain='mean')", "DSAC takes no constrain"),
        ("from dsacc import DSAC\nm = DSAC('x').learn(1)\nm.lern(2)", "DSAC has no lern"),
        ("from dsacc import DSAC\nm = DSAC.load('x')\nm.learn(2, progres_bar=True)", "learn takes no progres_bar"),
        ("from dsacc import evaluate\nprint(evaluate('x', shift=['id'])[0])", "evaluate takes no shift"),
        ("from dsacc.views.watch import watch\nmade = watch('x', out='y')\nprint(made.score)", "Watched has no score"),
        ("x = (", "line 1"),
    ],
)
def test_python_that_would_fail_is_found_without_running_it(text, said):
    (found,) = python_problems(text)
    assert said in found


def test_python_that_would_work_passes():
    text = (
        "import numpy\nimport dsacc\nfrom dsacc import DSAC\nfrom dsacc.views.watch import watch\n"
        "model = DSAC('x', noise_std=1, seed=2).learn(5, out='y')\nprint(model.step, model.config.alpha)\nnumpy.any\n"
        "made = watch(model, out='z')\nprint(made.scores)\nmodel.learn(1, every={1: lambda m: m.anything()})\n"
        "unknown.thing(key=1)\n"
    )
    assert python_problems(text) == []


@pytest.mark.parametrize("text", ["`dsacc trian X`", "`dsacc train X --no-such`", "`--no-such 3`"])
def test_a_sentence_about_what_does_not_exist_is_found(text):
    assert len(prose_problems(f"Say {text}.\n")) == 1
    assert prose_problems("Say `dsacc train`, `dsacc watch RUN --seed 3`, `--noise-std 0.5`, `--help`.\n") == []
