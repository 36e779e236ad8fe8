"""Answers that end at strings and ids, in every way to cut a text into tokens."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm.answering.answer import Answer
from sslm.answering.request import Request
from sslm.answering.results import StreamChunk
from sslm.text.tokenizer import Tokenizer
from tests.unit.text.vocabularies import byte_level_tokenizer

_PLAIN = byte_level_tokenizer()

END = 0
"""The id that ends an answer; it has no text."""

TEXTS = st.text(st.sampled_from("abé🙂\n"), max_size=10)
STOPS = st.lists(st.text(st.sampled_from("abé🙂\n"), min_size=1, max_size=4), max_size=4)


def _defined(stops: Sequence[str], text: str) -> tuple[str, str | None]:
    """Return the answer by definition: up to the stop that begins first, the shortest of those."""
    for start in range(len(text)):
        hits = [stop for stop in stops if text.startswith(stop, start)]
        if hits:
            return text[:start], min(hits, key=len)
    return text, None


class _Pieces(Tokenizer):
    """A tokenizer whose ids from 1 on are pieces of bytes.

    Args:
        pieces: Of any bytes, the middles of characters included.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.vocabulary = _PLAIN.vocabulary
        self._pieces = [b"", *pieces]

    def token_bytes(self, token_id: int) -> bytes:
        return self._pieces[token_id]


def _splits(data: bytes) -> Iterator[list[bytes]]:
    """Yield every way to cut bytes into pieces."""
    for cuts in range(1 << max(len(data) - 1, 0)):
        edges = [0, *(at + 1 for at in range(len(data) - 1) if cuts >> at & 1), len(data)]
        yield [data[first:last] for first, last in pairwise(edges) if first < last]


def _answer(
    pieces: Sequence[bytes], stops: Sequence[str], *, max_tokens: int, room: int, is_ended: bool
) -> tuple[Answer, list[StreamChunk]]:
    """Let an answer take pieces until it is complete."""
    request = Request(
        prompt_ids=(1,),
        max_tokens=max_tokens,
        stop=tuple(stops),
        stop_token_ids=frozenset([END]),
    )
    answer = Answer(_Pieces(pieces), request, max_tokens=min(max_tokens, room))
    chunks: list[StreamChunk] = []
    for token_id in [*range(1, len(pieces) + 1), *([END] if is_ended else [])]:
        if answer.is_complete:
            break
        chunks += answer.take(token_id)
    return answer, chunks


def _check(
    pieces: Sequence[bytes], stops: Sequence[str], *, max_tokens: int, room: int, is_ended: bool
) -> None:
    """Compare an answer, and every moment of it, with its definition."""
    answer, chunks = _answer(pieces, stops, max_tokens=max_tokens, room=room, is_ended=is_ended)
    most = min(max_tokens, room)
    is_whole = len(pieces) <= most
    text, stop = _defined(stops, b"".join(pieces[:most]).decode(errors="replace"))
    taken = len(answer.token_ids)
    # However it ends, exactly what is before the stop comes out, and never more meanwhile.
    if answer.is_complete:
        assert answer.text == text
    shown = ""
    for chunk in chunks:
        shown += chunk.text
        assert text.startswith(shown)
    assert shown == answer.text
    assert [one for chunk in chunks for one in chunk.token_ids] == answer.token_ids
    if stop is not None and answer.is_complete:
        assert (answer.finish_reason, answer.stop_reason) == ("stop", stop)
        assert answer.length_reason is None
    elif is_ended and len(pieces) < most:
        assert (answer.finish_reason, answer.stop_reason) == ("stop", END)
        assert answer.is_complete
    elif not is_whole or taken == most:
        assert (answer.finish_reason, answer.stop_reason) == ("length", None)
        assert answer.length_reason == ("context" if room < max_tokens else "max_tokens")
        assert (answer.is_complete, taken) == (True, most)


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("abab", ["b"]),
        ("aé🙂b", ["é🙂"]),
        ("é🙂", ["🙂"]),
        ("aaab", ["aab", "ab"]),
        ("a\n\nb", ["\n\n", "b"]),
        ("abé", ["éé", "béa"]),
    ],
)
def test_every_split_gives_the_defined_answer(text: str, stops: list[str]) -> None:
    for pieces in _splits(text.encode()):
        for most in (1, len(pieces), 99):
            _check(pieces, stops, max_tokens=most, room=99, is_ended=True)


@given(
    text=TEXTS,
    cuts=st.lists(st.integers(0, 40), max_size=8),
    stops=STOPS,
    max_tokens=st.integers(1, 12),
    room=st.integers(1, 12),
    is_ended=st.booleans(),
)
def test_any_split_gives_the_defined_answer(
    *, text: str, cuts: list[int], stops: list[str], max_tokens: int, room: int, is_ended: bool
) -> None:
    data = text.encode()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[first:last] for first, last in pairwise(edges)]
    _check(pieces, stops, max_tokens=max_tokens, room=room, is_ended=is_ended)


@given(pieces=st.lists(st.binary(max_size=3), max_size=6), stops=STOPS)
def test_bytes_that_are_no_text_end_as_they_are_shown(
    pieces: list[bytes], stops: list[str]
) -> None:
    _check(pieces, [*stops, "\ufffd\ufffd"], max_tokens=99, room=99, is_ended=True)
