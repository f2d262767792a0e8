"""Rows in a folder: a second evaluation adds to the first and does not repeat what is there."""

import json
import os
from dataclasses import replace

import pytest

from dsacc import DSAC, evaluate
from dsacc.analysis.rows import Row
from dsacc.errors import Damaged, Unchecked
from dsacc.play import store
from dsacc.play.store import read_rows

TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8}


@pytest.fixture(scope="module")
def model():
    return DSAC("CartPole-v1", **TINY).learn(200)


def played(model, **asked):
    """The rows, and how many episodes were played for them."""
    ended = []
    rows = evaluate(model, tick=lambda n, _: ended.append(n), **asked)
    return rows, len(ended)


def test_what_is_known_is_not_played_again(model, tmp_path):
    first, count = played(model, episodes=4, out=tmp_path)
    assert count == 4
    again, count = played(model, episodes=4, out=tmp_path)
    assert (again, count) == (first, 0)
    fewer, count = played(model, episodes=2, out=tmp_path)
    assert (fewer[0]["returns"], count) == (first[0]["returns"][:2], 0)


def test_more_episodes_add_to_those_that_are_there(model, tmp_path):
    played(model, episodes=3, out=tmp_path)
    grown, count = played(model, episodes=8, out=tmp_path)
    assert count == 5
    whole, _ = played(model, episodes=8)
    assert grown[0]["returns"] == whole[0]["returns"]
    assert [len(row.returns) for row in read_rows(tmp_path / "evaluations")] == [8]


def test_a_new_condition_joins_the_others(model, tmp_path):
    played(model, episodes=2, out=tmp_path)
    rows, count = played(model, episodes=2, shifts=["id", "gaussian_noise"], severity=[1, 3], out=tmp_path)
    assert count == 4
    assert [(row["shift"], row["severity"]) for row in rows] == [
        ("id", None),
        ("gaussian_noise", 1),
        ("gaussian_noise", 3),
    ]
    assert len(read_rows(tmp_path / "evaluations")) == 3


def test_another_agent_seed_or_policy_is_another_row(model, tmp_path):
    played(model, episodes=2, out=tmp_path)
    for asked in ({"seed": 1}, {"policy": "sampled"}):
        assert played(model, episodes=2, out=tmp_path, **asked)[1] == 2
    other = DSAC("CartPole-v1", **TINY, learning_rate=1e-2).learn(200)  # of the same name, seed and step
    assert played(other, episodes=2, out=tmp_path)[1] == 2


def test_rows_of_another_version_are_played_again(model, tmp_path, monkeypatch):
    played(model, episodes=2, out=tmp_path)
    monkeypatch.setattr(store, "version", lambda: "0.0.1")
    assert played(model, episodes=2, out=tmp_path)[1] == 2


DEEP = "[" * 10_000 + "]" * 10_000


@pytest.mark.parametrize(
    "content",
    [
        "",
        DEEP,
        '[{"env": ' + DEEP + "}]",
        "[" * 990 + "]" * 990,
        '[{"env": NaN}]',
        '[{"env": "x", "env": "x"}]',
        '[{"step": ' + "9" * 5_000 + "}]",
        "{}",
        "[1]",
        '[{"env": "x"}]',
        '[{"env": 1, "agent": 1, "shift": 1, "policy": 1, "returns": ["a"], "lengths": [1]}]',
        "\xff",
    ],
)
def test_a_damaged_file_is_passed_over_with_a_warning_and_made_again(model, tmp_path, content):
    whole, _ = played(model, episodes=1, out=tmp_path)
    (path,) = (tmp_path / "evaluations").glob("*.json")
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(Damaged, match=r"\.json is damaged: .*; `dsacc evaluate` with the same options plays it again"):
        read_rows(tmp_path / "evaluations")
    with pytest.warns(UserWarning, match=r"\.json is passed over"):
        assert read_rows(tmp_path / "evaluations", strict=False) == []
    with pytest.warns(UserWarning, match=r"\.json is passed over"):
        rows, count = played(model, episodes=1, out=tmp_path)
    assert (rows, count) == (whole, 1)
    assert [row.to_json() for row in read_rows(tmp_path / "evaluations")] == whole


def test_a_file_is_a_list_of_rows_with_the_agreed_names(model, tmp_path):
    rows, _ = played(model, episodes=2, shifts=["bias"], severity=2, mode="frozen", out=tmp_path)
    (path,) = (tmp_path / "evaluations").glob("*.json")
    (row,) = json.loads(path.read_text())
    assert row == Row.from_json(rows[0]).sealed() == {**rows[0], "sha256": row["sha256"]}
    expected = {"env": "CartPole-v1", "agent": "dsac", "train_seed": 0, "eval_seed": 0, "step": 200}
    assert expected.items() <= row.items()
    keys = {"shift", "severity", "mode", "policy", "returns", "lengths", "top_action"}
    assert rows[0].keys() - expected.keys() == keys
    assert row.keys() - expected.keys() == {*keys, "sha256"}
    assert (row["shift"], row["severity"], row["mode"], row["policy"]) == ("bias", 2, "frozen", "greedy")
    assert len(row["returns"]) == len(row["lengths"]) == len(row["top_action"]) == 2


def test_rows_from_before_top_action_grow_without_it(model, tmp_path):
    whole, _ = played(model, episodes=3)
    played(model, episodes=2, out=tmp_path)
    (path,) = (tmp_path / "evaluations").glob("*.json")
    (row,) = read_rows(tmp_path / "evaluations")
    path.write_text(json.dumps([replace(row, top_action=None).sealed()]))
    (grown,), games = played(model, episodes=3, out=tmp_path)
    assert games == 1
    assert grown == {key: value for key, value in whole[0].items() if key != "top_action"}


def test_a_changed_digit_is_named_and_the_row_is_played_again(model, tmp_path):
    whole, _ = played(model, episodes=2, out=tmp_path)
    (path,) = (tmp_path / "evaluations").glob("*.json")
    good = path.read_bytes()
    changed = json.loads(good)
    changed[0]["returns"][1] += 1
    path.write_text(json.dumps(changed))
    with pytest.raises(Damaged, match=r"greedy-seed0-\w+\.json is damaged: row 1 of 1: .* does not match its sha256"):
        read_rows(tmp_path / "evaluations")
    with pytest.warns(UserWarning, match=r"played again: row 1 of 1: a row of tests does not match its sha256"):
        rows, count = played(model, episodes=2, out=tmp_path)
    assert (rows, count, path.read_bytes()) == (whole, 2, good)


def test_rows_from_before_count_and_one_warning_says_how_many(model, tmp_path):
    asked = {"episodes": 2, "shifts": ["id", "bias", "gaussian_noise"], "out": tmp_path}
    whole, _ = played(model, **asked)
    for path in list((tmp_path / "evaluations").glob("*.json"))[:2]:
        path.write_text(json.dumps([{k: v for k, v in json.loads(path.read_text())[0].items() if k != "sha256"}]))
    with pytest.warns(Unchecked) as said:
        assert played(model, **asked) == (whole, 0)
    assert [w.message.count for w in said] == [2]
    with pytest.warns(Unchecked, match="2 rows of tests were written before rows carried a sha256") as said:
        assert len(read_rows(tmp_path / "evaluations")) == 3
    assert len(said) == 1


def test_a_pipe_or_a_file_too_large_among_the_rows_is_refused_at_once(model, tmp_path):
    played(model, episodes=1, out=tmp_path)
    os.mkfifo(tmp_path / "evaluations" / "pipe.json")
    with pytest.raises(Damaged, match=r"pipe.json is damaged: it is not a regular file"):
        read_rows(tmp_path / "evaluations")
    (tmp_path / "evaluations" / "pipe.json").unlink()
    with open(tmp_path / "evaluations" / "large.json", "wb") as file:
        file.truncate(10**12)
    with pytest.raises(Damaged, match=r"large.json is damaged: it has 1000.00 GB"):
        read_rows(tmp_path / "evaluations")
