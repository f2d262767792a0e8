"""Logs that cannot be changed unnoticed: by whoever reads them, and by a run that continues."""

import json
import shutil

import pytest

from dsacc import DSAC
from dsacc.errors import Damaged, RunError
from dsacc.runs import Checkpoints
from dsacc.runs.checkpoint import _sealed
from dsacc.runs.folder import read_status
from dsacc.runs.logs import Log, check_log
from dsacc.system.files import sha256

TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8, "log_every": 20, "checkpoint_every": 60}
EXACT = ("metrics.jsonl", "episodes.jsonl")


def train(out, steps=150):
    return DSAC("CartPole-v1", **TINY).learn(steps, out=out)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    train(out)
    return out


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made, tmp_path / "run")


def flip(path, at, bit=0):
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def test_a_log_knows_what_was_written(tmp_path):
    path = tmp_path / "x.jsonl"
    log = Log(path, 0)
    log.append({"a": 1.5, "b": float("nan")})
    log.append({"a": 2})
    assert path.read_text() == '{"a": 1.5, "b": null}\n{"a": 2}\n'
    assert (log.bytes, log.sha256) == (path.stat().st_size, sha256(path.read_bytes()))
    log.close()
    again = Log(path, len('{"a": 1.5, "b": null}\n'))
    again.append({"a": 3})
    again.close()
    assert (again.bytes, again.sha256) == (path.stat().st_size, sha256(path.read_bytes()))
    assert path.read_text() == '{"a": 1.5, "b": null}\n{"a": 3}\n'
    assert Log(path, None).sha256 == again.sha256


def test_the_status_and_the_checkpoint_record_the_logs(made):
    status, extra = read_status(made), Checkpoints(made).newest().manifest.extra
    for name in (*EXACT, "timing.jsonl"):
        data = (made / name).read_bytes()
        assert status["logs"][name] == {"bytes": len(data), "sha256": sha256(data)}
        assert check_log(made, name, status)
    for stem in ("metrics", "episodes"):
        data = (made / f"{stem}.jsonl").read_bytes()
        assert (extra[f"{stem}_bytes"], extra[f"{stem}_sha256"]) == (len(data), sha256(data))


@pytest.mark.parametrize("name", [*EXACT, "timing.jsonl"])
def test_every_flipped_bit_of_a_log_is_noticed_by_its_readers(name, run):
    status, path = read_status(run), run / name
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        with pytest.raises(Damaged, match=f"{name} does not match its sha256"):
            check_log(run, name, status)


def test_a_log_that_was_cut_is_noticed_unless_the_run_is_being_continued(run):
    status, path = read_status(run), run / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(Damaged):
        check_log(run, "metrics.jsonl", status)
    assert check_log(run, "metrics.jsonl", {**status, "state": "running"}) is False
    path.unlink()
    assert check_log(run, "metrics.jsonl", status) is False  # there is nothing to be read


@pytest.mark.parametrize("logs", [None, 3, {}, {"metrics.jsonl": 1}, {"metrics.jsonl": {"bytes": "1", "sha256": 2}}])
def test_a_status_that_does_not_know_the_logs_says_nothing(logs, run):
    assert check_log(run, "metrics.jsonl", {"logs": logs}) is False


@pytest.mark.parametrize("name", EXACT)
def test_a_run_does_not_continue_from_a_changed_log(name, run):
    flip(run / name, 9)
    with pytest.raises(
        RunError, match=rf"{name} does not match its sha256, so .*; restore it, or choose another --out"
    ):
        train(run, 200)
    assert not (run / "lock").exists()


def test_a_change_after_the_checkpoint_before_costs_one_interval_and_ends_the_same(run, tmp_path):
    whole = tmp_path / "whole"
    train(whole, 200)
    flip(run / "metrics.jsonl", -9)
    with pytest.warns(UserWarning, match=r"metrics.jsonl does not match its sha256.*; the run continues from step 120"):
        train(run, 200)
    for path in [*whole.rglob("*.safetensors"), *whole.rglob("manifest.json"), *(whole / name for name in EXACT)]:
        assert (run / path.relative_to(whole)).read_bytes() == path.read_bytes()


def as_before(run):
    """The folder as dsacc left it before it kept these checksums."""
    for path in run.glob("checkpoints/*/manifest.json"):
        content = json.loads(path.read_text())
        content.pop("sha256")
        content["extra"] = {k: v for k, v in content["extra"].items() if not k.endswith("_sha256")}
        path.write_bytes(_sealed(content))
    for name in ("status.json", "config.json"):
        content = json.loads((run / name).read_text())
        (run / name).write_text(json.dumps({k: v for k, v in content.items() if k not in ("sha256", "logs")}, indent=2))


def test_a_run_begun_before_there_were_checksums_continues_and_gets_them(run, made, tmp_path):
    whole = shutil.copytree(made, tmp_path / "whole")
    train(whole, 200)
    as_before(run)
    assert check_log(run, "metrics.jsonl", read_status(run)) is False
    train(run, 200)
    assert check_log(run, "metrics.jsonl", read_status(run))
    for path in [*whole.rglob("*.safetensors"), *whole.rglob("manifest.json"), *(whole / name for name in EXACT)]:
        if "step-120" not in str(path.relative_to(whole)):  # of before; a checkpoint is never written again
            assert (run / path.relative_to(whole)).read_bytes() == path.read_bytes()


def test_a_damaged_status_costs_nothing_and_is_written_again(run):
    text = (run / "status.json").read_text()
    (run / "status.json").write_text(text.replace('"step": 150', '"step": 950'))  # more than was trained
    with pytest.raises(Damaged, match=r"status.json does not match its sha256"):
        read_status(run)
    assert train(run, 200).step == 200
    assert read_status(run)["step"] == 200


def test_a_setting_that_was_changed_on_disk_is_refused(run):
    text = (run / "config.json").read_text()
    (run / "config.json").write_text(text.replace('"machine": "', '"machine": "i'))
    with pytest.raises(RunError, match=r"config.json does not match its sha256.*; restore it, or choose another --out"):
        train(run, 200)


def test_a_row_that_the_disk_does_not_take_is_an_error(tmp_path):
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    log = Log(tmp_path / "metrics.jsonl", None)
    log.append({"step": 1})
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
    try:
        with pytest.raises(RunError, match=r"the disk of .*metrics\.jsonl is full: .* nothing that was saved is lost"):
            log.append({"step": 2, "return": 3.5})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert log.bytes == len('{"step": 1}\n')
    assert (tmp_path / "metrics.jsonl").read_bytes().startswith(b'{"step": 1}\n')
