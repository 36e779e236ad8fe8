"""The keywords ``unevaluatedProperties`` with ``unevaluatedItems``."""

from sslm.schema.values.algebra import any_of, any_part, both_parts
from sslm.schema.values.arrays import array_part
from sslm.schema.values.evaluated import CaseFinder, Cases, Seen
from sslm.schema.values.evaluation import Evaluation
from sslm.schema.values.objects import object_part
from sslm.schema.values.places import Place
from sslm.schema.values.properties import PropertyKeywords
from sslm.schema.values.speakers import Member
from sslm.schema.values.values import Entry, FreeKeys, Part, Value

_TOO_MANY = "it depends on too many alternatives which keys or items are looked at; use fewer"


class UnevaluatedKeywords:
    """Finds what a schema allows that limits what no other keyword has looked at.

    Args:
        evaluator: Finds the values of other schemas.
        properties: Finds objects by their keys.
    """

    def __init__(self, evaluator: Evaluation, properties: PropertyKeywords) -> None:
        self._evaluator = evaluator
        self._objects = CaseFinder(evaluator, properties, "object")
        self._arrays = CaseFinder(evaluator, properties, "array")

    def object_part(self, member: Member, place: Place) -> Part:
        """Return the objects of *place* that a schema allows."""
        cases = self._cases(self._objects, member, "unevaluatedProperties", place)
        whole = self._evaluator.universes.of(place)["object"]
        shaped = [
            both_parts(whole, [part, self._with_other_keys(member, place, seen)])
            for seen, part in cases.items()
        ]
        return any_part(whole, shaped)

    def array_part(self, member: Member, place: Place) -> Part:
        """Return the lists of *place* that a schema allows."""
        cases = self._cases(self._arrays, member, "unevaluatedItems", place)
        whole = self._evaluator.universes.of(place)["array"]
        shaped = [
            both_parts(whole, [part, self._with_other_items(member, place, seen)])
            for seen, part in cases.items()
        ]
        return any_part(whole, shaped)

    def _cases(self, finder: CaseFinder, member: Member, keyword: str, place: Place) -> Cases:
        cases = finder.inside(member, place)
        if cases is None:
            self._evaluator.refusals.add(f"{member.node.pointer}/{keyword}", keyword, _TOO_MANY)
        return cases or {}

    def _with_other_keys(self, member: Member, place: Place, seen: Seen) -> Part:
        """Return the objects whose other keys have the values that the keyword allows."""
        evaluator = self._evaluator
        universes, places = evaluator.universes, evaluator.places
        if seen.is_all:
            return universes.of(place)["object"]
        inner = evaluator.speakers.inside(member, "unevaluatedProperties")
        entries = []
        for name in place.names:
            inside = places.of_key(place, name)
            matched = evaluator.patterns.matching(name, place.speakers.patterns)
            is_seen = name in seen.names or not matched.isdisjoint(seen.patterns)
            value = universes.of(inside) if is_seen else evaluator.value(inner, inside)
            entries.append(Entry(name, value))
        free = []
        for one in places.classes(place):
            universe = universes.of(one.place)
            is_seen = not one.matched.isdisjoint(seen.patterns)
            value = universe if is_seen else evaluator.value(inner, one.place)
            names = universes.free_names(place, one.matched)
            free.append(FreeKeys(names, value, value.parts == universe.parts))
        return object_part(entries, free)

    def _with_other_items(self, member: Member, place: Place, seen: Seen) -> Part:
        """Return the lists whose other items are what the keyword allows."""
        if seen.is_all:
            return self._evaluator.universes.of(place)["array"]
        prefix = [self._item(member, place, i, seen) for i in range(place.prefix_count)]
        return array_part(prefix, self._item(member, place, None, seen))

    def _item(self, member: Member, place: Place, index: int | None, seen: Seen) -> Value:
        evaluator = self._evaluator
        inside = evaluator.places.of_item(place, index)
        universe = evaluator.universes.of(inside)
        if index is not None and index < seen.prefix_count:
            return universe
        inner = [evaluator.speakers.inside(member, "unevaluatedItems")]
        inner += sorted(seen.containing, key=lambda one: one.node.pointer)
        return any_of(universe, [evaluator.value(one, inside) for one in inner])
