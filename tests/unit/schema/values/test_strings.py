"""Contents of strings: valid UTF-8 only, one spelling for each text, lengths in code points."""

import json
import sys
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslm.errors.schema import SchemaTextError
from sslm.schema.regular.automaton import Automaton
from sslm.schema.regular.compiler import compile_language
from sslm.schema.values.code_points import (
    EVERY_CODE_POINT,
    all_but,
    code_points,
    of_characters,
)
from sslm.schema.values.strings import (
    any_character,
    any_text,
    character_of,
    quoted,
    spelled,
    text,
    text_of_length,
)

RANGES = st.lists(
    st.tuples(st.integers(0, sys.maxunicode), st.integers(0, 0x3000)).map(
        lambda pair: (pair[0], min(pair[0] + pair[1], sys.maxunicode))
    ),
    max_size=4,
)


def _expected(text_: str) -> bytes:
    """Return the spelling that the standard library gives: it escapes what JSON demands."""
    return json.dumps(text_, ensure_ascii=False)[1:-1].encode()


def test_every_character_has_its_spelling_and_no_other() -> None:
    """As many strings as there are characters, and a share of the characters among them."""
    automaton = compile_language(any_character())
    assert _string_count(automaton, 6) == 0x110000 - 0x800
    edges = [e + d for e in (0x80, 0x800, 0xD800, 0xE000, 0x10000) for d in (-1, 0, 1)]
    for one in (*edges, *range(0x800), *range(0x800, 0x110000, 97)):
        if not 0xD800 <= one <= 0xDFFF:
            assert automaton.matches(_expected(chr(one)))


def _string_count(automaton: Automaton, longest: int) -> int:
    """Return how many strings of up to *longest* bytes there are."""
    found, level = 0, {0: 1}
    for _ in range(longest + 1):
        found += sum(count for state, count in level.items() if automaton.is_accepting(state))
        following: dict[int, int] = {}
        for state, count in level.items():
            for low, high, target in automaton.row(state):
                following[target] = following.get(target, 0) + count * (high - low + 1)
        level = following
    return found


def test_only_valid_utf8_goes_through() -> None:
    """Every lead byte with every class of what follows, against the standard library."""
    automaton = compile_language(any_text())
    edges = (0x00, 0x1F, 0x20, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xFF)
    for lead in range(0x80, 0x100):
        for size in range(4):
            for rest in product(edges, repeat=size):
                found = bytes([lead, *rest])
                try:
                    valid = json.dumps(found.decode(), ensure_ascii=False)[1:-1].encode() == found
                except UnicodeDecodeError:
                    valid = False
                assert automaton.matches(found) == valid, found


@pytest.mark.parametrize(
    "wrong",
    [
        b'"', b"\\", b"\n", b"\x00", b"\\u0041", b"\\u000A", b"\\u000a", b"\\/", b"\\u001F",
        b"\\u0022", b"\\x41", b"\\ud83d\\udc32", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
        b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xf5\x80\x80\x80", b"\x80", b"\xc3",
    ],
)  # fmt: skip
def test_other_spellings_are_none(wrong: bytes) -> None:
    assert not compile_language(any_text()).matches(wrong)


@settings(max_examples=200, deadline=None)
@given(value=st.text())
def test_a_text_is_spelled_as_the_standard_library_does(value: str) -> None:
    assert spelled(value) == _expected(value)
    assert json.loads(b'"' + spelled(value) + b'"') == value


def test_a_text_is_a_language_of_its_own() -> None:
    automaton = compile_language(quoted(text('a"\n')))
    assert automaton.matches(b'"a\\"\\n"')
    assert automaton.state_count == 8


def test_a_lone_surrogate_is_named() -> None:
    with pytest.raises(SchemaTextError) as caught:
        spelled("ab\udc80")
    assert (caught.value.code_point, caught.value.position) == (0xDC80, 2)


@pytest.mark.parametrize(("least", "most"), [(0, 0), (0, 3), (2, 4), (3, 3), (2, None), (0, None)])
def test_a_length_counts_code_points(least: int, most: int | None) -> None:
    automaton = compile_language(text_of_length(least, most))
    for count in range(7):
        for unit in ("a", '"', "\n", "\x1f", "é", "€", "🐲", "a🐲"):
            value = (unit * count)[:count]
            inside = least <= count and (most is None or count <= most)
            assert automaton.matches(spelled(value)) == inside


@settings(max_examples=60, deadline=None)
@given(ranges=RANGES, others=st.lists(st.integers(0, sys.maxunicode), max_size=20))
def test_a_set_of_characters_has_its_members(
    ranges: list[tuple[int, int]], others: list[int]
) -> None:
    allowed = code_points(ranges)
    if not allowed:
        return
    automaton = compile_language(character_of(allowed))
    edges = [e + d for low, high in ranges for e in (low, high) for d in (-1, 0, 1)]
    for one in (*edges, *others, 0xD7FF, 0xE000, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000):
        if not 0 <= one <= sys.maxunicode or 0xD800 <= one <= 0xDFFF:
            continue
        inside = any(low <= one <= high for low, high in ranges)
        assert automaton.matches(_expected(chr(one))) == inside


@settings(max_examples=100, deadline=None)
@given(ranges=RANGES)
def test_sets_of_code_points_are_in_one_form(ranges: list[tuple[int, int]]) -> None:
    found = code_points(ranges)
    members = {one for low, high in ranges for one in range(low, high + 1)}
    members -= set(range(0xD800, 0xE000))
    assert {one for low, high in found for one in range(low, high + 1)} == members
    assert all(a[1] + 1 < b[0] for a, b in pairwise(found))
    assert all_but(all_but(found)) == found
    assert len(all_but(found)) <= len(found) + 2
    assert code_points([*found, *all_but(found)]) == EVERY_CODE_POINT


def test_a_set_of_characters_is_that_of_its_code_points() -> None:
    assert of_characters("cab🐲") == ((97, 99), (0x1F432, 0x1F432))
