"""A finished automaton over bytes."""

from array import array
from typing import Final

from sslm.schema.regular.byte_sets import ShapeTable, ranges_of
from sslm.schema.regular.dfa import Dfa

START: Final = 0
"""The state before the first byte."""


class Automaton:
    """The smallest deterministic automaton of a language that has a string.

    It never changes. States are numbered in the order in which a breadth-first search from the
    start meets them that takes the bytes in ascending order, so equal languages have equal
    automata. From every state an accepting one can be reached.
    """

    def __init__(self, dfa: Dfa, table: ShapeTable) -> None:
        """Take over a minimized automaton and the shapes that it uses."""
        used = {shape: index for index, shape in enumerate(dict.fromkeys(dfa.shapes))}
        self._accepting = bytes(dfa.accepting)
        self._shapes = array("I", [used[shape] for shape in dfa.shapes])
        self._first = array("I", [0])
        self._targets = array("I")
        for row in dfa.targets:
            self._targets.extend(row)
            self._first.append(len(self._targets))
        # Of each shape: the index of the target for every byte, -1 for none; and its ranges.
        self._indices = [_indices(table.sets[shape]) for shape in used]
        self._ranges = [_ranges(table.sets[shape]) for shape in used]

    @property
    def state_count(self) -> int:
        """Number of states; the start is state 0."""
        return len(self._accepting)

    @property
    def transition_count(self) -> int:
        """Number of ranges of all rows."""
        return sum(len(self._ranges[shape]) for shape in self._shapes)

    def step(self, state: int, byte: int) -> int | None:
        """Return the state after *byte*, or None if no string goes on like this."""
        index = self._indices[self._shapes[state]][byte]
        return None if index < 0 else self._targets[self._first[state] + index]

    def is_accepting(self, state: int) -> bool:
        """Tell whether a string may end in *state*."""
        return bool(self._accepting[state])

    def row(self, state: int) -> list[tuple[int, int, int]]:
        """Return first byte, last byte and target of every range of *state*, ascending."""
        first, targets = self._first[state], self._targets
        return [
            (low, high, targets[first + i]) for low, high, i in self._ranges[self._shapes[state]]
        ]

    def after(self, text: bytes, state: int = START) -> int | None:
        """Return the state that *text* leads to from *state*, or None."""
        for byte in text:
            following = self.step(state, byte)
            if following is None:
                return None
            state = following
        return state

    def matches(self, text: bytes) -> bool:
        """Tell whether *text* is a string of the language."""
        state = self.after(text)
        return state is not None and self.is_accepting(state)

    def __eq__(self, other: object) -> bool:
        """Tell whether two automata have the same language."""
        if not isinstance(other, Automaton):
            return NotImplemented
        mine, its = self._facts(), other._facts()
        return mine == its

    def __hash__(self) -> int:
        return hash((self._accepting, self._targets.tobytes()))

    def __repr__(self) -> str:
        return f"<Automaton of {self.state_count} states>"

    def _facts(self) -> tuple[object, ...]:
        return self._accepting, self._shapes, self._first, self._targets, self._ranges


def _indices(sets: tuple[int, ...]) -> "array[int]":
    found = array("h", [-1]) * 256
    for index, bytes_in in enumerate(sets):
        for low, high in ranges_of(bytes_in):
            found[low : high + 1] = array("h", [index]) * (high - low + 1)
    return found


def _ranges(sets: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    ranges = [(low, high, i) for i, one in enumerate(sets) for low, high in ranges_of(one)]
    return tuple(sorted(ranges))
