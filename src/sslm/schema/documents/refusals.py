"""What of a schema cannot be enforced exactly, and what in it grew."""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

from sslm.errors.schema_documents import UnsupportedSchemaError
from sslm.schema.documents.document import shown

_NAMED_MAX: Final = 3
"""Keywords of one schema that an error names: more would hide which are worth a look."""
_OF_ANY: Final = (
    *("not", "oneOf", "if", "allOf", "anyOf", "dependentSchemas", "dependentRequired"),
    *("$ref", "$dynamicRef"),
)
"""Keywords that combine others, those first that multiply most."""
_OF_KIND: Final[dict[str, tuple[str, ...]]] = {
    "number": ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "string": ("pattern", "format", "maxLength", "minLength"),
    "array": (
        *("unevaluatedItems", "uniqueItems", "contains", "maxContains", "minContains"),
        *("maxItems", "minItems", "prefixItems", "items"),
    ),
    "object": (
        *("unevaluatedProperties", "maxProperties", "minProperties", "patternProperties"),
        *("propertyNames", "properties", "additionalProperties", "required"),
    ),
}
_OF_OBJECTS: Final = frozenset({"dependentSchemas", "dependentRequired"})
"""Keywords of *_OF_ANY* that speak of objects only."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One thing that a schema asks for and that cannot be enforced exactly.

    Attributes:
        pointer: Where in the schema; a JSON pointer, cut where it is long.
        keyword: Which keyword.
        hint: Why, or what to write instead.
    """

    pointer: str
    keyword: str
    hint: str


class Refusals:
    """The refusals of one compilation, each once, in the order in which they were found."""

    def __init__(self) -> None:
        self._found: dict[Unsupported, None] = {}

    def add(self, pointer: str, keyword: str, hint: str) -> None:
        """Note that *keyword* of the schema at *pointer* cannot be enforced."""
        self._found[Unsupported(shown(pointer), keyword, hint)] = None

    def all(self) -> list[Unsupported]:
        """Return what was found so far."""
        return list(self._found)

    def raise_first(self) -> None:
        """Raise :class:`UnsupportedSchemaError` if there is anything."""
        for found in self._found:
            raise UnsupportedSchemaError(found.pointer, found.keyword, found.hint)


def label(keywords: Iterable[str], pointer: str) -> str:
    """Return how keywords of the schema at *pointer* are named, or the schema without any."""
    *others, last = ["", *keywords]
    names, place = ", ".join(others[1:]), f"#{shown(pointer)}"
    if not last:
        return place
    return f"{names} and {last} at {place}" if names else f"{last} at {place}"


def schema_label(schema: Container[str], pointer: str, kind: str | None = None) -> str:
    """Return how that part of a schema is named that speaks of values of *kind*, or all of it."""
    values = [name for name in ("const", "enum") if name in schema]
    combining = [name for name in _OF_ANY if kind in {None, "object"} or name not in _OF_OBJECTS]
    own = chain(*_OF_KIND.values()) if kind is None else _OF_KIND.get(kind, ())
    found = [name for name in (*combining, *own) if name in schema]
    names = [*values, *found] or [name for name in ("type",) if name in schema]
    return label(names[:_NAMED_MAX], pointer)


def doubt_label(doubt: Unsupported) -> str:
    """Return how the keyword is named that a doubt is about."""
    return label([doubt.keyword], doubt.pointer.removesuffix(f"/{doubt.keyword}"))
