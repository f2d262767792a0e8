"""One row of tests: what is read is what was written, what is not a row is said, and which rows are final."""

import dataclasses
import json

import pytest

from dsacc.analysis.names import in_agent_order, in_shift_order, with_display_names
from dsacc.analysis.rows import Condition, Row, as_rows, final_rows, parse_rows
from dsacc.errors import ConfigError
from dsacc.system.plain import NotPlain, parse_json

CLEAN = {
    "env": "Breakout",
    "agent": "dsac-m",
    "train_seed": 0,
    "eval_seed": 0,
    "step": 1000,
    "shift": "id",
    "severity": None,
    "mode": None,
    "policy": "greedy",
    "returns": [1.0, 4],
    "lengths": [10, 20],
}
SNOW = {**CLEAN, "shift": "snow", "severity": 3, "mode": "falling"}


@pytest.mark.parametrize(
    "row",
    [
        CLEAN,
        SNOW,
        {**CLEAN, "train_seed": None, "step": None},
        {**dict(list(SNOW.items())[:9]), "where": "screen", "returns": [0.5], "lengths": [3]},
        {**CLEAN, "run": "Breakout-dsac-m-s0", "variant": ""},
    ],
)
def test_a_row_is_written_as_it_was_read(row):
    assert json.dumps(Row.from_json(row).to_json()) == json.dumps(row)  # keys, their order, and 4 and not 4.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"env": 1}, "'1' as 'env'"),
        ({"train_seed": "0"}, "'0' as 'train_seed'"),
        ({"step": -1}, "'-1' as 'step'"),
        ({"step": True}, "'True' as 'step'"),
        ({"severity": 1.5}, "'1.5' as 'severity'"),
        ({"mode": ["falling"]}, "as 'mode'"),
        ({"returns": [float("nan")], "lengths": [1]}, "as 'returns'"),
        ({"returns": [10**400], "lengths": [1]}, "as 'returns'"),
        ({"returns": "12"}, "as 'returns'"),
        ({"returns": [], "lengths": []}, "one return and one length per episode"),
        ({"lengths": [1]}, "one return and one length per episode"),
    ],
)
def test_what_is_no_row_is_refused_with_the_reason(change, message):
    with pytest.raises(ConfigError, match=message):
        Row.from_json({**CLEAN, **change})


def test_a_missing_key_is_named_and_a_row_may_lack_severity_and_mode():
    with pytest.raises(ConfigError, match="has no 'step'"):
        Row.from_json({key: value for key, value in CLEAN.items() if key != "step"})
    assert Row.from_json({k: v for k, v in CLEAN.items() if k not in ("severity", "mode")}) == Row.from_json(CLEAN)


def test_good_rows_of_a_file_are_kept_and_the_others_counted():
    found = parse_rows([CLEAN, 3, {**CLEAN, "env": None}, SNOW])
    assert [row.shift for row in found.rows] == ["id", "snow"]
    assert found.problems[0] == "row 2 of 4: a row of tests must be an object, not int"
    assert len(found.problems) == 2
    assert parse_rows({"env": "x"}).problems == ["it is not a list of rows"]


def test_dicts_and_rows_may_be_mixed():
    first, second = as_rows([CLEAN, Row.from_json(CLEAN)])
    assert first == second
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.agent = "other"  # type: ignore[misc]


def test_a_condition_is_what_the_agent_saw():
    assert Row.from_json({**CLEAN, "severity": "paper", "mode": "frozen"}).condition == Condition("id")
    assert Row.from_json({**SNOW, "severity": "3"}).condition == Condition("snow", 3, "falling")
    shifted = Row.from_json({**SNOW, "where": "screen"}).condition
    assert shifted == Condition("snow", 3, "falling on the screen")
    assert (shifted.words, Condition("id").words) == ("snow 3 falling on the screen", "clean")
    assert Row.from_json(CLEAN).mean == 2.5


def test_final_is_the_last_step_that_was_asked_for_or_else_the_latest_of_each_run():
    def row(step, **other):
        return Row.from_json({**CLEAN, "step": step, **other})

    rows = [row(500), row(1000), row(1000, shift="snow"), row(700, train_seed=1), row(300, variant="odd", run="x")]
    assert final_rows(rows, 1000) == rows[1:3]
    assert final_rows(rows, 2000) == []
    assert final_rows(rows) == rows[1:]
    same_game = [row(500, env="ALE/Breakout-v5"), row(1000)]
    assert final_rows(same_game) == same_game[1:]
    assert final_rows([row(None), row(5)]) == [row(5)]


def test_our_agents_come_first_and_a_new_constraint_needs_no_list():
    agents = ["random", "dsac-mv", "dsac-v", "dsac-z", "sb3:DQN", "dsac-m", "dsac", "dsac-m, odd", "dsac"]
    expected = ["dsac", "dsac-m", "dsac-v", "dsac-z", "dsac-mv", "random", "sb3:DQN", "dsac-m, odd"]
    assert in_agent_order(agents) == expected
    assert in_shift_order(["fog", "blur", "id", "snow", "blur", "rain"]) == ["id", "snow", "rain", "fog", "blur"]
    assert with_display_names("P(> dsac-mv), not dsacc or random") == "P(> DSAC-MV), not dsacc or random"


# --- checksums --------------------------------------------------------------------------------------------------------


def test_a_row_on_disk_carries_its_sha256_and_has_the_same_keys_otherwise():
    row = Row.from_json(SNOW)
    assert row.sealed() == {**SNOW, "sha256": row.seal}
    assert Row.from_json(row.sealed()) == row
    assert "sha256" not in row.to_json()


@pytest.mark.parametrize("key", [key for key in SNOW if key != "sha256"])
def test_a_row_with_any_other_value_is_refused(key):
    other = {"returns": [1.0, 5], "lengths": [10, 21], "train_seed": 1, "eval_seed": 1, "step": 1001, "severity": 2}
    content = Row.from_json(SNOW).sealed()
    content[key] = other.get(key, f"{content[key]}x")
    with pytest.raises(ConfigError, match="does not match its sha256, so it was changed after it was written"):
        Row.from_json(content)


def test_a_row_that_another_program_wrote_again_still_holds():
    """Other programs sort keys, write 4 for 4.0 or 0.0 for 0, add null for what is missing, or columns of their own."""
    content = {**Row.from_json(SNOW).sealed(), "where": None, "run": None, "returns": [1, 4.0], "train_seed": 0.0}
    again = json.loads(json.dumps({**content, "train_seed": 0, "note": "mine"}, sort_keys=True))
    assert Row.from_json(again) == Row.from_json(SNOW)


def test_rows_without_a_checksum_are_counted():
    sealed = Row.from_json(CLEAN).sealed()
    found = parse_rows([CLEAN, sealed, SNOW, {**sealed, "step": 7}])
    assert (len(found.rows), found.unchecked) == (3, 2)
    assert found.problems == [
        "row 4 of 4: a row of tests does not match its sha256, so it was changed after it was written"
    ]


def flipped(data):
    """The bytes with each single bit flipped in turn."""
    for at in range(len(data)):
        for bit in range(8):
            yield data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


def test_every_flipped_bit_of_a_file_of_rows_is_noticed_or_changes_nothing():
    """What is read without a complaint is the same row, or the same row that says it is unchecked."""
    row = Row.from_json({**SNOW, "env": "Pärchen", "returns": [1.5e-07, -21.0], "exposure": "near"})
    harmless = 0
    for text in (json.dumps([row.sealed()], indent=2), json.dumps([row.sealed()])):
        for data in flipped(text.encode()):
            try:
                found = parse_rows(parse_json(data))
            except NotPlain:
                continue
            if not found.problems:
                assert found.rows == [row]
                harmless += 1
    assert 0 < harmless < 200  # the name `sha256` itself, E for e, and \U00E4 for \u00e4
