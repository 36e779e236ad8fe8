"""All values that can be written at a place."""

from dataclasses import replace
from typing import Final

from sslm.schema.regular.language import Bytes, Language, Whole, either
from sslm.schema.values.arrays import array_part
from sslm.schema.values.keys import KeyLanguages
from sslm.schema.values.objects import object_part
from sslm.schema.values.places import Place, PlaceTable
from sslm.schema.values.scalars import any_number, any_string
from sslm.schema.values.values import NO_PART, Entry, FreeKeys, Part, Value

BOOLEANS: Final = (Bytes(b"false"), Bytes(b"true"))


class Universes:
    """Makes the universe of every place, once.

    Args:
        places: Finds the places inside a place.
        keys: The languages of free keys.
    """

    def __init__(self, places: PlaceTable, keys: KeyLanguages) -> None:
        self._places = places
        self._keys = keys
        self._found: dict[Place, Value] = {}
        self._scalars = (
            Part(Bytes(b"null")),
            Part(either(BOOLEANS)),
            Part(Whole(any_number())),
            Part(Whole(any_string())),
        )

    def of(self, place: Place) -> Value:
        """Return all values of a place."""
        if place not in self._found:
            self._found[place] = Value((*self._scalars, *self._containers(place)))
        return self._found[place]

    def free_names(self, place: Place, matched: frozenset[str]) -> Language:
        """Return the free keys of a place that match exactly those patterns, with quotes."""
        return self._keys.free(place.names, place.speakers.patterns, matched)

    def _containers(self, place: Place) -> tuple[Part, Part]:
        if place.is_scalar:
            return NO_PART, NO_PART
        places = self._places
        prefix = [self.of(places.of_item(place, index)) for index in range(place.prefix_count)]
        array = array_part(prefix, self.of(places.of_item(place, None)))
        entries = [Entry(name, self.of(places.of_key(place, name))) for name in place.names]
        free = [
            FreeKeys(self.free_names(place, one.matched), self.of(one.place), is_any=True)
            for one in places.classes(place)
        ]
        parts = (array, object_part(entries, free))
        # Those where nothing is said are met again and again: compiling them once pays.
        return parts if place.speakers.members else (_whole(parts[0]), _whole(parts[1]))


def _whole(part: Part) -> Part:
    return replace(part, language=Whole(part.language))
