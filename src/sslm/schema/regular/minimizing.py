"""The smallest automaton of a language, with its states in a fixed order.

States are classified from the end. A depth-first search finds parts whose states all reach each
other (after Gabow, "Path-based depth-first search for strong and biconnected components", 2000),
each after all that it leads to. A state that does not reach itself is told by its *signature*:
whether it accepts, and the class that each byte leads to. States that do reach each other are
divided by refinement (``refining.py``). What comes out either has the classes of a part
that was met before, or none of it has.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from sslm.schema.regular.budget import STATE_STEPS, Meter
from sslm.schema.regular.byte_sets import NO_TARGET, Row, ShapeTable
from sslm.schema.regular.dfa import Dfa

DEAD: Final = NO_TARGET
"""The class of states from which no accepting one can be reached."""

_ONLY_DEAD: Final = (DEAD,)
_UNKNOWN: Final = -2
"""The class of states that have none yet."""
Loop = dict[int, tuple[int, tuple[int, ...]]]
"""The states of a loop; of each twice its shape, and 1 if a string may end; and its targets."""


class _Classes:
    """The classes of an automaton's states, while they are found.

    Attributes:
        of: The class of each state.
        rows: Of each class its signature: twice the shape, and 1 if a string may end; and the
            classes of its targets, all different.
    """

    def __init__(self, dfa: Dfa, meter: Meter, table: ShapeTable) -> None:
        self.of = [_UNKNOWN] * len(dfa.shapes)
        self.rows: list[Row] = []
        self._dfa = dfa
        self._meter = meter
        self._table = table
        self._known: dict[Row, int] = {}
        # Classes whose states reach themselves, by each of their marks.
        self._loops: dict[tuple[int, ...], list[int]] = {}

    def find(self) -> None:
        """Find all classes."""
        dfa, of, known, merged = self._dfa, self.of, self._known, self._table.merged
        shapes, targets, accepting = dfa.shapes, dfa.targets, dfa.accepting
        class_of = of.__getitem__
        for component in components(targets, self._meter):
            state = component[0]
            row = targets[state]
            if len(component) > 1 or state in row:
                self._loop(component)
                continue
            shape, found = shapes[state], tuple(map(class_of, row))
            if len(found) > 1 or found == _ONLY_DEAD:
                shape, found = merged(shape, found)
            if not found and not accepting[state]:
                of[state] = DEAD
                continue
            signature = shape << 1 | accepting[state], found
            number = of[state] = known.setdefault(signature, len(known))
            if number == len(self.rows):
                self.rows.append(signature)

    def _loop(self, component: list[int]) -> None:
        """Classify states that reach each other."""
        dfa, of, first = self._dfa, self.of, len(self.rows)
        loop: Loop = {}
        is_live = has_dead = False
        for state in component:
            targets, accepts = dfa.targets[state], dfa.accepting[state]
            loop[state] = dfa.shapes[state] << 1 | accepts, targets
            outside = [of[target] for target in targets]
            is_live = is_live or bool(accepts) or max(outside) >= 0
            has_dead = has_dead or DEAD in outside
        if not is_live:
            for state in component:
                of[state] = DEAD
            return
        if has_dead:
            loop = {state: self._living(*row) for state, row in loop.items()}
        rows = refined(loop, of, first, self._meter, self._table)
        equal = self._equal_loop(rows, first)
        if equal is not None:
            for state in component:
                of[state] = equal[of[state]]
            return
        self.rows += rows
        for number, row in enumerate(rows, first):
            self._known[row] = number
            for mark in self._marks(row, first + len(rows)):
                self._loops.setdefault(mark, []).append(number)

    def _living(self, head: int, targets: tuple[int, ...]) -> Row:
        """Return a row of a loop without dead targets."""
        kept = tuple([DEAD if self.of[target] == DEAD else target for target in targets])
        shape, found = self._table.merged(head >> 1, kept)
        return shape << 1 | head & 1, found

    def _equal_loop(self, rows: list[Row], first: int) -> dict[int, int] | None:
        """Return the classes that *rows*, numbered from *first*, have already; None if they do not.

        As each reaches all, all of them have a class if one has. Then some of *rows* may be equal,
        which was not seen as long as it was not known that they lead to classes that are.
        """
        start, candidates = first, None
        for number, row in enumerate(rows, first):
            for mark in self._marks(row, first):
                found = self._loops.get(mark)
                if found is None:
                    return None
                if candidates is None or len(found) < len(candidates):
                    start, candidates = number, found
        for candidate in candidates or ():
            equal = {start: candidate}
            if all(self._paired(rows, first, equal)):
                return equal
        return None

    def _paired(self, rows: list[Row], first: int, equal: dict[int, int]) -> Iterator[bool]:
        """Follow a pair of classes, adding pairs to *equal*; yield whether each has equal rows."""
        waiting = list(equal)
        for block in waiting:
            (mine, targets), (its, others) = rows[block - first], self.rows[equal[block]]
            self._meter.spend(STATE_STEPS + len(targets))
            places = self._table.within(mine >> 1, its >> 1)
            yield places is not None and mine & 1 == its & 1
            for one, place in zip(targets, places or (), strict=True):
                other = others[place]
                if one >= first and one not in equal:
                    equal[one] = other
                    waiting.append(one)
                yield other == (one if one < first else equal[one])

    def _marks(self, row: Row, first: int) -> Iterator[tuple[int, ...]]:
        """Yield what a class has in common with any equal one, by its targets below *first*."""
        signature, targets = row
        mark = signature & 1, self._table.unions[signature >> 1]
        yield mark
        for target in targets:
            if target < first:
                yield (*mark, target)


def components(targets: list[tuple[int, ...]], meter: Meter) -> Iterator[list[int]]:
    """Yield the parts of an automaton that state 0 reaches, each after all that it leads to.

    Args:
        targets: Of each state those that follow it.
        meter: Counts what is done.

    Yields:
        States that reach each other; a state that reaches none that reaches it, alone.
    """
    closed = len(targets) + 1
    met = [0] * len(targets)
    met[0] = count = 1
    # States that have no component yet, and the numbers of those with which one may begin.
    open_states, begins = [0], [1]
    path = [(0, iter(targets[0]))]
    while path:
        state, rest = path[-1]
        for target in rest:
            number = met[target]
            if not number:
                count += 1
                met[target] = count
                open_states.append(target)
                begins.append(count)
                path.append((target, iter(targets[target])))
                break
            if number < closed:
                while begins[-1] > number:
                    begins.pop()
        else:
            path.pop()
            meter.spend(STATE_STEPS + len(targets[state]))
            if begins[-1] == met[state]:
                begins.pop()
                component = []
                while True:
                    member = open_states.pop()
                    met[member] = closed
                    component.append(member)
                    if member == state:
                        break
                yield component


def minimized(dfa: Dfa, meter: Meter, table: ShapeTable) -> Dfa:
    """Return the smallest automaton of a language; the empty one if it has no string.

    Args:
        dfa: Any automaton.
        meter: Counts what is done.
        table: Where shapes are.

    Returns:
        States in the order in which a breadth-first search meets them that takes the bytes in
        ascending order; so automata of equal languages are equal.
    """
    if not dfa.shapes:
        return dfa
    classes = _Classes(dfa, meter, table)
    classes.find()
    start = classes.of[0]
    smallest = Dfa()
    if start == DEAD:
        return smallest
    rows = classes.rows
    numbers = {start: 0}
    order = [start]
    for block in order:
        signature, targets = rows[block]
        for target in targets:
            if target not in numbers:
                numbers[target] = len(order)
                order.append(target)
        smallest.shapes.append(signature >> 1)
        smallest.targets.append(tuple(map(numbers.__getitem__, targets)))
        smallest.accepting.append(signature & 1)
    return smallest


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
