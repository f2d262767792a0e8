"""What a run leaves on disk, and how the same command finds it again."""

import json
import shutil

import pytest

from dsacc import DSAC
from dsacc.config import Config
from dsacc.errors import ModelError, RunError
from dsacc.runs import RunFolder, read_latest, read_model

TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8, "log_every": 50}


def train(out, steps=120, constraint="mean", **settings):
    return DSAC("CartPole-v1", constraint=constraint, **{**TINY, **settings}).learn(steps, out=out)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_folder_holds_what_the_contract_says(tmp_path):
    model = train(tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["run_id"] == model.config.run_id
    assert config["config"]["noise_std"] == 1.0
    assert {"python", "dsacc", "torch", "numpy", "gymnasium"} <= config["versions"].keys()
    metrics = rows(tmp_path / "run" / "metrics.jsonl")
    assert [r["step"] for r in metrics] == [50, 100, 120]
    wanted = "return critic_loss actor_loss alpha entropy q_mean expected_error lambda lambda_at_lower lambda_at_upper"
    assert set(wanted.split()) | {"constraint_residual"} <= metrics[0].keys()
    assert [r["step"] for r in rows(tmp_path / "run" / "timing.jsonl")] == [50, 100, 120]
    assert json.loads((tmp_path / "run" / "status.json").read_text())["state"] == "finished"
    assert read_latest(tmp_path / "run").step == 120


def test_tensorboard_events_on_request(tmp_path):
    DSAC("CartPole-v1", **TINY).learn(120, out=tmp_path / "run", tensorboard=True)
    (events,) = (tmp_path / "run" / "tensorboard").iterdir()
    assert b"critic_loss" in events.read_bytes()
    assert not (tmp_path / "run" / "tensorboard.lock").exists()
    DSAC("CartPole-v1", **TINY).learn(120, out=tmp_path / "quiet")
    assert not (tmp_path / "quiet" / "tensorboard").exists()


def test_a_damaged_agent_is_passed_over_when_it_is_loaded(tmp_path):
    train(tmp_path / "run", checkpoint_every=50)
    agent = tmp_path / "run" / "checkpoints" / "step-120" / "agent.safetensors"
    agent.write_bytes(agent.read_bytes()[:-1] + b"x")
    with pytest.warns(UserWarning, match=r"does not match its sha256; the agent of step 100 is used"):
        assert DSAC.load(tmp_path / "run").step == 100


def test_the_joint_agent_logs_both_multipliers(tmp_path):
    train(tmp_path / "run", constraint="both")
    row = rows(tmp_path / "run" / "metrics.jsonl")[-1]
    assert {"lambda_1", "lambda_2", "lambda_at_lower_1", "lambda_at_upper_2", "constraint_residual_1"} <= row.keys()


def test_metrics_are_the_same_bytes_for_the_same_seed(tmp_path):
    for name in ("a", "b"):
        train(tmp_path / name)
    for file in ("metrics.jsonl", "checkpoints/step-120/agent.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_finished_run_is_not_repeated(tmp_path):
    first = train(tmp_path / "run")
    before = (tmp_path / "run" / "timing.jsonl").read_bytes()
    again = train(tmp_path / "run")
    assert (tmp_path / "run" / "timing.jsonl").read_bytes() == before
    assert again.step == first.step
    assert again.learner.state()["actor.head.weight"].equal(first.learner.state()["actor.head.weight"])


def test_a_changed_setting_is_refused_with_the_difference(tmp_path):
    train(tmp_path / "run")
    with pytest.raises(RunError, match=r"noise_std 1.0 there, 0.5 here"):
        train(tmp_path / "run", noise_std=0.5)


def test_a_stopped_run_without_a_checkpoint_starts_again_and_ends_the_same(tmp_path):
    train(tmp_path / "whole")

    def stop(row):
        if row["step"] == 100:
            raise KeyboardInterrupt

    model = DSAC("CartPole-v1", constraint="mean", **TINY)
    with pytest.raises(KeyboardInterrupt):
        model.learn(120, out=tmp_path / "cut", callback=stop)
    assert json.loads((tmp_path / "cut" / "status.json").read_text())["state"] == "stopped"
    train(tmp_path / "cut")
    for file in ("metrics.jsonl", "checkpoints/step-120/agent.safetensors"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "cut" / file).read_bytes()


def test_folders_that_are_not_runs_are_left_alone(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("precious")
    with pytest.raises(RunError, match="contains files but no run"):
        train(tmp_path / "notes")
    (tmp_path / "file").write_text("precious")
    with pytest.raises(RunError, match="is a file"):
        train(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "precious"


def test_looking_writes_nothing(tmp_path):
    model = DSAC("CartPole-v1", **TINY)
    assert RunFolder(tmp_path / "run", model.config, 10).found == "new"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04K\x01.", b"\xff" * 100, b"{}", (2**62).to_bytes(8, "little") + b"{}"]
)
def test_a_file_that_is_no_agent_is_refused(content, tmp_path):
    (tmp_path / "agent.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match="not a saved dsacc agent, or is damaged"):
        DSAC.load(tmp_path / "agent")


def test_a_saved_agent_with_a_bad_header_is_refused(tmp_path):
    import torch
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(ModelError, match="not a saved dsacc agent"):
        DSAC.load(tmp_path / "other")
    good = read_model(train(tmp_path / "run").save(tmp_path / "good"))
    with pytest.raises(ModelError, match="there is no saved agent"):
        DSAC.load(tmp_path / "missing")
    import dataclasses

    from dsacc.runs import write_model

    write_model(tmp_path / "short", dataclasses.replace(good, tensors={"log_alpha": good.tensors["log_alpha"]}))
    with pytest.raises(ModelError, match="do not fit"):
        DSAC.load(tmp_path / "short")


def test_an_empty_run_folder_has_no_agent(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RunError, match="no trained agent yet"):
        DSAC.load(tmp_path)


def test_damaged_json_is_named(tmp_path):
    train(tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text("{")
    with pytest.raises(RunError, match=r"config.json cannot be read as JSON"):
        train(tmp_path / "run")


@pytest.mark.parametrize("name", ["metrics.jsonl", "episodes.jsonl", "timing.jsonl", "replay", "checkpoints"])
@pytest.mark.parametrize("begun", ["before its first checkpoint", "halfway"])
def test_a_run_that_goes_on_follows_no_link_to_other_files(tmp_path, name, begun):
    """A folder from elsewhere may have links in it: what a run cuts and removes must be its own."""
    run, others = tmp_path / "run", tmp_path / "others"
    train(run, 60, checkpoint_every=50)
    if begun != "halfway":
        shutil.rmtree(run / "checkpoints")
        shutil.rmtree(run / "replay")
    (run / "status.json").unlink()
    others.mkdir()
    (others / "mine.txt").write_text("mine")
    if (run / name).is_dir():
        shutil.rmtree(run / name)
    else:
        (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(others if name in ("replay", "checkpoints") else others / "mine.txt")
    with pytest.raises(RunError, match=f"{name} is a link, and links in a run folder are not followed"):
        train(run, 120, checkpoint_every=50)
    assert [path.name for path in others.iterdir()] == ["mine.txt"]
    assert (others / "mine.txt").read_text() == "mine"


def test_a_file_larger_than_the_memory_is_refused_before_it_is_read(tmp_path):
    with open(tmp_path / "agent.safetensors", "wb") as file:
        file.truncate(2**43)  # all holes: it takes no room on the disk
    with pytest.raises(ModelError, match=r"has 8796\.09 GB, and only .* GB of memory are free"):
        DSAC.load(tmp_path / "agent")


def test_a_run_killed_while_it_wrote_its_first_file_begins_again(tmp_path):
    (tmp_path / ".config.json.0a1b2c3d.999999.tmp").write_bytes(b"{")
    assert RunFolder(tmp_path, Config(), 10).found == "new"
    (tmp_path / ".other.json.0a1b2c3d.999999.tmp").write_bytes(b"{")
    with pytest.raises(RunError, match="contains files but no run"):
        RunFolder(tmp_path, Config(), 10)
