"""Text that comes in pieces is the text that comes at once."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from sslm.text.detokenizer import Detokenizer, DetokenizerState
from sslm.text.tokenizer import Tokenizer
from tests.unit.text.vocabularies import byte_level_tokenizer, sentencepiece_tokenizer

BYTE_LEVEL = byte_level_tokenizer()
SENTENCEPIECE = sentencepiece_tokenizer()
# Starts, middles and ends of characters of every length, and bytes that are never valid.
CRITICAL_BYTES = bytes.fromhex("20 41 80 90 9f a0 bf c3 e0 e2 ed f0 f4 ff")


def _in_pieces(tokenizer: Tokenizer, ids: list[int], *, is_continuation: bool = False) -> str:
    detokenizer = Detokenizer(tokenizer, is_continuation=is_continuation)
    pieces = []
    for token_id in ids:
        pieces.append(detokenizer.push(token_id))
        # A piece that ends inside a character would show as a replacement that decoding at once
        # does not have, so comparing texts covers it.
        assert len(detokenizer.save().pending) <= 3
    return "".join(pieces) + detokenizer.finish()


def test_every_short_sequence_of_critical_bytes() -> None:
    for size in (1, 2, 3, 4):
        for data in product(CRITICAL_BYTES, repeat=size):
            assert _in_pieces(BYTE_LEVEL, list(data)) == bytes(data).decode(errors="replace")


@given(ids=st.lists(st.integers(0, BYTE_LEVEL.vocab_size - 1)))
def test_byte_level_ids(ids: list[int]) -> None:
    assert _in_pieces(BYTE_LEVEL, ids) == BYTE_LEVEL.decode(ids)


@given(
    ids=st.lists(st.integers(0, SENTENCEPIECE.vocab_size - 1) | st.sampled_from([1, 35, 259, 264])),
    is_continuation=st.booleans(),
)
def test_sentencepiece_ids(ids: list[int], is_continuation: bool) -> None:
    text = _in_pieces(SENTENCEPIECE, ids, is_continuation=is_continuation)
    assert text == SENTENCEPIECE.decode(ids, is_continuation=is_continuation)


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_nothing_is_replaced_in_valid_text(text: str) -> None:
    """Every prefix shows a prefix of the text, short of at most one character."""
    detokenizer = Detokenizer(BYTE_LEVEL)
    shown = ""
    for byte in text.encode():
        shown += detokenizer.push(byte)
        assert text.startswith(shown)
    assert shown == text
    assert detokenizer.finish() == ""


@given(ids=st.lists(st.integers(0, SENTENCEPIECE.vocab_size - 1)), data=st.data())
def test_going_back(ids: list[int], data: st.DataObject) -> None:
    """What comes after restoring is what came after saving."""
    place = data.draw(st.integers(0, len(ids)))
    detokenizer = Detokenizer(SENTENCEPIECE)
    before = "".join(map(detokenizer.push, ids[:place]))
    state = detokenizer.save()
    first = "".join(map(detokenizer.push, ids[place:])) + detokenizer.finish()
    detokenizer.restore(state)
    second = "".join(map(detokenizer.push, ids[place:])) + detokenizer.finish()
    assert first == second
    assert before + first == SENTENCEPIECE.decode(ids)


def test_emoji_appears_when_complete() -> None:
    detokenizer = Detokenizer(BYTE_LEVEL)
    assert [detokenizer.push(byte) for byte in "🦙".encode()] == ["", "", "", "🦙"]
    assert detokenizer.push(0xF0) == ""
    assert detokenizer.save() == DetokenizerState(b"\xf0", is_at_start=False)
    assert detokenizer.push(ord("a")) == "\ufffda"
    assert detokenizer.push(0xE2) == ""
    assert detokenizer.finish() == "\ufffd"
    assert detokenizer.finish() == ""
