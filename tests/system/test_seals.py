"""Objects that carry the sha256 of their content: what counts, and what does not."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsacc.errors import Damaged
from dsacc.system.seals import holds, read_sealed, seal, sealed, sealed_or_empty

CONTENT = {"name": "é", "step": 300, "rate": 2.5e-05, "list": [1.0, 2, None, True], "inner": {"b": 1, "a": [0.1]}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def test_order_space_and_the_way_a_number_is_written_do_not_count():
    text = '{"inner": {"a":[1e-1],"b":1.00}, "list":[1,2.0,null,true], "rate": 0.000025, "step":3E2, "name":"\\u00e9"}'
    assert seal(json.loads(text)) == seal(CONTENT)


@pytest.mark.parametrize(
    "change",
    [{"step": 301}, {"rate": 2.6e-05}, {"list": [1.0, 2, None]}, {"list": [1.0, 2, None, 1]}, {"name": "e"}, {"x": 1}],
)
def test_every_value_and_name_counts(change):
    assert seal({**CONTENT, **change}) != seal(CONTENT)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4))
def test_what_was_written_holds_when_it_is_read(content):
    assert holds(json.loads(json.dumps(sealed(content), indent=1)))


def test_a_file_that_was_changed_is_named_and_one_without_a_seal_is_read(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(sealed(CONTENT), indent=2))
    assert read_sealed(path) == CONTENT
    path.write_text(path.read_text().replace("300", "301"))
    with pytest.raises(Damaged, match=r"x.json does not match its sha256, so it was changed after it was written"):
        read_sealed(path)
    assert sealed_or_empty(path) == sealed_or_empty(tmp_path / "none.json") == {}
    path.write_text(json.dumps(CONTENT))
    assert read_sealed(path) == CONTENT
