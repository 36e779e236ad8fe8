"""Which states of a loop are alike: partition refinement.

States begin in one block for each set of bytes that may follow. A state whose target changed its
block is looked at again, and where a block falls apart its largest part keeps the number. A state
changes its block at most as often as its block can halve, so the work grows with the transitions
times a logarithm, whatever the depth. (After Hopcroft, "An n log n algorithm", 1971; with
signatures instead of splitters, as in Dovier, Piazza and Policriti, 2004.)
"""

from collections.abc import Iterable

from sslm.schema.regular.budget import STATE_STEPS, Meter
from sslm.schema.regular.byte_sets import Row, ShapeTable

Loop = dict[int, tuple[int, tuple[int, ...]]]
"""The states of a loop; of each twice its shape, and 1 if a string may end; and its targets."""


class _Refinement:
    """The blocks of the states of one loop."""

    def __init__(self, loop: Loop, classes: list[int], first: int, table: ShapeTable) -> None:
        self._loop = loop
        self._merged = table.merged
        self._classes = classes
        self._first = first
        # Of each block its states, and the signature of those that were not looked at last.
        self.members: list[set[int]] = []
        self._signatures: list[Row | None] = []
        self._before: dict[int, list[int]] = {state: [] for state in loop}
        begun: dict[tuple[int, int], list[int]] = {}
        before, unions = self._before, table.unions
        for state, (head, row) in loop.items():
            for target in row:
                if target in before:
                    before[target].append(state)
            begun.setdefault((unions[head >> 1], head & 1), []).append(state)
        for states in begun.values():
            self._add(states, None)

    def run(self, meter: Meter) -> None:
        """Divide blocks until each is one class."""
        stale: Iterable[int] = self._loop
        while stale:
            stale = self._divided(stale, meter)

    def _divided(self, stale: Iterable[int], meter: Meter) -> Iterable[int]:
        """Divide the blocks of *stale* states; return the states that are to be looked at again."""
        classes, loop, members, first = self._classes, self._loop, self.members, self._first
        class_of = classes.__getitem__
        groups: dict[int, dict[Row, list[int]]] = {}
        looks = 0
        for state in stale:
            block = classes[state]
            if len(members[block - first]) == 1:
                continue
            head, row = loop[state]
            found = tuple(map(class_of, row))
            looks += STATE_STEPS + len(row)
            if len(found) > 1 and len(set(found)) < len(found):
                shape, found = self._merged(head >> 1, found)
                head = shape << 1 | head & 1
            parts = groups.get(block)
            if parts is None:
                groups[block] = {(head, found): [state]}
            else:
                parts.setdefault((head, found), []).append(state)
        meter.spend(looks)
        again: dict[int, None] = {}
        before = self._before
        for block, parts in groups.items():
            for state in self._split(block, parts):
                again.update(dict.fromkeys(before[state]))
        return again

    def _split(self, block: int, parts: dict[Row, list[int]]) -> list[int]:
        """Divide a block, some states of which are in *parts*; return those that left it.

        All members that are in none of *parts* have the signature that the block has.
        """
        at = block - self._first
        inside, old = self.members[at], self._signatures[at]
        looked_at = sum(map(len, parts.values()))
        if looked_at < len(inside):
            assert old is not None
            unchanged = len(inside) - looked_at + len(parts.get(old, ()))
            if any(len(part) > unchanged for part in parts.values()):
                rest = inside.difference(*parts.values())
                parts.setdefault(old, []).extend(sorted(rest))
            else:
                parts.pop(old, None)
                return self._leave(at, parts)
        largest = max(parts, key=lambda signature: len(parts[signature]))
        del parts[largest]
        self._signatures[at] = largest
        return self._leave(at, parts)

    def _leave(self, at: int, parts: dict[Row, list[int]]) -> list[int]:
        """Make each of *parts* a block of its own; return their states."""
        moved: list[int] = []
        for signature, part in parts.items():
            self._add(part, signature)
            moved += part
        self.members[at].difference_update(moved)
        return moved

    def _add(self, states: list[int], signature: Row | None) -> None:
        """Make *states* a block."""
        number = self._first + len(self.members)
        self.members.append(set(states))
        self._signatures.append(signature)
        for state in states:
            self._classes[state] = number


def refined(
    loop: Loop, classes: list[int], first: int, meter: Meter, table: ShapeTable
) -> list[Row]:
    """Find the classes of states that reach each other.

    Args:
        loop: The states; their targets are in it or have classes below *first*.
        classes: The classes of all states; those of the loop are written.
        first: The lowest number for a new class.
        meter: Counts what is done.
        table: Where shapes are.

    Returns:
        Of each new class twice its shape, and 1 if a string may end; and the classes it leads to.
    """
    refinement = _Refinement(loop, classes, first, table)
    refinement.run(meter)
    rows = []
    for members in refinement.members:
        head, row = loop[next(iter(members))]
        shape, found = table.merged(head >> 1, tuple([classes[target] for target in row]))
        rows.append((shape << 1 | head & 1, found))
    return rows
