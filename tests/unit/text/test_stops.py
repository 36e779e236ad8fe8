"""Stop strings in every split of a text."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm.text.stops import StopResult, StopStrings


def run(stops: Sequence[str], pieces: Sequence[str]) -> tuple[str, str | None]:
    """The whole answer, and the stop that ended it."""
    reader = StopStrings(stops)
    text = ""
    for piece in pieces:
        result = reader.push(piece)
        text += result.text
        if result.stop is not None:
            return text, result.stop
    last = reader.finish()
    return text + last.text, last.stop


def defined(stops: Sequence[str], text: str) -> tuple[str, str | None]:
    """The answer by definition: up to the stop that begins first, the shortest of those."""
    for start in range(len(text)):
        hits = [stop for stop in stops if text.startswith(stop, start)]
        if hits:
            return text[:start], min(hits, key=len)
    return text, None


def splits(text: str) -> Iterator[list[str]]:
    """Every way to cut a text into pieces."""
    for cuts in range(1 << max(len(text) - 1, 0)):
        pieces = [""]
        for index, character in enumerate(text):
            pieces[-1] += character
            if cuts >> index & 1:
                pieces.append("")
        yield pieces


def test_without_stops_nothing_is_held_back() -> None:
    reader = StopStrings(())
    assert reader.push("abc") == StopResult("abc", None)
    assert reader.finish() == StopResult("", None)


def test_what_may_become_a_stop_is_held_back_and_no_more() -> None:
    reader = StopStrings(["END"])
    assert reader.push("the E") == StopResult("the ", None)
    assert reader.push("N") == StopResult("", None)
    assert reader.push("EN") == StopResult("EN", None)
    assert reader.push("D and on") == StopResult("", "END")


def test_what_was_held_back_comes_out_at_the_end() -> None:
    reader = StopStrings(["END"])
    assert reader.push("the EN") == StopResult("the ", None)
    assert reader.finish() == StopResult("EN", None)
    assert reader.finish() == StopResult("", None)


@pytest.mark.parametrize(
    ("stops", "text", "expected"),
    [
        (["b"], "abab", ("a", "b")),
        (["aab"], "aaab", ("a", "aab")),
        (["abc", "b"], "xabc", ("x", "abc")),
        (["abd", "b"], "xabc", ("xa", "b")),
        (["ba", "ab"], "aba", ("", "ab")),
        (["\n\n"], "a\n", ("a\n", None)),
        (["\n\n"], "a\n\nb", ("a", "\n\n")),
        (["é🙂"], "aé🙂", ("a", "é🙂")),
        (["abcX", "b"], "ab", ("a", "b")),
        (["abcX", "b", "ab"], "abab", ("", "ab")),
        (["aaX", "baX", "a"], "ba", ("b", "a")),
        (["abc"], "abababab", ("abababab", None)),
    ],
)
def test_the_stop_that_begins_first_counts_in_every_split(
    stops: list[str], text: str, expected: tuple[str, str | None]
) -> None:
    assert {run(stops, pieces) for pieces in splits(text)} == {expected}


def test_of_stops_that_begin_together_the_shortest_counts_in_every_split() -> None:
    for pieces in splits("xabcd"):
        assert run(["abc", "ab"], pieces) == ("x", "ab")


@given(
    stops=st.lists(st.text("ab", min_size=1, max_size=5), max_size=4),
    text=st.text("ab", max_size=12),
    cuts=st.lists(st.integers(0, 12), max_size=6),
)
def test_the_answer_is_the_defined_one_however_the_text_is_split(
    stops: list[str], text: str, cuts: list[int]
) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[first:last] for first, last in pairwise(edges)]
    assert run(stops, pieces) == defined(stops, text)
