"""Canonical JSON: every value has one spelling, and only that one is read."""

import json

from hypothesis import given
from hypothesis import strategies as st

from sslm.errors.status import Status
from sslm.formats.sslm.canonical_json import JsonFields, JsonValue, decode_json, encode_json
from tests.causes import raises

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**19) + 1, 10**19) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_values_come_back(value: JsonValue) -> None:
    assert decode_json(memoryview(encode_json(value)), "test") == value


@given(VALUES)
def test_any_other_spelling_is_refused(value: JsonValue) -> None:
    canonical = encode_json(value)
    other = json.dumps(value, sort_keys=True).encode()
    if other != canonical:
        with raises(Status.JSON_NOT_CANONICAL):
            decode_json(memoryview(other), "test")


def test_spelling() -> None:
    value: JsonValue = {"b": [1, -2, None, True], "a": '"\\/\n\x1f\x7fé😀', "é": {}, "z": False}
    expected = '{"a":"\\"\\\\/\\n\\u001f\x7fé😀","b":[1,-2,null,true],"z":false,"é":{}}'
    assert encode_json(value) == expected.encode()


def test_first_difference_is_named() -> None:
    with raises(Status.JSON_NOT_CANONICAL) as caught:
        decode_json(memoryview(b'{"a":1, "b":2}'), "test")
    assert caught.value.offset_bytes == 7
    with raises(Status.JSON_NOT_CANONICAL) as caught:
        decode_json(memoryview(b"[] "), "test")
    assert caught.value.offset_bytes == 2


def test_fields_are_typed_and_bounded() -> None:
    fields = JsonFields("it", {"n": 3, "t": "abc", "b": True, "l": [1], "h": "00ff", "z": None})
    assert fields.integer("n", at_least=3, at_most=3) == 3
    assert fields.text("t", at_most=3) == "abc"
    assert fields.boolean("b") is True
    assert fields.items("l", lambda place, value: (place, value), at_most=1) == (("it.l[0]", 1),)
    assert fields.hexadecimal("h", size_bytes=2) == b"\0\xff"
    assert fields.text_or_none("z", at_most=0) is None
    fields.finish()


def test_booleans_are_no_integers() -> None:
    with raises(Status.JSON_TYPE):
        JsonFields("it", {"n": True}).integer("n", at_least=0, at_most=9)
    with raises(Status.JSON_RANGE):
        JsonFields("it", {"n": 10}).integer("n", at_least=0, at_most=9)
