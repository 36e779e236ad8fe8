"""The smallest automaton of a language, with its states in a fixed order.

States are first classified from the end: those after which only finitely many strings remain have
a signature (whether they accept, and which class each byte leads to) as soon as all their targets
have a class. The others start in one block, which is refined: a state whose target changed its
block is looked at again, and where a block falls apart its largest part keeps the number. A state
changes its block at most as often as its block can halve, so the work grows with the transitions
times a logarithm, whatever the depth. (After Hopcroft, "An n log n algorithm", 1971; with
signatures instead of splitters, as in Dovier, Piazza and Policriti, 2004.)
"""

from sslm.schema.budget import ROW_STEPS, Meter
from sslm.schema.byte_sets import ShapeTable
from sslm.schema.dfa import Dfa, predecessors

Signature = tuple[int, tuple[int, ...]]


class _Refinement:
    """The classes of an automaton's states, all of which are live."""

    def __init__(self, dfa: Dfa, meter: Meter, table: ShapeTable) -> None:
        self._dfa = dfa
        self._meter = meter
        self._table = table
        self._before = predecessors(dfa)
        self.classes = [-1] * len(dfa.shapes)

    def signature(self, state: int) -> Signature:
        """Return what tells the class of *state*, from the classes of its targets."""
        targets = self._dfa.targets[state]
        shape = self._dfa.shapes[state]
        classes = tuple(map(self.classes.__getitem__, targets))
        if len(set(classes)) != len(classes):
            shape, classes = self._table.row(zip(self._table.sets[shape], classes, strict=True))
        return shape << 1 | self._dfa.accepting[state], classes

    def run(self) -> None:
        """Find all classes."""
        count = self._classify_finite()
        rest = [state for state, found in enumerate(self.classes) if found < 0]
        if rest:
            self._refine(rest, count)

    def _classify_finite(self) -> int:
        """Classify the states after which no loop can be reached; return how many classes."""
        targets, before = self._dfa.targets, self._before
        pending = [len(row) for row in targets]
        ready = [state for state, count in enumerate(pending) if not count]
        known: dict[Signature, int] = {}
        for state in ready:
            self.classes[state] = known.setdefault(self.signature(state), len(known))
            for source in before[state]:
                pending[source] -= 1
                if not pending[source]:
                    ready.append(source)
        self._meter.spend(ROW_STEPS * len(ready))
        return len(known)

    def _refine(self, rest: list[int], first: int) -> None:
        """Divide *rest* into blocks, numbered from *first*, until each is one class."""
        classes = self.classes
        for state in rest:
            classes[state] = first
        members = {first: set(rest)}
        signatures: dict[int, Signature] = {}
        stale = rest
        while stale:
            self._meter.spend(ROW_STEPS * len(stale))
            moved: list[int] = []
            touched: dict[int, list[int]] = {}
            for state in stale:
                touched.setdefault(classes[state], []).append(state)
            for block, states in touched.items():
                moved += self._divide(block, states, members, signatures, first)
            again = dict.fromkeys(source for state in moved for source in self._before[state])
            stale = list(again)

    def _divide(
        self,
        block: int,
        states: list[int],
        members: dict[int, set[int]],
        signatures: dict[int, Signature],
        first: int,
    ) -> list[int]:
        """Divide a block, some *states* of which are to be looked at; return those that left it.

        All members that are not among *states* have the signature that the block has.
        """
        groups: dict[Signature, list[int]] = {}
        for state in states:
            groups.setdefault(self.signature(state), []).append(state)
        inside = members[block]
        if len(states) < len(inside):
            old = signatures[block]
            unchanged = len(inside) - len(states) + len(groups.get(old, ()))
            if any(len(group) > unchanged for group in groups.values()):
                groups.setdefault(old, []).extend(sorted(inside.difference(states)))
            else:
                groups.pop(old, None)
                return self._leave(block, groups, members, signatures, first)
        largest = max(groups, key=lambda signature: len(groups[signature]))
        del groups[largest]
        signatures[block] = largest
        return self._leave(block, groups, members, signatures, first)

    def _leave(
        self,
        block: int,
        groups: dict[Signature, list[int]],
        members: dict[int, set[int]],
        signatures: dict[int, Signature],
        first: int,
    ) -> list[int]:
        """Make each of *groups* a block of its own; return their states."""
        moved: list[int] = []
        for signature, group in groups.items():
            number = first + len(members)
            members[number] = set(group)
            signatures[number] = signature
            members[block].difference_update(group)
            for state in group:
                self.classes[state] = number
            moved += group
        return moved


def minimized(dfa: Dfa, meter: Meter, table: ShapeTable) -> Dfa:
    """Return the smallest automaton of a language.

    Args:
        dfa: All its states are reachable from the start and can reach an accepting one.
        meter: Counts what is done.
        table: Where shapes are.

    Returns:
        States in the order in which a breadth-first search meets them that takes the bytes in
        ascending order; so automata of equal languages are equal.
    """
    if not dfa.shapes:
        return dfa
    refinement = _Refinement(dfa, meter, table)
    refinement.run()
    classes = refinement.classes
    examples: dict[int, int] = {}
    for state, found in enumerate(classes):
        examples.setdefault(found, state)
    numbers = {classes[0]: 0}
    order = [classes[0]]
    smallest = Dfa()
    for block in order:
        signature, targets = refinement.signature(examples[block])
        for target in targets:
            if target not in numbers:
                numbers[target] = len(order)
                order.append(target)
        smallest.shapes.append(signature >> 1)
        smallest.targets.append(tuple(map(numbers.__getitem__, targets)))
        smallest.accepting.append(signature & 1)
    return smallest
