"""The automaton of several automata that read the same string.

A state is one state of each part, -1 where a part has no continuation any more. Which combinations
are kept, and where a string may end, is what intersections, differences and exclusive choices
differ in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sslm.schema.budget import Meter
from sslm.schema.byte_sets import ShapeTable
from sslm.schema.dfa import Growing


@dataclass(frozen=True, slots=True)
class Rule:
    """What a product is.

    Attributes:
        lives: Whether a combination can still lead to a string, from the states of the parts.
        accepts: Whether a string ends, from whether it does in each part.
    """

    lives: Callable[[tuple[int, ...]], bool]
    accepts: Callable[[list[bool]], bool]


BOTH: Final = Rule(lambda states: min(states) >= 0, all)
WITHOUT: Final = Rule(lambda states: states[0] >= 0, lambda ends: ends[0] and not ends[1])
EXACTLY_ONE: Final = Rule(lambda states: max(states) >= 0, lambda ends: sum(ends) == 1)


class ProductAutomaton:
    """A growing automaton over parts that grow too; see :class:`sslm.schema.dfa.Growing`."""

    def __init__(self, parts: list[Growing], rule: Rule, table: ShapeTable, meter: Meter) -> None:
        self._parts = parts
        self._rule = rule
        self._table = table
        self._meter = meter
        start = (0,) * len(parts)
        self._states = [start]
        self._numbers = {start: 0}

    def row(self, state: int) -> tuple[int, tuple[int, ...]]:
        """Return shape and targets of *state*."""
        empty = (self._table.empty, ())
        rows = [
            part.row(of_part) if of_part >= 0 else empty
            for part, of_part in zip(self._parts, self._states[state], strict=True)
        ]
        targets = [row for _, row in rows]
        sets, numbers = [], []
        pieces = self._table.crossing(tuple([shape for shape, _ in rows]))
        self._meter.spend(len(pieces) * len(rows))
        for piece, indices in pieces:
            reached = tuple(
                [row[i] if i >= 0 else -1 for row, i in zip(targets, indices, strict=True)]
            )
            if not self._rule.lives(reached):
                continue
            number = self._numbers.get(reached)
            if number is None:
                number = self._numbers[reached] = len(self._states)
                self._states.append(reached)
            sets.append(piece)
            numbers.append(number)
        return self._table.ordered_row(sets, numbers)

    def accepts(self, state: int) -> bool:
        """Tell whether a string may end in *state*."""
        states = zip(self._parts, self._states[state], strict=True)
        return self._rule.accepts([s >= 0 and part.accepts(s) for part, s in states])

    def blame(self) -> str | None:
        """Return None: a product grows as a whole."""
        return None
