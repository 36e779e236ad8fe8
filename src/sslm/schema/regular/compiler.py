"""From expressions to automata.

Parts that only an automaton can decide (:class:`Both`, :class:`Without`, :class:`ExactlyOne`,
:class:`Shortest`, :class:`Spaced`), the bodies of repetitions, and parts marked :class:`Whole` are
compiled and minimized on their own, equal ones once; joined, alternative and repeated parts are
then built together, state by state.
"""

from typing import Final

from sslm.errors.schema import UnsatisfiableSchemaError
from sslm.progress import StageProgress
from sslm.schema.regular.automaton import Automaton
from sslm.schema.regular.budget import WHOLE_SCHEMA, Budget, Meter
from sslm.schema.regular.byte_sets import ShapeTable, byte_set
from sslm.schema.regular.dfa import Dfa, Growing, explored, explored_to_ends
from sslm.schema.regular.language import (
    Both,
    Bytes,
    Either,
    ExactlyOne,
    Language,
    Machine,
    Named,
    Nothing,
    OneOf,
    Repeat,
    Sequence,
    Shortest,
    Spaced,
    Whole,
    Without,
)
from sslm.schema.regular.minimizing import minimized
from sslm.schema.regular.nodes import EMPTY, LEAF, NOTHING, REPEAT, NodeTable
from sslm.schema.regular.positions import PositionAutomaton
from sslm.schema.regular.products import BOTH, EXACTLY_ONE, WITHOUT, ProductAutomaton, Rule
from sslm.schema.regular.spacing import SpacedAutomaton, Spacing

_RULES: Final[dict[type[Language], Rule]] = {
    Both: BOTH,
    Without: WITHOUT,
    ExactlyOne: EXACTLY_ONE,
}

_BYTE_STEPS: Final = 5
"""Steps that are counted for a byte of a single string."""


class LanguageCompiler:
    """Compiles any number of expressions within one budget, keeping what it has found.

    Not safe for use by several threads at once.
    """

    def __init__(self, budget: Budget | None = None, report: StageProgress | None = None) -> None:
        self._meter = Meter(budget or Budget(), report)
        self._table = ShapeTable(self._meter)
        empty = Dfa([self._table.empty], [()], bytearray(b"\1"))
        self._nodes = NodeTable(empty)
        # By identity; the expression is kept, so that its number stays its own.
        self._known: dict[int, tuple[Language, int]] = {}
        self._growing: dict[int, Growing] = {}

    def automaton(self, language: Language) -> Automaton:
        """Compile an expression.

        Raises:
            UnsatisfiableSchemaError: If the language has no string.
            SchemaBudgetError: If the budget is too small.
        """
        label = language.label if isinstance(language, Named) else WHOLE_SCHEMA
        node = self._node(language)
        if node == NOTHING:
            raise UnsatisfiableSchemaError(label)
        self._meter.enter(label)
        dfa = self._nodes.leaves[self._alone(node, label)]
        assert dfa is not None
        found = Automaton(dfa, self._table)
        # A single text is none of those that are built on the way, however long it is.
        self._meter.admit(found.state_count, 0)
        return found

    def spend(self, steps: int, label: str) -> None:
        """Count *steps* that finding expressions takes; *label* is the place that they are for.

        Raises:
            SchemaBudgetError: If the budget is too small.
        """
        self._meter.enter(label)
        self._meter.spend(steps)

    def is_empty(self, language: Language) -> bool:
        """Tell whether a language has no string; raises SchemaBudgetError."""
        return self._node(language) == NOTHING

    def _node(self, language: Language) -> int:
        """Return the node of an expression, that of each of its parts found before."""
        known = self._known
        waiting = [(language, "")]
        while waiting:
            part, label = waiting[-1]
            if id(part) in known:
                waiting.pop()
                continue
            inner = part.label if isinstance(part, Named) else label
            missing = [(one, inner) for one in _parts(part) if id(one) not in known]
            if missing:
                waiting += reversed(missing)
                continue
            waiting.pop()
            self._meter.enter(label or WHOLE_SCHEMA)
            self._meter.spend(1)
            known[id(part)] = (part, self._made(part, label))
        return known[id(language)][1]

    def _made(self, language: Language, label: str) -> int:
        """Return the node of an expression whose parts have theirs."""
        parts = tuple(self._known[id(part)][1] for part in _parts(language))
        match language:
            case Nothing():
                found = NOTHING
            case Bytes(value):
                found = self._spelled(tuple(1 << byte for byte in value), label)
            case OneOf(ranges):
                found = self._spelled((byte_set(ranges),), label) if ranges else NOTHING
            case Machine():
                found = self._given(language, label)
            case Sequence():
                found = self._nodes.sequence(parts, label)
            case Either():
                found = self._nodes.either(parts, label)
            case Repeat(_, least, most):
                found = self._repeated(parts[0], least, most, label)
            case Named():
                found = parts[0]
            case Whole():
                found = self._alone(parts[0], label)
            case Shortest():
                found = self._shortest(parts[0], label)
            case Spaced(_, spacing):
                found = self._spaced(parts[0], spacing, label)
            case Both() | Without() | ExactlyOne():
                found = self._product(type(language), parts, label)
        return found

    def _spelled(self, sets: tuple[int, ...], label: str) -> int:
        """Return the leaf of all strings with a byte of each of *sets*."""
        key = ("spelled", *sets)
        if not sets:
            return EMPTY
        found = self._nodes.find(key)
        if found is None:
            self._meter.spend(_BYTE_STEPS * len(sets))
            shapes = [self._table.shape((bytes_in,)) for bytes_in in sets]
            targets: list[tuple[int, ...]] = [(index,) for index in range(1, len(sets) + 1)]
            ends = bytearray(len(sets)) + b"\1"
            dfa = Dfa([*shapes, self._table.empty], [*targets, ()], ends)
            found = self._nodes.leaf(key, dfa, label)
        return found

    def _given(self, machine: Machine, label: str) -> int:
        """Return the leaf of an automaton that was written down."""
        key = ("machine", machine.rows, machine.accepting)
        found = self._nodes.find(key)
        if found is None:
            dfa = Dfa()
            self._meter.admit(len(machine.rows), 0)
            for state, ranges in enumerate(machine.rows):
                sets = tuple([byte_set([(low, high)]) for low, high, _ in ranges])
                shape, targets = self._table.row(sets, [target for *_, target in ranges])
                dfa.shapes.append(shape)
                dfa.targets.append(targets)
                dfa.accepting.append(state in machine.accepting)
            found = self._nodes.leaf(key, minimized(dfa, self._meter, self._table), label)
        return found

    def _repeated(self, part: int, least: int, most: int | None, label: str) -> int:
        if most is not None and most < least:
            return NOTHING
        if part == NOTHING:
            return NOTHING if least else EMPTY
        if part == EMPTY or most == 0:
            return EMPTY
        if (least, most) == (1, 1):
            return part
        # As many of the repetitions as one likes may be empty.
        fewest = 0 if self._nodes.is_nullable[part] else least
        return self._nodes.repeat(self._alone(part, label), fewest, most, label)

    def _alone(self, part: int, label: str) -> int:
        """Return the leaf of a part that is compiled on its own."""
        if part == NOTHING or self._nodes.kinds[part] == LEAF:
            return part
        found = self._nodes.wholes.get(part)
        if found is None:
            self._check_depth(part)
            full = explored(self._grow(part), self._meter)
            dfa = minimized(full, self._meter, self._table)
            self._growing.pop(part, None)
            found = self._nodes.wholes[part] = self._nodes.leaf(("whole", part), dfa, label)
        return found

    def _shortest(self, part: int, label: str) -> int:
        """Return the leaf of the strings of a part that do not begin with another one of it."""
        if part == NOTHING:
            return part
        key = ("shortest", part)
        found = self._nodes.find(key)
        if found is None:
            self._check_depth(part)
            full = explored_to_ends(self._grow(part), self._meter, self._table)
            dfa = minimized(full, self._meter, self._table)
            found = self._nodes.leaf(key, dfa, label)
        return found

    def _spaced(self, part: int, spacing: Spacing, label: str) -> int:
        """Return the leaf of a part with white space."""
        if part == NOTHING:
            return part
        key = (spacing, part)
        found = self._nodes.find(key)
        if found is None:
            compact = self._nodes.leaves[self._alone(part, label)]
            assert compact is not None
            growing = SpacedAutomaton(compact, spacing, self._table, self._meter)
            full = explored(growing, self._meter)
            dfa = minimized(full, self._meter, self._table)
            found = self._nodes.leaf(key, dfa, label)
        return found

    def _product(self, kind: type[Language], parts: tuple[int, ...], label: str) -> int:
        """Return the leaf of an intersection, difference or exclusive choice."""
        if kind is Both:
            parts = tuple(sorted(set(parts)))
            if parts[0] == NOTHING or len(parts) == 1:
                return parts[0]
        elif kind is Without:
            if NOTHING in parts or parts[0] == parts[1]:
                return NOTHING if parts[0] == parts[1] else parts[0]
        else:
            parts = tuple(sorted(part for part in parts if part != NOTHING))
            if len(parts) < 2:
                return parts[0] if parts else NOTHING
        key = (kind.__name__, *parts)
        found = self._nodes.find(key)
        if found is None:
            grown = [self._grow(part) for part in parts]
            growing = ProductAutomaton(grown, _RULES[kind], self._table, self._meter)
            full = explored(growing, self._meter)
            found = self._nodes.leaf(key, minimized(full, self._meter, self._table), label)
        return found

    def _grow(self, node: int) -> Growing:
        """Return an automaton of a node, grown as far as it was needed so far."""
        leaf = self._nodes.leaves[self._nodes.wholes.get(node, node)]
        if leaf is not None:
            return leaf
        found = self._growing.get(node)
        if found is None:
            found = PositionAutomaton(node, self._nodes, self._table, self._meter)
            self._growing[node] = found
        return found

    def _check_depth(self, node: int) -> None:
        """Refuse at once what would surely need too many states."""
        nodes, limit = self._nodes, self._meter.budget.states
        depth = nodes.depths[node]
        if depth > limit:
            while nodes.kinds[node] != REPEAT:
                node = next(part for part in nodes.parts[node] if nodes.depths[part] == depth)
            if nodes.labels[node]:
                self._meter.enter(nodes.labels[node])
            self._meter.admit(depth, 0)


def _parts(language: Language) -> tuple[Language, ...]:
    """Return the expressions that an expression is made of."""
    match language:
        case Sequence(parts) | Either(parts) | Both(parts) | ExactlyOne(parts):
            return parts
        case Without(base, removed):
            return (base, removed)
        case Repeat(part) | Shortest(part) | Whole(part) | Spaced(part) | Named(part):
            return (part,)
        case _:
            return ()


def compile_language(language: Language, budget: Budget | None = None) -> Automaton:
    """Compile one expression; see :meth:`LanguageCompiler.automaton`."""
    return LanguageCompiler(budget).automaton(language)
