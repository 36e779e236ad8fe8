"""Deterministic automata while they are being built."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from sslm.schema.budget import ROW_STEPS, Meter
from sslm.schema.byte_sets import ShapeTable


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

    def row(self, state: int) -> tuple[int, tuple[int, ...]]:
        """Return shape and targets of *state*."""
        return self.shapes[state], self.targets[state]

    def accepts(self, state: int) -> bool:
        """Tell whether a string may end in *state*."""
        return bool(self.accepting[state])

    def blame(self) -> str | None:
        """Return the place that grew, if known: never, as nothing grows here any more."""
        return None


class Growing(Protocol):
    """An automaton whose states are numbered as they are met; 0 is the start."""

    def row(self, state: int) -> tuple[int, tuple[int, ...]]:
        """Return shape and targets of *state*, finding them when first asked."""

    def accepts(self, state: int) -> bool:
        """Tell whether a string may end in *state*."""

    def blame(self) -> str | None:
        """Return the place in the schema that most of the latest states come from, if known."""


def explored(growing: Growing, meter: Meter, table: ShapeTable, *, shortest: bool = False) -> Dfa:
    """Build all of an automaton.

    Args:
        growing: The automaton, which has a start.
        meter: Checked at every state.
        table: Where shapes are.
        shortest: Whether no string of the result begins with another one of it.
    """
    meter.watch(growing.blame)
    found = Dfa()
    transitions = 0
    numbers = {0: 0}
    order = [0]
    for state in order:
        accepts = growing.accepts(state)
        shape, targets = (table.empty, ()) if shortest and accepts else growing.row(state)
        for target in targets:
            if target not in numbers:
                numbers[target] = len(order)
                order.append(target)
        transitions += len(targets)
        meter.spend(ROW_STEPS * (len(targets) + 1))
        meter.admit(len(order), transitions)
        found.shapes.append(shape)
        found.targets.append(tuple(map(numbers.__getitem__, targets)))
        found.accepting.append(accepts)
    return found


def predecessors(dfa: Dfa) -> list[list[int]]:
    """Return for each state of *dfa* those with a transition to it, each once, ascending."""
    found: list[list[int]] = [[] for _ in dfa.shapes]
    for state, targets in enumerate(dfa.targets):
        for target in targets:
            found[target].append(state)
    return found


def trimmed(dfa: Dfa, table: ShapeTable) -> Dfa:
    """Return *dfa* without the states from which no accepting one can be reached."""
    before = predecessors(dfa)
    is_live = bytearray(dfa.accepting)
    waiting = [state for state, accepts in enumerate(is_live) if accepts]
    for state in waiting:
        for source in before[state]:
            if not is_live[source]:
                is_live[source] = 1
                waiting.append(source)
    if len(waiting) == len(is_live):
        return dfa
    if not is_live or not is_live[0]:
        return Dfa()
    numbers: dict[int, int] = {}
    for state, lives in enumerate(is_live):
        if lives:
            numbers[state] = len(numbers)
    found = Dfa()
    for state in numbers:
        shape, row = dfa.row(state)
        kept = [(s, t) for s, t in zip(table.sets[shape], row, strict=True) if is_live[t]]
        shape = shape if len(kept) == len(row) else table.shape(tuple([s for s, _ in kept]))
        row = tuple([numbers[t] for _, t in kept])
        found.shapes.append(shape)
        found.targets.append(row)
        found.accepting.append(dfa.accepting[state])
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
