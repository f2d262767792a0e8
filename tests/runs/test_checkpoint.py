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

EXAMPLES = int(os.environ.get("DSACC_EXAMPLES", "500"))  # of damaged files; `make fault-test` takes ten times as many
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
