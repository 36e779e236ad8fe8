"""The automaton of several automata that read the same string.

A state is one state of each part, -1 where a part has no continuation any more. Which combinations
are kept, and where a string may end, is what intersections, differences and exclusive choices
differ in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import getitem
from typing import Final

from sslm.schema.regular.budget import STATE_STEPS, Meter
from sslm.schema.regular.byte_sets import ShapeTable
from sslm.schema.regular.dfa import UNKNOWN, Growing


@dataclass(frozen=True, slots=True)
class Rule:
    """What a product is.

    Attributes:
        needed: Of how many parts, given first, a string must be able to go on in each for the
            combination to lead to a string; None for all. If it is 0, one of any must.
        accepts: Whether a string ends, from whether it does in each part.
    """

    needed: int | None
    accepts: Callable[[list[int]], bool]


BOTH: Final = Rule(None, all)
WITHOUT: Final = Rule(1, lambda ends: bool(ends[0] and not ends[1]))
EXACTLY_ONE: Final = Rule(0, lambda ends: sum(ends) == 1)


class _States(dict[tuple[int, ...], int]):
    """The numbers of combinations, which get one when first asked for."""

    def __init__(self, product: "ProductAutomaton") -> None:
        self._product = product

    def __missing__(self, states: tuple[int, ...]) -> int:
        return self._product.add(states)


class ProductAutomaton:
    """A growing automaton over parts that grow too; see :class:`Growing`."""

    def __init__(self, parts: list[Growing], rule: Rule, table: ShapeTable, meter: Meter) -> None:
        self.shapes: list[int] = []
        self.targets: list[tuple[int, ...]] = []
        self.accepting = bytearray()
        self._parts = parts
        self._needed = len(parts) if rule.needed is None else rule.needed
        self._accepts = rule.accepts
        self._table = table
        self._meter = meter
        self._states: list[tuple[int, ...]] = []
        self._numbers = _States(self)
        self.add((0,) * len(parts))

    def add(self, states: tuple[int, ...]) -> int:
        """Give a combination, which was not met before, its number."""
        number = self._numbers[states] = len(self._states)
        self._states.append(states)
        self.shapes.append(UNKNOWN)
        self.targets.append(())
        pairs = zip(self._parts, states, strict=True)
        self.accepting.append(self._accepts([s >= 0 and part.accepting[s] for part, s in pairs]))
        return number

    def grow(self, state: int) -> None:
        """Find shape and targets of a state."""
        shapes: list[int] = []
        rows: list[tuple[int, ...]] = []
        for part, of_part in zip(self._parts, self._states[state], strict=True):
            if of_part < 0:
                shapes.append(self._table.empty)
                rows.append((-1,))
                continue
            if part.shapes[of_part] < 0:
                part.grow(of_part)
            shapes.append(part.shapes[of_part])
            # Index -1 stands for no target.
            rows.append((*part.targets[of_part], -1))
        shape, pieces = self._table.crossing(tuple(shapes), self._needed)
        self._meter.spend(STATE_STEPS + (len(pieces) + 1) * len(rows))
        numbers = self._numbers
        found = tuple([numbers[tuple(map(getitem, rows, indices))] for indices in pieces])
        self.shapes[state], self.targets[state] = self._table.merged(shape, found)

    def blame(self) -> str | None:
        """Return None: a product grows as a whole."""
        return None
