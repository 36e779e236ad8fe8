"""The spelling of a value at a place: keys in the order that the place knows."""

from sslm.schema.documents.canonical import canonical_json
from sslm.schema.documents.document import Json
from sslm.schema.values.places import Place, PlaceTable


def spelled(
    value: Json, place: Place, places: PlaceTable, *, is_spaced: bool = False
) -> bytes | None:
    """Return how *value* is written at *place*.

    Args:
        value: A value as :func:`sslm.schema.documents.document.read_document` returns it.
        place: Where.
        places: Finds the places inside it.
        is_spaced: Whether a blank stands behind each comma and colon.

    Returns:
        The text, known keys first and in their order, the rest as they come; None if the value
        has lists or objects deeper than the place, or keys that are left out there.
    """
    ordered = _ordered(value, place, places)
    return None if ordered is None else canonical_json(ordered[0], is_spaced=is_spaced)


def _ordered(value: Json, place: Place, places: PlaceTable) -> tuple[Json] | None:
    """Return *value* with its keys in order, in a tuple since it may be None itself."""
    if not isinstance(value, list | dict):
        return (value,)
    if place.is_scalar:
        return None
    if isinstance(value, list):
        inner = [_ordered(v, places.of_item(place, at), places) for at, v in enumerate(value)]
        items = [one[0] for one in inner if one is not None]
        return (items,) if len(items) == len(value) else None
    known = [name for name in place.names if name in value]
    inside = {name: places.of_key(place, name) for name in known}
    for key in value:
        if key not in inside:
            one = places.class_of(place, key)
            if one is None:
                return None
            inside[key] = one.place
    found: dict[str, Json] = {}
    for key, part in inside.items():
        item = _ordered(value[key], part, places)
        if item is None:
            return None
        found[key] = item[0]
    return (found,)
