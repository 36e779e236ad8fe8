"""Containers of JSON are counted without reading it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm.json_nesting import Nesting, is_within, nesting_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('[]{}"\\a', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('[{"\\'), inner, max_size=3)
    ),
    max_leaves=20,
)


def _depth(value: object) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _count(value: object) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 0


@given(VALUES)
def test_the_containers_of_json_are_counted(value: object) -> None:
    found = nesting_of(json.dumps(value).encode())
    assert found == Nesting(_depth(value), _count(value))
    assert is_within(value, levels=found.depth, values=10**6)
    assert found.depth == 0 or not is_within(value, levels=found.depth - 1, values=10**6)


@pytest.mark.parametrize(
    ("text", "depth"),
    [(b"[[", 2), (b'"[[', 0), (b'"\\"[', 0), (b'["\\\\"[', 2), (b'"\\', 0), (b"]]][", 0), (b"", 0)],
)
def test_of_what_is_no_json_it_is_counted_how_deep_a_reader_gets(text: bytes, depth: int) -> None:
    assert nesting_of(text).depth == depth


def test_what_holds_itself_is_within_nothing() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert not is_within(endless, levels=1000, values=10**6)
    shared: object = []
    for _ in range(64):
        shared = [shared, shared]
    assert not is_within(shared, levels=1000, values=10**4)
