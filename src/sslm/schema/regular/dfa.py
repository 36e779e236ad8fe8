"""Deterministic automata while they are being built."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from sslm.schema.regular.budget import Meter
from sslm.schema.regular.byte_sets import ShapeTable

UNKNOWN: Final = -1
"""The shape of a state whose row has not been asked for."""


@dataclass(slots=True)
class Dfa:
    """Rows of an automaton; state 0 is the start. No states at all mean the empty language.

    Attributes:
        shapes: One of the shared :class:`ShapeTable` for each state.
        targets: The targets of each state, as many as its shape has sets, all different.
        accepting: One byte for each state: 1 where a string may end.
    """

    shapes: list[int] = field(default_factory=list)
    targets: list[tuple[int, ...]] = field(default_factory=list)
    accepting: bytearray = field(default_factory=bytearray)

    def grow(self, state: int) -> None:
        """Find the row of *state*: nothing to do, as all are known."""

    def blame(self) -> str | None:
        """Return the place that grew, if known: never, as nothing grows here any more."""
        return None


class Growing(Protocol):
    """An automaton whose states are numbered as they are met; 0 is the start.

    Every state that was met can be reached from the start.

    Attributes:
        shapes: Of each state that was met; *UNKNOWN* until it has grown.
        targets: Of each state that was met; none until it has grown.
        accepting: One byte for each state that was met: 1 where a string may end.
    """

    shapes: list[int]
    targets: list[tuple[int, ...]]
    accepting: bytearray

    def grow(self, state: int) -> None:
        """Find shape and targets of a state that has none, and count what that takes."""

    def blame(self) -> str | None:
        """Return the place in the schema that most of the latest states come from, if known."""


def explored(growing: Growing, meter: Meter) -> Dfa:
    """Build all of an automaton.

    Args:
        growing: The automaton, which has a start.
        meter: Checked at every state.
    """
    meter.watch(growing.blame)
    shapes, targets = growing.shapes, growing.targets
    grow, admit = growing.grow, meter.admit
    transitions = state = 0
    while state < len(shapes):
        if shapes[state] < 0:
            grow(state)
        transitions += len(targets[state])
        admit(len(shapes), transitions)
        state += 1
    return Dfa(shapes, targets, growing.accepting)


def explored_to_ends(growing: Growing, meter: Meter, table: ShapeTable) -> Dfa:
    """Build the strings of an automaton that do not begin with another one of it.

    What is behind the first state in which a string may end is not looked at.
    """
    meter.watch(growing.blame)
    found = Dfa()
    transitions = 0
    numbers = {0: 0}
    order = [0]
    targets: tuple[int, ...]
    for state in order:
        shape, targets, accepts = table.empty, (), growing.accepting[state]
        if not accepts:
            if growing.shapes[state] < 0:
                growing.grow(state)
            shape, targets = growing.shapes[state], growing.targets[state]
        for target in targets:
            if target not in numbers:
                numbers[target] = len(order)
                order.append(target)
        transitions += len(targets)
        meter.admit(len(order), transitions)
        found.shapes.append(shape)
        found.targets.append(tuple(map(numbers.__getitem__, targets)))
        found.accepting.append(accepts)
    return found


def shortest_length(dfa: Dfa) -> int:
    """Return the length of the shortest string of *dfa*, which has one."""
    level, seen, length = [0], {0}, 0
    while not any(dfa.accepting[state] for state in level):
        following: Iterable[int] = (t for state in level for t in dfa.targets[state])
        level = [t for t in dict.fromkeys(following) if t not in seen]
        seen.update(level)
        length += 1
    return length
