"""`dsacc evaluate` as a user types it: no number of something else, and a table whatever happens to the files."""

import json

import numpy as np
import pytest
from helpers.extras import needs

from dsacc.cli import main

TINY = ["--random-steps", "20", "--batch-size", "8"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds of one run, and one that differs from them."""
    folder = tmp_path_factory.mktemp("runs")
    for name, options in {"first": [], "second": ["--seed", "1"], "small": ["--hidden", "8"]}.items():
        command = ["train", "CartPole-v1", "--steps", "24", "--out", str(folder / name), *TINY, *options]
        assert main(command) == 0
    command = ["train", "CartPole-v1", "--steps", "28", "--out", str(folder / "longer"), *TINY]
    assert main(command) == 0
    return folder


def names_and_scores(capsys, *runs, **_):
    capsys.readouterr()
    assert main(["evaluate", *map(str, runs), "--episodes", "2", "--format", "json"]) == 0
    return [(row["agent"], row["train_seed"]) for row in json.loads(capsys.readouterr().out)]


def test_only_runs_that_differ_in_their_seed_alone_share_a_name(runs, capsys):
    one, two, small, longer = (runs / name for name in ("first", "second", "small", "longer"))
    assert names_and_scores(capsys, one, two) == [("dsac-m", 0), ("dsac-m", 1)]
    assert names_and_scores(capsys, one, small) == [("dsac-m, hidden 128", 0), ("dsac-m, hidden 8", 0)]
    assert names_and_scores(capsys, one, longer) == [("dsac-m, steps 24", 0), ("dsac-m, steps 28", 0)]
    assert main(["evaluate", str(two), str(small), "--episodes", "2"]) == 0
    shown = capsys.readouterr().out
    assert "between the episodes of the one seed" in " ".join(shown.split())
    assert all(name in shown for name in ("dsac-m, hidden 128", "dsac-m, hidden 8"))


def test_one_number_has_one_table_which_says_how_many_episodes(runs, capsys):
    assert main(["evaluate", str(runs / "first"), "--episodes", "2"]) == 0
    shown = capsys.readouterr().out
    assert "Scores are means of 2 episodes; ±" in shown
    assert "IQM" not in shown
    assert main(["evaluate", str(runs / "first"), str(runs / "second"), "--episodes", "2"]) == 0
    shown = capsys.readouterr().out
    assert "means of 2 episodes of each training seed" in " ".join(shown.split())
    assert "IQM" in shown


def test_a_run_that_cannot_be_written_is_told_first_and_played_and_shown(runs, capsys):
    kept = runs / "second" / "evaluations"
    kept.rename(runs / "put_away")
    kept.write_text("a file in the way")
    try:
        assert main(["evaluate", str(runs / "second"), "--episodes", "3"]) == 0
        found = capsys.readouterr()
        assert found.err.startswith(f"{kept} cannot be written (")
        assert "means of 3 episodes" in found.out
        out = runs / "elsewhere"
        assert main(["evaluate", str(runs / "second"), "--episodes", "3", "--out", str(out)]) == 0
        assert f"the rows are in {out}" in capsys.readouterr().err
        assert len(list((out / "evaluations").glob("*.json"))) == 1
        assert main(["evaluate", str(runs / "first"), "--episodes", "3", "--out", str(runs / "second")]) == 2
        assert "episode " not in capsys.readouterr().err  # nothing was played
    finally:
        kept.unlink()
        (runs / "put_away").rename(kept)


def test_a_disk_that_fails_while_rows_are_written_costs_no_table(runs, capsys, monkeypatch):
    monkeypatch.setattr("dsacc.play.store.RowStore.check", lambda store: None)  # as if it were still good then
    blocked = runs / "blocked"
    blocked.write_text("a file in the way")
    command = ["evaluate", str(runs / "first"), "--episodes", "2", "--out", str(blocked)]
    assert main(command) == 2
    found = capsys.readouterr()
    assert "means of 2 episodes" in found.out
    assert found.err.splitlines()[-1].startswith(f"dsacc: {blocked}")


def test_a_file_of_another_library_is_told_by_its_ending(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dqn.zip").touch()
    (tmp_path / "net.onnx").touch()
    for given, wanted in {"dqn.zip": "sb3:dqn.zip", "dqn": "sb3:dqn.zip", "net.onnx": "onnx:net.onnx"}.items():
        assert main(["evaluate", given, "--env", "CartPole-v1"]) == 2
        assert capsys.readouterr().err.strip().endswith(f"write {wanted}")


@needs("stable_baselines3", "sb3")
def test_two_files_of_stable_baselines_are_two_agents(tmp_path, capsys):
    from stable_baselines3 import PPO

    for name in ("one", "two"):
        PPO("MlpPolicy", "CartPole-v1", seed=0 if name == "one" else 1, device="cpu").save(tmp_path / name)
    files = [f"sb3:{tmp_path / name}.zip" for name in ("one", "two")]
    found = names_and_scores(capsys, *files, "--env", "CartPole-v1", "--trust")
    assert [agent for agent, _ in found] == ["sb3:PPO, one", "sb3:PPO, two"]
    assert np.unique([seed for _, seed in found]).tolist() == [0, 1]


def unsealed(path):
    """The file as dsacc wrote it before rows carried a checksum."""
    path.write_text(
        json.dumps([{k: v for k, v in row.items() if k != "sha256"} for row in json.loads(path.read_text())])
    )


def test_a_flipped_digit_is_named_and_played_again_and_the_table_is_the_same(runs, tmp_path, capsys):
    command = ["evaluate", str(runs / "first"), "--episodes", "2", "--out", str(tmp_path)]
    assert main(command) == 0
    whole = capsys.readouterr().out
    (path,) = (tmp_path / "evaluations").glob("*.json")
    good = path.read_bytes()
    path.write_bytes(good.replace(b".0,", b".1,", 1))
    assert main(command) == 0
    found = capsys.readouterr()
    assert (found.out, path.read_bytes()) == (whole, good)
    said = (
        f"dsacc: warning: {path} is passed over, and played again: row 1 of 1: a row of tests does not match its sha256"
    )
    assert any(line.startswith(said) for line in found.err.splitlines())


def test_rows_from_before_are_said_once_for_all_runs_and_not_in_the_json(runs, capsys):
    command = ["evaluate", str(runs / "first"), str(runs / "second"), "--episodes", "2", "--format", "json"]
    assert main(command) == 0
    whole = capsys.readouterr().out
    for name in ("first", "second"):
        for path in (runs / name / "evaluations").glob("*.json"):
            unsealed(path)
    assert main(command) == 0
    found = capsys.readouterr()
    assert found.out == whole
    said = [line for line in found.err.splitlines() if "sha256" in line]
    assert said == ["dsacc: warning: 2 rows of tests were written before rows carried a sha256, and count unchecked"]
