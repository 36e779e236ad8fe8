"""Keywords of objects."""

from typing import Final

from sslm.schema.documents.document import shown
from sslm.schema.documents.keywords import Keywords
from sslm.schema.documents.refusals import Unsupported
from sslm.schema.regular.language import Both, Bytes
from sslm.schema.values.algebra import any_part, both, both_parts
from sslm.schema.values.evaluation import Evaluation
from sslm.schema.values.objects import dependent_part, key_text, object_part
from sslm.schema.values.places import KeyClass, Place
from sslm.schema.values.speakers import Member, bounds_of
from sslm.schema.values.values import NO_VALUE, Entry, FreeKeys, Part, Value

_SHAPING: Final = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "propertyNames"),
        *("required", "minProperties", "maxProperties"),
    }
)

_REPEATED: Final = (
    "a free key that is repeated would count twice; set additionalProperties to false, or require "
    "all but one of so many keys by name"
)


_SHAPED_DEPENDENCES_MAX: Final = 2
"""Dependences between keys that are kept as shapes: each doubles their number."""


class PropertyKeywords:
    """Finds which objects the keywords of one schema allow.

    Args:
        evaluator: Finds the values of other schemas.
    """

    def __init__(self, evaluator: Evaluation) -> None:
        self._evaluator = evaluator

    def part(self, member: Member, place: Place) -> Part:
        """Return the objects of *place* that a schema's own keywords allow."""
        schema = member.node.keywords
        universe = self._evaluator.universes.of(place)["object"]
        parts = []
        if not _SHAPING.isdisjoint(schema):
            parts.append(self._shaped(member, schema, place))
        required = schema.get("dependentRequired", {})
        if required:
            parts.append(self._dependent(required, place))
        for name in schema.get("dependentSchemas", {}):
            inner = self._evaluator.speakers.inside(member, "dependentSchemas", name)
            allowed = self._evaluator.value(inner, place)["object"]
            parts.append(any_part(universe, [self.keyed(place, forbidden={name}), allowed]))
        return both_parts(universe, parts)

    def keyed(
        self,
        place: Place,
        *,
        required: set[str] | frozenset[str] = frozenset(),
        forbidden: set[str] | frozenset[str] = frozenset(),
    ) -> Part:
        """Return all objects of *place* with some known keys and without others."""
        entries = []
        for name in place.names:
            value = NO_VALUE if name in forbidden else self._any(place, name)
            entries.append(Entry(name, value, name in required))
        return object_part(entries, self.free(place))

    def _dependent(self, required: dict[str, list[str]], place: Place) -> Part:
        """Return the objects in which some keys need others."""
        needed = {name: frozenset(names) - {name} for name, names in required.items()}
        entries = [Entry(name, self._any(place, name)) for name in place.names]
        if len(needed) > _SHAPED_DEPENDENCES_MAX:
            found = dependent_part(entries, self.free(place), needed)
            if found is not None:
                return found
        universe = self._evaluator.universes.of(place)["object"]
        return both_parts(
            universe,
            [
                any_part(
                    universe,
                    [
                        self.keyed(place, forbidden={name}),
                        self.keyed(place, required={name, *names}),
                    ],
                )
                for name, names in needed.items()
            ],
        )

    def free(self, place: Place) -> list[FreeKeys]:
        """Return all classes of free keys of *place*, with any values."""
        universes = self._evaluator.universes
        return [
            FreeKeys(universes.free_names(place, c.matched), universes.of(c.place), is_any=True)
            for c in self._evaluator.places.classes(place)
        ]

    def _any(self, place: Place, name: str) -> Value:
        evaluator = self._evaluator
        return evaluator.universes.of(evaluator.places.of_key(place, name))

    def _shaped(self, member: Member, schema: Keywords, place: Place) -> Part:
        """Return the objects that keywords allow which look at each key on its own, or count."""
        evaluator = self._evaluator
        required = schema.get("required", [])
        names = self._names(member, schema)
        entries = []
        for name in place.names:
            inside = evaluator.places.of_key(place, name)
            matched = evaluator.patterns.matching(name, place.speakers.patterns)
            asked = evaluator.places.members_of_key(member, name, matched, loosely=False)
            value = self._all_of(asked, inside)
            if names is not None and self._is_excluded(name, names):
                value = NO_VALUE
            entries.append(Entry(name, value, name in required))
        free = [self._free(member, place, one, names) for one in evaluator.places.classes(place)]
        bounds = bounds_of(member, "minProperties", "maxProperties")
        count = len(place.names)
        evaluator.spend(member, count * min(count, bounds.most or bounds.least))
        where = shown(f"{member.node.pointer}/minProperties")
        doubt = Unsupported(where, "minProperties", _REPEATED)
        return object_part(entries, free, bounds, doubt)

    def _free(self, member: Member, place: Place, one: KeyClass, names: Part | None) -> FreeKeys:
        evaluator = self._evaluator
        asked = evaluator.places.members_of_key(member, None, one.matched, loosely=False)
        value = self._all_of(asked, one.place)
        language = evaluator.universes.free_names(place, one.matched)
        is_any = value is evaluator.universes.of(one.place)
        if names is not None:
            language = Both((language, names.language))
            if evaluator.compiler.is_empty(language):
                value = NO_VALUE
        return FreeKeys(language, value, is_any)

    def _all_of(self, members: list[Member], place: Place) -> Value:
        values = [self._evaluator.value(member, place) for member in members]
        universe = self._evaluator.universes.of(place)
        found = both(universe, values)
        return universe if found.parts == universe.parts else found

    def _names(self, member: Member, schema: Keywords) -> Part | None:
        """Return the keys that ``propertyNames`` allows, with quotes; None for all."""
        if "propertyNames" not in schema:
            return None
        evaluator = self._evaluator
        place = evaluator.places.of_names()
        inner = evaluator.speakers.inside(member, "propertyNames")
        part = evaluator.value(inner, place)["string"]
        return None if part is evaluator.universes.of(place)["string"] else part

    def _is_excluded(self, name: str, names: Part) -> bool:
        language = Both((Bytes(key_text(name)), names.language))
        return self._evaluator.compiler.is_empty(language)
