"""What a request of the OpenAI interface says of a schema that its answer is to follow."""

from collections.abc import Mapping
from typing import Any, Final

from sslm.errors.batches import BatchFieldError, BatchValueError
from sslm.errors.showing import briefly
from sslm.schema.documents.canonical import canonical_json
from sslm.schema.documents.document import read_document
from sslm.serving.json_text import JsonValue

FIELDS: Final = ("response_format", "schema", "finish", "end_of_text")
"""Fields of a body that say something of it."""
_FORMAT: Final = "response_format"
_TYPES: Final = {
    "text": ("type",),
    "json_object": ("type",),
    "json_schema": ("type", "json_schema"),
}
"""Fields of a format, by its type."""
_JSON_SCHEMA: Final = ("name", "schema", "description", "strict")
_ANY_OBJECT: Final = {"type": "object"}


def schema_options(given: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return the options of an answer that the fields of a body come to; None is no schema.

    Args:
        given: Fields by name, those that are null left out.

    Raises:
        BatchValueError: If a field has a value that cannot be understood, or contradicts another.
        BatchFieldError: If a format has a field that is not known.
        SchemaError: If a document is larger, or nests deeper, than schemas do.
    """
    options: dict[str, Any] = {
        name: given[name] for name in ("finish", "end_of_text") if name in given
    }
    if _FORMAT in given and "schema" in given:
        raise BatchValueError("body.schema", "there", f"nothing beside {_FORMAT}")
    if _FORMAT in given:
        options["schema"] = _of_format(given[_FORMAT])
    elif "schema" in given:
        found = given["schema"]
        options["schema"] = found if isinstance(found, str) else _document("body.schema", found)
    return options


def _of_format(found: JsonValue) -> bytes | None:
    place = f"body.{_FORMAT}"
    if not isinstance(found, Mapping):
        raise BatchValueError(place, briefly(found), "an object")
    kind = found.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise BatchValueError(f"{place}.type", briefly(kind), " or ".join(_TYPES))
    _require_fields(place, found, _TYPES[kind])
    if kind == "text":
        return None
    if kind == "json_object":
        return _document(place, _ANY_OBJECT)
    place = f"{place}.json_schema"
    inner = found.get("json_schema")
    if not isinstance(inner, Mapping):
        raise BatchValueError(place, briefly(inner), "an object with a schema")
    _require_fields(place, inner, _JSON_SCHEMA)
    for name in ("name", "description"):
        if not isinstance(inner.get(name), str | None):
            raise BatchValueError(f"{place}.{name}", briefly(inner[name]), "a text")
    if not isinstance(inner.get("strict"), bool | None):
        raise BatchValueError(f"{place}.strict", briefly(inner["strict"]), "true or false")
    return _document(f"{place}.schema", inner.get("schema"))


def _document(place: str, found: JsonValue) -> bytes:
    """Return a schema as text, by which equal ones are known; whether it is one is seen later."""
    if not isinstance(found, Mapping | bool):
        raise BatchValueError(place, briefly(found), "a JSON Schema")
    return canonical_json(read_document(found))


def _require_fields(place: str, found: Mapping[str, JsonValue], known: tuple[str, ...]) -> None:
    for name in found:
        if name not in known:
            raise BatchFieldError(f"{place}.{name}", ", ".join(known))
