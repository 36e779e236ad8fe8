"""What schemas allow, by going through every token of every place: plain, slow, and on its own.

Nothing here comes from the package. A schema is written down as the texts that it has, or as rows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.whole_characters import whole_characters

State = int
Row = dict[int, State]
"""Where each byte leads."""

SPAN_SIZE_BYTES_MAX = 256
"""Longest span whose spelling is looked at in one piece."""


def rows_of_texts(texts: Iterable[bytes]) -> tuple[list[Row], set[State]]:
    """Write some texts down as a tree; return its rows, and where texts end."""
    rows: list[Row] = [{}]
    ends = set()
    for text in texts:
        state = 0
        for byte in text:
            if byte not in rows[state]:
                rows[state][byte] = len(rows)
                rows.append({})
            state = rows[state][byte]
        ends.add(state)
    return rows, ends


@dataclass(eq=False)
class Automaton:
    """A schema over a vocabulary.

    Args:
        rows: Of each state; the first is where texts begin.
        accepting: States in which a text may end.
        content: The bytes of each token that has some.
        end_ids: Tokens that end an answer.
        split: The tokenizer's; None where any spelling of a span is allowed.
    """

    rows: list[Row]
    accepting: set[State]
    content: Mapping[int, bytes]
    end_ids: tuple[int, ...]
    split: Callable[[str], Sequence[int]] | None
    _ways: dict[State, dict[int, State]] = field(default_factory=dict)
    _shortest: dict[State, int | None] = field(default_factory=dict)

    def step(self, state: State, token_id: int) -> State | None:
        """Return where the bytes of a token lead, or None."""
        at: State | None = state
        for byte in self.content.get(token_id, b"\0"):
            if at is None:
                return None
            at = self.rows[at].get(byte)
        return at

    def span(self, state: State) -> bytes:
        """Return the bytes of which there is one each time, up to where a text may end."""
        found = b""
        while (
            state not in self.accepting
            and len(self.rows[state]) == 1
            and len(found) < SPAN_SIZE_BYTES_MAX
        ):
            ((byte, state),) = self.rows[state].items()
            found += bytes((byte,))
        return found

    def only_token(self, state: State) -> int | None:
        """Return the one token that spells the beginning of a span, or None without a span.

        That is the first one of the span's split, or where that does not spell it, the lowest id of
        the longest token that the span begins with; if none does, it is as if there were no span.
        """
        span = self.span(state)
        if self.split is None or not span:
            return None
        text = whole_characters(span)
        ids = self.split(text)
        if text and b"".join(self.content[token_id] for token_id in ids) == text.encode():
            return ids[0]
        fitting = [i for i, piece in self.content.items() if span.startswith(piece)]
        return min(fitting, key=lambda i: (-len(self.content[i]), i), default=None)

    def ways(self, state: State) -> dict[int, State]:
        """Return the tokens that spell something that goes on, and where each leads."""
        if state not in self._ways:
            only = self.only_token(state)
            ids = self.content if only is None else [only]
            found = {i: self.step(state, i) for i in ids}
            self._ways[state] = {i: one for i, one in found.items() if one is not None}
        return self._ways[state]

    def shortest(self, state: State) -> int | None:
        """Return the fewest tokens to where a text may end, or None if none lead there."""
        if state not in self._shortest:
            self._shortest[state] = self._search(state)
        return self._shortest[state]

    def _search(self, state: State) -> int | None:
        seen, level, count = {state}, {state}, 0
        while level:
            if level & self.accepting:
                return count
            level = {one for at in level for one in self.ways(at).values()} - seen
            seen |= level
            count += 1
        return None

    def can_end_in(self, state: State, count: int | None) -> bool:
        """Whether so many tokens are enough to complete a text; None is as many as it takes."""
        shortest = self.shortest(state)
        return shortest is not None and (count is None or shortest <= count)

    def allowed(self, state: State, remaining: int | None) -> list[int]:
        """Return what may be chosen, ascending, if so many tokens may still be, ends aside."""
        found = list(self.end_ids) if state in self.accepting else []
        if remaining != 0:
            left = None if remaining is None else remaining - 1
            found += [i for i, at in self.ways(state).items() if self.can_end_in(at, left)]
        return sorted(found)
