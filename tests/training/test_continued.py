"""What goes on elsewhere: a checkpoint of another format, other environments, an environment that fails."""

import pytest
from helpers.checkpoints import killed_in_its_last_save, newest_intact
from probes import Pays
from robustness.crash import fingerprint

from dsacc import DSAC
from dsacc.errors import EnvFailed, RunError
from dsacc.runs import Checkpoints
from dsacc.system.packing import pack_arrays, unpack_arrays

TINY = {"random_steps": 2, "hidden": 16, "batch_size": 8, "log_every": 50}


def test_a_checkpoint_of_another_format_is_refused_and_not_read(tmp_path):
    DSAC("CartPole-v1", **TINY).learn(60, out=tmp_path)
    manifest, files = (found := newest_intact(tmp_path)).manifest, dict(found.files)
    arrays, header = unpack_arrays(files["trainer.safetensors"], tmp_path)
    assert header["format"] == 1
    files["trainer.safetensors"] = pack_arrays(arrays, {**header, "format": 99})
    Checkpoints(tmp_path).write(60, manifest.regular, files, manifest.segments, manifest.extra)
    with pytest.raises(RunError, match=r"does not fit this run \(trainer.safetensors has format 99, this dsacc"):
        DSAC("CartPole-v1", **TINY).learn(120, out=tmp_path)
    assert not (tmp_path / "lock").exists()


def test_a_run_killed_after_its_last_save_ends_with_the_same_bytes(tmp_path):
    settings = {**TINY, "checkpoint_every": 20}
    DSAC("CartPole-v1", **settings).learn(60, out=tmp_path / "whole")
    with killed_in_its_last_save(60), pytest.raises(KeyboardInterrupt):
        DSAC("CartPole-v1", **settings).learn(60, out=tmp_path / "killed")
    assert (tmp_path / "killed" / "checkpoints" / "step-20").exists()
    DSAC("CartPole-v1", **settings).learn(60, out=tmp_path / "killed")
    assert fingerprint(tmp_path / "killed") == fingerprint(tmp_path / "whole")


def test_an_episode_that_other_environments_interrupt_counts_for_nothing(tmp_path):
    model = DSAC(Pays(), **TINY).learn(4)  # one step of the second episode, which has paid 1
    model.set_env(Pays())
    rows, ended = [], []
    trainer = model.prepare()
    model.learn(6, callback=rows.append, every={1: lambda model: ended.extend(trainer.ended)})
    assert [(episode["step"], episode["return"], episode["length"]) for episode in ended] == [(7, 6, 3), (10, 6, 3)]
    assert rows[-1]["return"] == 6


@pytest.mark.parametrize("step", [1, 5])
def test_the_step_at_which_an_environment_fails_is_said(step):
    env = Pays()
    env.fails_at = step
    with pytest.raises(EnvFailed, match=f"^step {step} of Pays failed: .*the plug was pulled"):
        DSAC(env, **TINY).learn(10)
