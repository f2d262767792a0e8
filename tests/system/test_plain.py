"""Text that anyone may have written: read as it is meant, or refused in one sentence."""

import json
import sys

import pytest

from dsacc.errors import RunError
from dsacc.system import files, plain
from dsacc.system.files import json_lines, read_file, read_json
from dsacc.system.plain import MAX_DEPTH, NotPlain, parse_json, parse_toml


def nested(depth, open_="[", close="]"):
    return open_ * depth + close * depth


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (nested(10_000), "nested more than 100 deep"),
        ('{"a": ' * 10_000 + "1" + "}" * 10_000, "nested more than 100 deep"),
        (nested(MAX_DEPTH + 1), "nested more than 100 deep"),
        ('{"a": NaN}', "it has NaN where a finite number must be"),
        ("[-Infinity]", "it has -Infinity where"),
        ("[1e999]", "it has 1e999 where"),
        (f"[{2**128}]", "more than 128 bits"),
        ("9" * 10_000, "more than 128 bits"),
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ('{"b": {"a": 1, "c": 0, "a": 1}}', "the key 'a' is there twice"),
        (b'{"a": "\xff"}', "byte 8 is not UTF-8"),
        ("[1, 2", "Expecting"),
        ("", "Expecting value"),
    ],
)
def test_what_is_not_plain_is_refused_with_the_reason(text, why):
    with pytest.raises(NotPlain, match=why):
        parse_json(text)


def test_no_depth_ends_in_a_recursion_error():
    """Python reads about as deep as it can print, give or take a few: a text may pass the one and not the other."""
    for depth in range(MAX_DEPTH + 1, 1_200):
        with pytest.raises(NotPlain, match="nested"):
            parse_json(nested(depth))


def test_a_high_limit_of_recursion_changes_nothing():
    """Newer Pythons read ten thousand levels, and end with an error where the result is compared or shown."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(12_000)
    try:
        with pytest.raises(NotPlain, match="nested more than 100 deep"):
            parse_json(nested(10_000))
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("content", [nested(MAX_DEPTH), "3", '"x"', "null", f"[{2**128 - 1}, -{2**128 - 1}, 1e-400]"])
def test_what_is_plain_is_read_as_json_reads_it(content):
    assert parse_json(content) == parse_json(content.encode()) == json.loads(content)


def test_infinity_is_let_through_where_others_write_it():
    assert parse_json("[Infinity, 1e999]", finite=False) == [float("inf")] * 2
    with pytest.raises(NotPlain, match="twice"):
        parse_json('{"a": NaN, "a": 1}', finite=False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = " + nested(10_000), "nested more than 100 deep"),
        ("a = " + nested(MAX_DEPTH + 1), "nested more than 100 deep"),
        ("a = " + "9" * 10_000, "more than 128 bits"),
        (f"a = [{2**128}]", "more than 128 bits"),
        ("a = nan", "it has nan where"),
        ("a = -inf", "it has -inf where"),
        ("a = 1\na = 2", "Cannot overwrite a value"),
        (b"a = '\xff'", "byte 6 is not UTF-8"),
    ],
)
def test_toml_is_refused_for_the_same_reasons(text, why):
    with pytest.raises(NotPlain, match=why):
        parse_toml(text)


def test_an_enormous_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "status.json"
    with open(path, "wb") as file:
        file.truncate(10**12)  # a hole: it takes no space on the disk
    with pytest.raises(RunError, match=r"status.json has 1000.00 GB, and at most 67.1 MB are read"):
        read_json(path)


def test_a_text_inside_a_file_has_the_same_limit(monkeypatch):
    monkeypatch.setattr(plain, "MAX_BYTES", 100)
    with pytest.raises(NotPlain, match="it has 0 KB, and at most"):
        parse_json("[" + " " * 200 + "]")


def test_a_pipe_keeps_nobody_waiting(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RunError, match="is not a regular file"):
        read_file(tmp_path / "pipe", links=True)


def test_a_log_is_read_line_by_line_and_what_is_no_object_is_counted(monkeypatch):
    lines = [b'{"a": 1}', b"[1]", b'{"a": NaN}', nested(10_000).encode(), b"", b'{"b": "\xff"}', b'{"a": 2}', b'{"a"']
    assert list(json_lines(b"\n".join(lines))) == [{"a": 1}, None, None, None, None, None, {"a": 2}]
    monkeypatch.setattr(files.plain, "MAX_LINE", 10)
    assert list(json_lines(b'{"a":    1}\n{"a":   1}\n')) == [None, {"a": 1}]
