"""What schemas allow of a vocabulary, by stepping all of its tokens through all of their bytes.

Only the automaton over bytes is the package's. Masks, spans and the lengths of completions are
worked out anew from their descriptions in docs/schemas.md, and slowly.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tests.whole_characters import whole_characters

SPAN_SIZE_BYTES_MAX = 256
"""Longest span that is split in one piece."""

Int32Array = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


class ByteAutomaton(Protocol):
    """What takes texts byte by byte."""

    @property
    def state_count(self) -> int:
        """States are below it."""
        raise NotImplementedError

    def row(self, state: int) -> list[tuple[int, int, int]]:
        """Return first and last byte of a range, and where each of it leads."""
        raise NotImplementedError

    def is_accepting(self, state: int) -> bool:
        """Whether a text may end in a state."""
        raise NotImplementedError


class MaskSearch:
    """An automaton and a vocabulary.

    Args:
        automaton: Of a schema.
        tokens: The bytes of each token that may be content.
        vocab_size: Ids are below it.
        split: The tokenizer's; None where any spelling of a span is allowed.
        end_ids: What ends an answer.
        leaves_blank: Whether a blank that a span ends with belongs to what comes behind it.

    Attributes:
        distances: For each state: the fewest tokens to where a text may end; ``far`` for none.
        far: More tokens than any text needs.
    """

    def __init__(
        self,
        automaton: ByteAutomaton,
        tokens: Mapping[int, bytes],
        vocab_size: int,
        *,
        split: Callable[[str], Sequence[int]] | None,
        end_ids: tuple[int, ...],
        leaves_blank: bool = False,
    ) -> None:
        self._leaves_blank = leaves_blank
        self._tokens = tokens
        self._split = split
        self._end_ids = end_ids
        count = automaton.state_count
        self._none = count
        self._next = np.full((count + 1, 256), count, dtype=np.int32)
        for state in range(count):
            for low, high, target in automaton.row(state):
                self._next[state, low : high + 1] = target
        self._accepting = np.array([automaton.is_accepting(state) for state in range(count)])
        self._lengths = np.zeros(vocab_size, dtype=np.int32)
        # By place in the token, then by id.
        self._columns = np.zeros((max(map(len, tokens.values())), vocab_size), dtype=np.uint8)
        for token_id, text in tokens.items():
            self._lengths[token_id] = len(text)
            self._columns[: len(text), token_id] = np.frombuffer(text, dtype=np.uint8)
        self._targets: dict[int, Int32Array] = {}
        self.far = count + 1
        self.distances = self._distances()

    def bytes_of(self, token_id: int) -> bytes:
        """Return what a token spells."""
        return self._tokens[token_id]

    def spelled(self, state: int) -> Int32Array:
        """Return for each id where its bytes lead, or the number of states."""
        found = np.full(len(self._lengths), self._none, dtype=np.int32)
        ids = np.flatnonzero(self._lengths)
        at = np.full(len(ids), state, dtype=np.int32)
        for index, column in enumerate(self._columns):
            at = self._next[at, column[ids]]
            is_taken, is_whole = at != self._none, self._lengths[ids] == index + 1
            whole = is_taken & is_whole
            found[ids[whole]] = at[whole]
            on = is_taken & ~is_whole
            ids, at = ids[on], at[on]
            if not len(ids):
                break
        return found

    def targets(self, state: int) -> Int32Array:
        """Return the same, where only the spelling of spans that is allowed leads anywhere."""
        if state not in self._targets:
            found, only = self.spelled(state), self.only_token(state)
            if only is not None:
                found[np.arange(len(found)) != only] = self._none
            self._targets[state] = found
        return self._targets[state]

    def only_token(self, state: int) -> int | None:
        """Return the first token of the split of what is left of a span; None outside of spans."""
        span = self._span(state)
        if self._split is None or not span:
            return None
        text = whole_characters(span)
        ids = self._split(text) if text else []
        if ids and b"".join(self._tokens.get(i, b"") for i in ids) == text.encode():
            return ids[0]
        fitting = [i for i, piece in self._tokens.items() if span.startswith(piece)]
        return min(fitting, key=lambda i: (-len(self._tokens[i]), i), default=None)

    def _span(self, state: int) -> bytes:
        found = bytearray()
        while len(found) < SPAN_SIZE_BYTES_MAX and not self._accepting[state]:
            taken = np.flatnonzero(self._next[state] != self._none)
            if len(taken) != 1:
                break
            found.append(int(taken[0]))
            state = int(self._next[state, taken[0]])
        if self._leaves_blank and found.endswith(b" "):
            found.pop()
        return bytes(found)

    def _distances(self) -> Int32Array:
        leads_to = [np.unique(self.targets(state)) for state in range(self._none)]
        # The state that is none is as far away as can be.
        found = np.append(np.where(self._accepting, 0, self.far), self.far).astype(np.int32)
        while True:
            before = found.copy()
            for state, targets in enumerate(leads_to):
                nearest = int(found[targets].min(initial=self.far)) + 1
                found[state] = min(found[state], nearest)
            if (found == before).all():
                return found

    def allowed(self, state: int, targets: Int32Array, remaining: int | None) -> BoolArray:
        """Return for each id whether it may be chosen.

        Args:
            state: Where an answer stands.
            targets: Where each id leads from there.
            remaining: Tokens that may still be chosen, what ends it aside; None is any number.
        """
        left = self.far - 1 if remaining is None else min(remaining - 1, self.far - 1)
        found: BoolArray = self.distances[targets] <= left
        if self._accepting[state]:
            found[list(self._end_ids)] = True
        return found

    def completion(self, state: int) -> bytes:
        """Return the bytes of as few tokens as complete a text."""
        text = b""
        while not self._accepting[state]:
            targets = self.targets(state)
            token_id = int(np.argmin(self.distances[targets]))
            text += self._tokens[token_id]
            state = int(targets[token_id])
        return text

    def beginnings(self) -> dict[int, bytes]:
        """Return for each state a shortest text that leads there."""
        found, waiting = {0: b""}, [0]
        for state in waiting:
            for byte in np.flatnonzero(self._next[state] != self._none):
                target = int(self._next[state, byte])
                if target not in found:
                    found[target] = found[state] + bytes((int(byte),))
                    waiting.append(target)
        return found
