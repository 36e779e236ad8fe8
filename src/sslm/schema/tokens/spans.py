"""Texts of which an automaton leaves no choice, and the one token that each state of them allows.

Where only one byte can follow, a vocabulary mostly has several ways to spell what comes. Only one
of them is allowed, so that it makes no difference whether such a text is chosen token by token or
is taken in at once: the state's token is the first one of the tokenizer's own split of what is left
of the span, up to where there is a choice again, or ``limits.FORCED_SPAN_SIZE_BYTES_MAX``. A token
that begins before a span may end inside it; none that begins inside ends behind it.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sslm import limits
from sslm.progress import Progress, untold
from sslm.schema.tokens.step_table import NO_STATE, StepTable
from sslm.schema.tokens.trie import TokenTrie

Split = Callable[[str], Sequence[int]]
"""Returns the ids of a text that goes on behind another one."""

_REPORT_STATES: Final = 64
"""Between two reports: a few milliseconds."""

FREE: Final = -1
"""The only token of a state that has a choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlyTokens:
    """The tokens that states without a choice allow.

    Args:
        tokens: int32, for each state: an id, or ``FREE``.
        targets: uint32, for each state: where that token leads, or ``NO_STATE``.
    """

    tokens: "array[int]"
    targets: "array[int]"


def only_tokens(
    table: StepTable,
    trie: TokenTrie,
    split: Split,
    *,
    leaves_blank: bool = False,
    report: Progress = untold,
) -> OnlyTokens:
    """Return the only token of each state that has one byte to go on with.

    A state whose span the vocabulary cannot spell has a choice: of whatever tokens fit it.

    Args:
        table: The automaton.
        trie: The vocabulary's content.
        split: The tokenizer's own.
        leaves_blank: Whether a blank at the end of a span is left to the choice behind it:
            vocabularies have most words with the blank before them.
        report: Told how many states were seen, and how many there are.
    """
    tokens = array("i", [FREE]) * table.state_count
    targets = array("I", [NO_STATE]) * table.state_count
    firsts: dict[bytes, int] = {}
    for index, (state, whole) in enumerate(_spans(table)):
        if index % _REPORT_STATES == 0:
            report(index, table.state_count)
        span = whole.removesuffix(b" ") if leaves_blank else whole
        if not span:
            continue
        if span not in firsts:
            firsts[span] = _first_token(trie, split, span)
        token_id = firsts[span]
        if token_id != FREE:
            target = table.step(state, trie.tokens[token_id])
            assert target is not None, "a span's token leads along it"
            tokens[state], targets[state] = token_id, target
    return OnlyTokens(tokens=tokens, targets=targets)


def without_choice(table: StepTable) -> OnlyTokens:
    """Return that no state has an only token: spans are spelled in whatever tokens."""
    return OnlyTokens(
        tokens=array("i", [FREE]) * table.state_count,
        targets=array("I", [NO_STATE]) * table.state_count,
    )


def _spans(table: StepTable) -> Iterator[tuple[int, bytes]]:
    """Return each state without a choice with its span: the text until there is one, or its bound.

    States that follow each other are walked through once, and not once for each of them.
    """
    longest = limits.FORCED_SPAN_SIZE_BYTES_MAX
    forced = [table.only_byte(state) for state in range(table.state_count)]
    spans: dict[int, bytes] = {}
    for first in range(table.state_count):
        text, state = bytearray(), first
        chain: dict[int, int] = {}
        while state not in spans and (byte := forced[state]) is not None:
            # Where a state comes again the text goes in circles, as far as spans are long.
            if len(text) == len(chain) + longest:
                break
            chain.setdefault(state, len(text))
            text.append(byte)
            target = table.step(state, bytes((byte,)))
            assert target is not None, "the only byte is taken"
            state = target
        text += spans.get(state, b"")
        for one, index in chain.items():
            spans[one] = bytes(text[index : index + longest])
            yield one, spans[one]


def _first_token(trie: TokenTrie, split: Split, span: bytes) -> int:
    """Return the first id of a span's split; of the longest token where it is no whole text."""
    ids: Sequence[int] = ()
    text = _whole_characters(span)
    if text:
        ids = split(text)
        known = [token_id for token_id in ids if token_id in trie.tokens]
        spelled = b"".join(trie.tokens[token_id] for token_id in known)
        if len(known) == len(ids) and spelled == text.encode():
            return ids[0]
    return trie.longest_beginning(span)


def _whole_characters(span: bytes) -> str:
    """Return the characters that a span begins with, as far as they are whole."""
    try:
        return span.decode()
    except UnicodeDecodeError as error:
        return span[: error.start].decode()
