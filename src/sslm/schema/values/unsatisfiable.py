"""Which part of a schema is why nothing satisfies it, found by leaving parts out."""

from collections.abc import Callable, Iterator
from typing import Final

from sslm.schema.documents.document import Json, pointer_text, shown
from sslm.schema.documents.keywords import KEYWORDS, held

Place = tuple[str, ...]

_TRIALS_MAX: Final = 64
"""Schemas that are compiled on the way, each with a small part of the budget."""


def cause_of(document: Json, allows: Callable[[Json, Place], bool | None]) -> str | None:
    """Return the words for the innermost part without which something would satisfy a schema.

    Args:
        document: Nothing satisfies it.
        allows: Whether anything satisfies the subschema of a document at a place; None if that is
            not known.

    Returns:
        A keyword or a subschema with its JSON pointer; None if no single one is why.
    """
    left = _TRIALS_MAX

    def found(changed: Json, at: Place) -> bool | None:
        nonlocal left
        left -= 1
        return allows(changed, at) if left >= 0 else None

    at: Place = ()
    seen = {at}
    while isinstance(schema := _value_at(document, at), dict):
        needed = [key for key in schema if found(_without(document, at, key), at)]
        inner = [one for key in needed for one in _led_to(at, key, schema[key]) if one not in seen]
        place = next((one for one in inner if found(document, one) is False), None)
        if place is None:
            return _words(at, needed)
        at = place
        seen.add(at)
    return f"false at {_pointer(at)!r} of the schema" if at else None


def _led_to(at: Place, key: str, content: Json) -> Iterator[Place]:
    """Yield the places of the subschemas that a keyword has, or refers to in the same document."""
    if key == "$ref" and isinstance(content, str) and content.startswith("#/"):
        tokens = content.removeprefix("#/").split("/")
        yield tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens)
    elif key in KEYWORDS:
        yield from ((*at, *tokens) for tokens in held(KEYWORDS[key], key, content))


def _words(at: Place, needed: list[str]) -> str | None:
    # Without its type a schema allows values of others, which tells least.
    telling = [key for key in needed if key != "type"] or needed
    if telling:
        where = f"{telling[-1]!r} at {_pointer((*at, telling[-1]))!r} of the schema"
        return f"{where}, together with what stands beside it"
    return f"the schema at {_pointer(at)!r}" if at else None


def _pointer(at: Place) -> str:
    return shown(pointer_text(at))


def _value_at(document: Json, at: Place) -> Json:
    for token in at:
        document = document[int(token)] if isinstance(document, list) else _fields(document)[token]
    return document


def _without(document: Json, at: Place, key: str) -> Json:
    """Return a document without one key of the object at a place."""
    if not at:
        return {name: value for name, value in _fields(document).items() if name != key}
    if isinstance(document, list):
        index = int(at[0])
        changed = _without(document[index], at[1:], key)
        return [*document[:index], changed, *document[index + 1 :]]
    fields = _fields(document)
    return {**fields, at[0]: _without(fields[at[0]], at[1:], key)}


def _fields(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise AssertionError("a place of a document leads through objects and lists")
    return value
