"""What every keyword is: which values it takes, what becomes of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from enum import Enum, auto
from typing import Final, Literal, TypedDict

from sslm.errors.schema_documents import MalformedSchemaError
from sslm.schema.documents.document import Json, Number, pointer_text, shown, told

TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")


class Keywords(TypedDict, total=False):
    """Keywords of one schema with the types of what they take, which ``KEYWORDS`` has checked.

    A schema may have others, too: those that hold schemas alone, and those that are not enforced.
    """

    type: str | list[str]
    enum: list[Json]
    const: Json
    multipleOf: Number
    minimum: Number
    maximum: Number
    exclusiveMinimum: Number
    exclusiveMaximum: Number
    minLength: int
    maxLength: int
    pattern: str
    format: str
    prefixItems: list[Json]
    items: Json
    contains: Json
    minContains: int
    maxContains: int
    minItems: int
    maxItems: int
    uniqueItems: bool
    properties: dict[str, Json]
    patternProperties: dict[str, Json]
    additionalProperties: Json
    propertyNames: Json
    required: list[str]
    minProperties: int
    maxProperties: int
    dependentRequired: dict[str, list[str]]
    dependentSchemas: dict[str, Json]


Least = Literal["minLength", "minItems", "minContains", "minProperties"]
Most = Literal["maxLength", "maxItems", "maxContains", "maxProperties"]


class Holds(Enum):
    """Which subschemas the value of a keyword holds."""

    NONE = auto()
    ONE = auto()
    LIST = auto()
    MAP = auto()


class Role(Enum):
    """What becomes of a keyword."""

    ENFORCED = auto()
    IDENTIFIES = auto()
    IGNORED = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyword:
    """One keyword of the draft, or of what is written beside it.

    Attributes:
        expected: The values it takes, in words.
        accepts: Tells whether it takes a value.
        holds: Which subschemas the value holds.
        in_place: Whether these speak of the same value as the keyword, not of a part of it.
        role: What becomes of it.
        hint: What to do instead, if it is refused.
    """

    expected: str
    accepts: Callable[[Json], bool]
    holds: Holds = Holds.NONE
    in_place: bool = False
    role: Role = Role.ENFORCED
    hint: str = ""


def is_schema(value: Json) -> bool:
    """Tell whether a value is an object, true or false, as schemas are."""
    return isinstance(value, bool | dict)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_types(value: Json) -> bool:
    listed = value if isinstance(value, list) else [value]
    return bool(listed) and all(isinstance(one, str) and one in TYPES for one in listed)


def _is_schemas(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_schema, value))


def _is_schema_map(value: Json) -> bool:
    return isinstance(value, dict) and all(map(is_schema, value.values()))


def _is_identifier(value: Json) -> bool:
    return isinstance(value, str) and not value.partition("#")[2]


_COUNT: Final = Keyword(expected="a whole number from 0", accepts=_is_count)
_NUMBER: Final = Keyword(expected="a number", accepts=_is_number)
_SCHEMA: Final = Keyword(
    expected="a schema (an object, true or false)", accepts=is_schema, holds=Holds.ONE
)
_IN_PLACE: Final = Keyword(
    expected="a schema (an object, true or false)",
    accepts=is_schema,
    holds=Holds.ONE,
    in_place=True,
)
_ALTERNATIVES: Final = Keyword(
    expected="a list of at least one schema",
    accepts=_is_schemas,
    holds=Holds.LIST,
    in_place=True,
)
_MAP: Final = Keyword(expected="an object of schemas", accepts=_is_schema_map, holds=Holds.MAP)
_REFERENCE: Final = Keyword(expected="a text", accepts=_is_text, in_place=True)
_TEXT: Final = Keyword(expected="a text", accepts=_is_text)
_NAME: Final = Keyword(expected="a text", accepts=_is_text, role=Role.IDENTIFIES)
_DEFINITIONS: Final = Keyword(
    expected="an object of schemas",
    accepts=_is_schema_map,
    holds=Holds.MAP,
    role=Role.IDENTIFIES,
)
_ANNOTATION: Final = Keyword(expected="any value", accepts=lambda _: True, role=Role.IGNORED)


def _refused(hint: str) -> Keyword:
    return Keyword(expected="any value", accepts=lambda _: True, role=Role.REFUSED, hint=hint)


KEYWORDS: Final[dict[str, Keyword]] = {
    "$schema": _NAME,
    "$id": Keyword(
        expected="a URI without a fragment", accepts=_is_identifier, role=Role.IDENTIFIES
    ),
    "$anchor": _NAME,
    "$dynamicAnchor": _NAME,
    "$ref": _REFERENCE,
    "$dynamicRef": _REFERENCE,
    "$defs": _DEFINITIONS,
    "definitions": _DEFINITIONS,
    "$vocabulary": _refused("it belongs into a description of schemas, not into a schema"),
    "$recursiveRef": _refused("it is of an older draft; write $dynamicRef or $ref"),
    "$recursiveAnchor": _refused("it is of an older draft; write $dynamicAnchor"),
    "type": Keyword(expected=f"one of {', '.join(TYPES)}, or a list of them", accepts=_is_types),
    "enum": Keyword(expected="a list", accepts=lambda value: isinstance(value, list)),
    "const": Keyword(expected="any value", accepts=lambda _: True),
    "multipleOf": Keyword(
        expected="a number above 0",
        accepts=lambda value: isinstance(value, int | Decimal) and _is_number(value) and value > 0,
    ),
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _NUMBER,
    "exclusiveMaximum": _NUMBER,
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "pattern": _TEXT,
    "format": _TEXT,
    "prefixItems": Keyword(
        expected="a list of at least one schema", accepts=_is_schemas, holds=Holds.LIST
    ),
    "items": _SCHEMA,
    "contains": _SCHEMA,
    "minContains": _COUNT,
    "maxContains": _COUNT,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "uniqueItems": Keyword(expected="true or false", accepts=lambda value: isinstance(value, bool)),
    "unevaluatedItems": _SCHEMA,
    "additionalItems": _refused("it is of an older draft; write prefixItems and items"),
    "properties": _MAP,
    "patternProperties": _MAP,
    "additionalProperties": _SCHEMA,
    "propertyNames": _SCHEMA,
    "unevaluatedProperties": _SCHEMA,
    "required": Keyword(expected="a list of texts", accepts=_is_texts),
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "dependentRequired": Keyword(
        expected="an object of lists of texts",
        accepts=lambda value: isinstance(value, dict) and all(map(_is_texts, value.values())),
    ),
    "dependentSchemas": Keyword(
        expected="an object of schemas", accepts=_is_schema_map, holds=Holds.MAP, in_place=True
    ),
    "dependencies": _refused("it is of an older draft; write dependentRequired/dependentSchemas"),
    "allOf": _ALTERNATIVES,
    "anyOf": _ALTERNATIVES,
    "oneOf": _ALTERNATIVES,
    "not": _IN_PLACE,
    "if": _IN_PLACE,
    "then": _IN_PLACE,
    "else": _IN_PLACE,
    **dict.fromkeys(
        (
            *("$comment", "title", "description", "default", "examples", "example"),
            *("deprecated", "readOnly", "writeOnly", "discriminator"),
            *("contentEncoding", "contentMediaType", "contentSchema"),
        ),
        _ANNOTATION,
    ),
}
"""Every keyword that is known; ``discriminator`` and ``example`` are of OpenAPI, and only hints."""


def subschemas(value: Json, tokens: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield the schemas directly inside a schema, with their pointers.

    Args:
        value: A schema.
        tokens: The pointer to it.

    Raises:
        MalformedSchemaError: If a keyword of this schema has a value that it does not take.
    """
    if not isinstance(value, dict):
        return
    for name, content in value.items():
        keyword = KEYWORDS.get(name)
        if keyword is None:
            continue
        if not keyword.accepts(content):
            where = shown(pointer_text((*tokens, name)))
            raise MalformedSchemaError(where, name, told(content), keyword.expected)
        for inner in held(keyword, name, content):
            yield (*tokens, *inner), _at(value, inner)


def unknown_keyword_hint(name: str) -> str:
    """Return what to write instead of a keyword that nobody knows."""
    if name == "nullable":
        return 'the draft has no such keyword; write type: ["...", "null"], or anyOf with null'
    nearest = get_close_matches(name, KEYWORDS, n=1)
    advice = f"did you mean {nearest[0]}?" if nearest else "correct it"
    return f"no such keyword is known; {advice}, or begin it with x- if it is a note"


def held(keyword: Keyword, name: str, content: Json) -> Iterator[tuple[str, ...]]:
    """Yield the pointers, from the schema, of the subschemas that one of its keywords holds."""
    if keyword.holds is Holds.ONE:
        yield (name,)
    elif keyword.holds is Holds.LIST and isinstance(content, list):
        yield from ((name, str(index)) for index in range(len(content)))
    elif keyword.holds is Holds.MAP and isinstance(content, dict):
        yield from ((name, key) for key in content)


def _at(value: Json, tokens: tuple[str, ...]) -> Json:
    for token in tokens:
        value = value[int(token)] if isinstance(value, list) else _member(value, token)
    return value


def _member(value: Json, token: str) -> Json:
    assert isinstance(value, dict)
    return value[token]
