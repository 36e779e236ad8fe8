"""Keywords of lists."""

from typing import Final

from sslm.errors.schema import UnsatisfiableSchemaError
from sslm.limits import SCHEMA_UNIQUE_STATES_MAX, SCHEMA_UNIQUE_TEXTS_MAX
from sslm.schema.regular.automaton import Automaton
from sslm.schema.values.algebra import both, both_parts, outside
from sslm.schema.values.arrays import Counted, array_part, containing_part, unique_part
from sslm.schema.values.evaluation import Evaluation
from sslm.schema.values.places import Place
from sslm.schema.values.speakers import Bounds, Member, bounds_of
from sslm.schema.values.values import Part, Value

_SHAPING: Final = frozenset({"prefixItems", "items", "minItems", "maxItems"})

_REPEATED: Final = (
    "it needs items of a few known values in the same schema (enum, const, boolean, a small range "
    "of integers), or maxItems 1"
)


class ItemKeywords:
    """Finds which lists the keywords of one schema allow.

    Args:
        evaluator: Finds the values of other schemas.
    """

    def __init__(self, evaluator: Evaluation) -> None:
        self._evaluator = evaluator

    def part(self, member: Member, place: Place) -> Part:
        """Return the lists of *place* that a schema's own keywords allow."""
        schema = member.node.keywords
        universe = self._evaluator.universes.of(place)["array"]
        parts = []
        bounds = bounds_of(member, "minItems", "maxItems")
        prefix, rest = self._items(member, place)
        if not _SHAPING.isdisjoint(schema):
            parts.append(array_part(prefix, rest, bounds))
        if "contains" in schema:
            parts.append(self._containing(member, place))
        if schema.get("uniqueItems") is True and (bounds.most is None or bounds.most > 1):
            parts.append(self._unique(member, prefix, rest, bounds, universe))
        return both_parts(universe, parts)

    def _items(self, member: Member, place: Place) -> tuple[list[Value], Value]:
        """Return what a schema allows for the first items, and for all after those."""
        prefix = [self._item(member, place, index) for index in range(place.prefix_count)]
        return prefix, self._item(member, place, None)

    def _item(self, member: Member, place: Place, index: int | None) -> Value:
        evaluator = self._evaluator
        inside = evaluator.places.of_item(place, index)
        asked = evaluator.places.members_of_item(member, index, loosely=False)
        values = [evaluator.value(one, inside) for one in asked]
        return both(evaluator.universes.of(inside), values)

    def _containing(self, member: Member, place: Place) -> Part:
        bounds = bounds_of(member, "minContains", "maxContains")
        if "minContains" not in member.node.keywords:
            bounds = Bounds(1, bounds.most, bounds.label or f"contains at #{member.node.pointer}")
        if bounds.least == 0 and bounds.most is None:
            return self._evaluator.universes.of(place)["array"]
        count = place.prefix_count
        self._evaluator.spend(member, count * min(count, bounds.most or bounds.least))
        indices = range(count)
        prefix = [self._counted(member, place, index, bounds) for index in indices]
        return containing_part(prefix, self._counted(member, place, None, bounds), bounds)

    def _counted(self, member: Member, place: Place, index: int | None, bounds: Bounds) -> Counted:
        evaluator = self._evaluator
        inside = evaluator.places.of_item(place, index)
        universe = evaluator.universes.of(inside)
        counting = evaluator.value(evaluator.speakers.inside(member, "contains"), inside)
        if bounds.most is None and (bounds.least == 1 or not counting.is_exact):
            return Counted(universe, counting, universe)
        others = outside(universe, counting, evaluator.doubt(member, "maxContains", [counting]))
        return Counted(universe, counting, others)

    def _unique(
        self, member: Member, prefix: list[Value], rest: Value, bounds: Bounds, universe: Part
    ) -> Part:
        most = bounds.most
        used = prefix if most is None else prefix[:most]
        texts = [self._texts(value) for value in used]
        is_rest_used = most is None or most > len(prefix)
        others = self._texts(rest) if is_rest_used else ()
        if others is not None and all(one is not None for one in texts):
            known = [one for one in texts if one is not None]
            found = unique_part(known, others, most, nodes=SCHEMA_UNIQUE_STATES_MAX)
            if found is not None:
                return found
        self._evaluator.refusals.add(f"{member.node.pointer}/uniqueItems", "uniqueItems", _REPEATED)
        return universe

    def _texts(self, value: Value) -> tuple[bytes, ...] | None:
        """Return all spellings of a small set; None if it is not small."""
        if value.is_open:
            return None
        try:
            automaton = self._evaluator.compiler.automaton(value.language)
        except UnsatisfiableSchemaError:
            return ()
        return all_texts(automaton, at_most=SCHEMA_UNIQUE_TEXTS_MAX)


def all_texts(automaton: Automaton, *, at_most: int) -> tuple[bytes, ...] | None:
    """Return all strings of an automaton in order, or None if there are more than *at_most*."""
    found: list[bytes] = []
    # A path longer than there are states has gone through a loop.
    waiting: list[tuple[int, bytes]] = [(0, b"")]
    while waiting:
        state, text = waiting.pop()
        if automaton.is_accepting(state):
            found.append(text)
        for low, high, target in automaton.row(state):
            waiting += [(target, text + bytes((byte,))) for byte in range(low, high + 1)]
        if len(found) + len(waiting) > at_most or len(text) > automaton.state_count:
            return None
    return tuple(sorted(found))
