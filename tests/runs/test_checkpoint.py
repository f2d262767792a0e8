"""Checkpoints: whole or absent, two kept, verified; hostile ones refused."""

import contextlib
import json
import os
from pathlib import Path

import pytest
from helpers.checkpoints import newest_intact
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsacc import DSAC
from dsacc.config import Config
from dsacc.errors import DsaccError, RunError
from dsacc.runs import Checkpoints, RunFolder
from dsacc.runs.checkpoint import _sealed

EXAMPLES = int(os.environ.get("DSACC_EXAMPLES", "250"))  # of damaged files; `make fault-test` takes 5,000
TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8, "log_every": 50, "replay_size": 150}


def write(run: Path, step: int, regular: bool = True, segments=()):
    return Checkpoints(run).write(step, regular, {"agent.safetensors": b"agent %d" % step}, tuple(segments), {})


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_the_newest_and_the_regular_one_before_it_are_kept(tmp_path):
    for step, regular in ((100, True), (200, True), (230, False), (260, False), (300, True), (310, False)):
        write(tmp_path, step, regular)
    assert names(tmp_path / "checkpoints") == ["newest.json", "step-300", "step-310"]
    write(tmp_path, 400)
    assert names(tmp_path / "checkpoints") == ["newest.json", "step-300", "step-400"]
    assert newest_intact(tmp_path).files == {"agent.safetensors": b"agent 400"}


def test_segments_live_as_long_as_a_kept_checkpoint_refers_to_them(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    entries = []
    for step in (100, 200, 300, 400):
        entries = [*entries[-1:], checkpoints.write_segment(step, b"segment %d" % step)]
        write(tmp_path, step, True, entries)
    assert names(tmp_path / "replay") == [f"step-{s}.safetensors" for s in (200, 300, 400)]


def test_leftovers_of_a_crash_are_removed_at_the_next_save(tmp_path):
    write(tmp_path, 100)
    (tmp_path / "checkpoints" / ".step-150.7.tmp").mkdir()
    (tmp_path / "checkpoints" / ".step-150.7.tmp" / "agent.safetensors").write_bytes(b"half")
    (tmp_path / "replay").mkdir()
    (tmp_path / "replay" / ".step-150.safetensors.7.tmp").write_bytes(b"half")
    assert newest_intact(tmp_path).manifest.step == 100
    write(tmp_path, 200)
    assert names(tmp_path / "checkpoints") == ["newest.json", "step-100", "step-200"]
    assert names(tmp_path / "replay") == []


def test_a_save_is_not_stopped_by_what_a_killed_process_with_the_same_pid_left(tmp_path):
    half = tmp_path / "checkpoints" / f".step-100.{os.getpid()}.tmp"  # in a container, every run may be pid 1
    half.mkdir(parents=True)
    (half / "more.safetensors").write_bytes(b"half")
    write(tmp_path, 100)
    assert names(tmp_path / "checkpoints") == ["newest.json", "step-100"]
    assert "more.safetensors" not in names(tmp_path / "checkpoints" / "step-100")


def test_a_checkpoint_whose_pointer_was_not_written_yet_is_not_the_newest(tmp_path):
    write(tmp_path, 100)
    pointer = (tmp_path / "checkpoints" / "newest.json").read_bytes()
    write(tmp_path, 200)
    (tmp_path / "checkpoints" / "newest.json").write_bytes(pointer)
    assert newest_intact(tmp_path).manifest.step == 100


def test_a_checkpoint_that_could_not_be_written_is_not_pointed_at(tmp_path):
    write(tmp_path, 100)
    pointer = (tmp_path / "checkpoints" / "newest.json").read_bytes()
    with pytest.raises(RunError, match="cannot be written"):
        Checkpoints(tmp_path).write(200, True, {"no such folder/agent.safetensors": b"agent"}, (), {})
    assert (tmp_path / "checkpoints" / "newest.json").read_bytes() == pointer
    assert names(tmp_path / "checkpoints") == ["newest.json", "step-100"]


@pytest.mark.parametrize("damage", [b"segment 201", b"segment 20", b""])
def test_a_checkpoint_whose_segment_is_damaged_is_passed_over(damage, tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in (100, 200):
        write(tmp_path, step, True, [checkpoints.write_segment(step, b"segment %d" % step)])
    (tmp_path / "replay" / "step-200.safetensors").write_bytes(damage)
    found = newest_intact(tmp_path)
    assert found.manifest.step == 100
    assert [sentence.partition(" does")[2] for sentence in found.passed_over] == [" not match its sha256"]
    assert "step-200.safetensors" in found.passed_over[0]


def changed(path: Path, **changes) -> None:
    """Other content under the seal of the old."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_manifest_or_a_pointer_that_was_changed_under_its_seal_is_not_believed(tmp_path):
    for step in (100, 200):
        write(tmp_path, step)
    changed(tmp_path / "checkpoints" / "newest.json", newest="step-100")
    assert newest_intact(tmp_path).manifest.step == 200
    changed(tmp_path / "checkpoints" / "step-200" / "manifest.json", extra={"metrics": 7})
    found = newest_intact(tmp_path)
    assert found.manifest.step == 100
    assert len(found.passed_over) == 1
    assert "manifest.json does not match its sha256" in found.passed_over[0]


HASH = "0" * 64


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"files": [{"name": "../../x.safetensors", "sha256": HASH, "bytes": 8}]}, "dsacc writes no file named"),
        ({"segments": [{"name": "agent.safetensors", "sha256": HASH, "bytes": 8}]}, "dsacc writes no file named"),
        ({"files": [{"name": "agent.safetensors", "sha256": HASH[1:], "bytes": 8}]}, "has no valid sha256"),
        ({"files": [{"name": "agent.safetensors", "sha256": HASH, "bytes": 8}] * 2}, "it lists a file twice"),
        ({"files": [{"name": "agent.safetensors", "sha256": HASH, "bytes": -1}]}, "-1 is not a count"),
        ({"files": [{"name": "agent.safetensors", "sha256": HASH, "bytes": True}]}, "True is not a count"),
        ({"files": {}}, "its files are not a list, or too many"),
        ({"regular": 1}, "1 is neither true nor false"),
        ({"step": 200}, "describes step 200, not step 100"),
        ({"format": 2}, "has format 2, but this dsacc reads format 1"),
    ],
    ids=str,
)
def test_a_sealed_manifest_that_cannot_be_true_is_refused(changes, why, tmp_path):
    write(tmp_path, 100)
    path = tmp_path / "checkpoints" / "step-100" / "manifest.json"
    content = json.loads(path.read_text())
    del content["sha256"]
    path.write_bytes(_sealed(content | changes))
    with pytest.raises(RunError, match=why):
        newest_intact(tmp_path)


def test_no_intact_checkpoint_is_an_error_that_says_why(tmp_path):
    write(tmp_path, 100)
    (tmp_path / "checkpoints" / "step-100" / "agent.safetensors").write_bytes(b"agent 101")
    with pytest.raises(RunError, match=r"no checkpoint in .* is intact: .* does not match its sha256"):
        newest_intact(tmp_path)


def test_steps_may_grow_and_the_run_goes_on_from_its_end(tmp_path):
    direct = DSAC("CartPole-v1", constraint="mean", **TINY, checkpoint_every=60).learn(240, out=tmp_path / "direct")
    DSAC("CartPole-v1", constraint="mean", **TINY, checkpoint_every=60).learn(150, out=tmp_path / "grown")
    folder = RunFolder(tmp_path / "grown", direct.config, 240)
    assert (folder.found, folder.step) == ("continue", 150)
    grown = DSAC("CartPole-v1", constraint="mean", **TINY, checkpoint_every=60).learn(240, out=tmp_path / "grown")
    a, b = direct.learner.state(), grown.learner.state()
    assert all(a[k].equal(b[k]) for k in a)
    status = tmp_path / "grown" / "status.json"
    status.write_text(json.dumps(json.loads(status.read_text()) | {"state": "stopped"}))
    with pytest.raises(RunError, match="already at step 240, beyond the 100 steps"):
        RunFolder(tmp_path / "grown", direct.config, 100)


def test_an_environment_whose_state_cannot_be_saved_starts_a_fresh_episode_and_the_run_says_so(tmp_path):
    pytest.importorskip("Box2D")

    def stop(row):
        if row["step"] == 100:
            raise KeyboardInterrupt

    def model():
        return DSAC("LunarLander-v3", **TINY, checkpoint_every=60)

    with pytest.raises(KeyboardInterrupt):
        model().learn(150, out=tmp_path, callback=stop)
    with pytest.warns(UserWarning, match="a new episode begins at step 60: .*physics engine"):
        again = model().learn(150, out=tmp_path)
    assert again.step == 150
    replay = again._trainer.replay
    assert (replay.after == 2).sum() >= 1  # the torn episode counts as truncated


def test_metrics_shorter_than_at_the_checkpoint_are_noticed(tmp_path):
    DSAC("CartPole-v1", **TINY, checkpoint_every=60).learn(150, out=tmp_path)
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(RunError, match="shorter than at its checkpoint; restore it"):
        DSAC("CartPole-v1", **TINY, checkpoint_every=60).learn(200, out=tmp_path)
    assert not (tmp_path / "lock").exists()


@pytest.mark.parametrize("number", [1, 99])
def test_a_folder_of_another_format_is_refused_with_what_to_do(number, tmp_path):
    model = DSAC("CartPole-v1", **TINY).learn(60, out=tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"format": number}))
    with pytest.raises(RunError, match=f"format {number}, but this version of dsacc reads format 2; use the"):
        RunFolder(tmp_path, model.config, 60)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12) | st.just("../../x"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
KEYS = ["format", "step", "regular", "files", "segments", "extra", "newest"]
ENTRY = st.fixed_dictionaries({}, optional={"name": JSON, "sha256": JSON, "bytes": JSON})
MANIFEST = st.dictionaries(st.sampled_from(KEYS), JSON | st.lists(ENTRY, max_size=3), max_size=7)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    outer = tmp_path_factory.mktemp("outer")
    (outer / "x").write_text("precious")
    write(outer / "run", 100)
    return outer


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(content=MANIFEST, sealed=st.booleans())
def test_no_manifest_gives_a_traceback_or_a_write_outside(place, content, sealed):
    path = place / "run" / "checkpoints" / "step-100" / "manifest.json"
    path.write_bytes(_sealed(content) if sealed else json.dumps(content).encode())
    with contextlib.suppress(RunError):
        newest_intact(place / "run")
    assert names(place) == ["run", "x"]
    assert (place / "x").read_text() == "precious"


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    content=JSON | st.dictionaries(st.sampled_from(["format", "config", "versions", "runtime"]), JSON, max_size=4),
    status=JSON,
)
def test_no_config_gives_a_traceback(place, content, status):
    run = place / "run"
    (run / "config.json").write_text(json.dumps(content))
    (run / "status.json").write_text(json.dumps(status))
    try:
        RunFolder(run, Config(env="CartPole-v1"), 10)
    except DsaccError:
        pass
    finally:
        os.remove(run / "config.json")
        os.remove(run / "status.json")
