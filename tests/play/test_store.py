"""Rows in a folder: a second evaluation adds to the first and does not repeat what is there."""

import json

import pytest

from dsacc import DSAC, evaluate
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


@pytest.mark.parametrize(
    "content",
    [
        "",
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
    with pytest.warns(UserWarning, match=r"\.json is passed over"):
        assert read_rows(tmp_path / "evaluations") == []
    with pytest.warns(UserWarning, match=r"\.json is passed over"):
        rows, count = played(model, episodes=1, out=tmp_path)
    assert (rows, count) == (whole, 1)
    assert [row.to_json() for row in read_rows(tmp_path / "evaluations")] == whole


def test_a_file_is_a_list_of_rows_with_the_agreed_names(model, tmp_path):
    rows, _ = played(model, episodes=2, shifts=["bias"], severity=2, mode="frozen", out=tmp_path)
    (path,) = (tmp_path / "evaluations").glob("*.json")
    (row,) = json.loads(path.read_text())
    assert row == rows[0]
    expected = {"env": "CartPole-v1", "agent": "dsac", "train_seed": 0, "eval_seed": 0, "step": 200}
    assert expected.items() <= row.items()
    assert row.keys() - expected.keys() == {"shift", "severity", "mode", "policy", "returns", "lengths"}
    assert (row["shift"], row["severity"], row["mode"], row["policy"]) == ("bias", 2, "frozen", "greedy")
    assert len(row["returns"]) == len(row["lengths"]) == 2
