"""Reading schema documents: hostile JSON becomes plain, bounded, exact values."""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Final, NoReturn

from sslm.errors.schema_documents import (
    SchemaDuplicateKeyError,
    SchemaSizeError,
    SchemaSyntaxError,
)
from sslm.errors.showing import json_problem
from sslm.json_nesting import nesting_of
from sslm.limits import (
    SCHEMA_NESTING_MAX,
    SCHEMA_NUMBER_DIGITS_MAX,
    SCHEMA_SIZE_BYTES_MAX,
    SCHEMA_VALUE_COUNT_MAX,
)

Number = int | Decimal
"""An integral number is an int; any other is a Decimal."""
Json = None | bool | int | Decimal | str | list["Json"] | dict[str, "Json"]
"""A JSON value whose numbers are exact; see :mod:`sslm.schema.documents.document`."""
_SHOWN_CHARS: Final = 80
"""Of a key or pointer in a message, which may be as long as its document."""


def exact_number(text: str) -> Number | None:
    """Return the value of a JSON number.

    Args:
        text: As JSON spells it, exponents included; the caller has checked that it is one.

    Returns:
        The value; None if its plain spelling has more than ``SCHEMA_NUMBER_DIGITS_MAX`` digits.
    """
    # Far more than the digits with sign, point and exponent: longer ones are not even read.
    if len(text) > 2 * SCHEMA_NUMBER_DIGITS_MAX:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    if not any(digits):
        return 0
    if max(len(digits), len(digits) + exponent, -exponent) > SCHEMA_NUMBER_DIGITS_MAX:
        return None
    plain = format(value, "f")
    whole, _, fraction = plain.partition(".")
    fraction = fraction.rstrip("0")
    return Decimal(f"{whole}.{fraction}") if fraction else int(whole)


def number_text(value: Number) -> str:
    """Return the one spelling: plain decimal notation without an exponent or needless digits."""
    return str(value) if isinstance(value, int) else format(value, "f")


def read_document(source: object) -> Json:
    """Return the value that a schema document holds.

    Args:
        source: JSON as bytes (UTF-8) or str; anything else is a value already parsed, made of
            None, bool, int, float, Decimal, str, lists, tuples and mappings. A float stands for
            the shortest decimal that reads back as it.

    Returns:
        A copy that shares nothing with *source*.

    Raises:
        SchemaSyntaxError: If it is not JSON.
        SchemaDuplicateKeyError: If an object of the text has a key twice.
        SchemaSizeError: If it is larger, nests deeper or holds more values than it may.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        source = _decoded(bytes(source))
    if isinstance(source, str):
        source = _parsed(source)
    return _Copy().value(source, (), SCHEMA_NESTING_MAX)


def pointer_text(tokens: Sequence[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) of a place in a document."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def shown(text: str) -> str:
    """Return a text from a document as messages show it: cut where it is long."""
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."


def told(value: Json) -> str:
    """Return what a value of a document is, as messages show it."""
    if isinstance(value, dict | list):
        kind = "an object" if isinstance(value, dict) else "a list"
        return kind if value else f"{kind} of nothing"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return shown(repr(value) if isinstance(value, str) else str(value))


def _decoded(raw: bytes) -> str:
    if len(raw) > SCHEMA_SIZE_BYTES_MAX:
        raise SchemaSizeError("bytes", SCHEMA_SIZE_BYTES_MAX, "")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SchemaSyntaxError(f"byte {error.start} is not UTF-8") from error


def _parsed(text: str) -> object:
    # Some editors write a mark of the byte order at the beginning; it is none of the text.
    text = text.removeprefix("\ufeff")
    if len(text) > SCHEMA_SIZE_BYTES_MAX:
        raise SchemaSizeError("bytes", SCHEMA_SIZE_BYTES_MAX, "")
    if nesting_of(text.encode("utf-8", "surrogatepass")).depth > SCHEMA_NESTING_MAX:
        raise SchemaSizeError("levels of nesting", SCHEMA_NESTING_MAX, "")
    try:
        parsed: object = json.loads(
            text,
            parse_int=_number,
            parse_float=_number,
            parse_constant=_refuse,
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError as error:
        raise SchemaSyntaxError(json_problem(error)) from error
    return parsed


def _number(text: str) -> int | Decimal:
    value = exact_number(text)
    if value is None:
        raise SchemaSizeError(f"digits in the number {shown(text)}", SCHEMA_NUMBER_DIGITS_MAX, "")
    return value


def _refuse(text: str) -> NoReturn:
    raise SchemaSyntaxError(f"{text} is not a number of JSON")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise SchemaDuplicateKeyError(shown(key))
            seen.add(key)
    return found


class _Copy:
    """Copies a value while counting what it holds."""

    def __init__(self) -> None:
        self._values_left = SCHEMA_VALUE_COUNT_MAX
        self._chars_left = SCHEMA_SIZE_BYTES_MAX

    def value(self, value: object, at: tuple[str | int, ...], levels_left: int) -> Json:
        self._values_left -= 1
        if self._values_left < 0:
            raise SchemaSizeError("values", SCHEMA_VALUE_COUNT_MAX, _shown_pointer(at))
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float | Decimal):
            return self._number(value, at)
        if isinstance(value, str):
            return self._text(value, at)
        if levels_left == 0:
            raise SchemaSizeError("levels of nesting", SCHEMA_NESTING_MAX, _shown_pointer(at))
        if isinstance(value, Mapping):
            return {
                self._key(key, at): self.value(item, (*at, str(key)), levels_left - 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [
                self.value(item, (*at, index), levels_left - 1) for index, item in enumerate(value)
            ]
        reason = f"{_shown_pointer(at)!r} is of the type {type(value).__name__}"
        raise SchemaSyntaxError(reason)

    def _number(self, value: int | float | Decimal, at: tuple[str | int, ...]) -> int | Decimal:
        # An int of that many bits is turned into digits in no time; a larger one might take long.
        if isinstance(value, int) and value.bit_length() > 4 * SCHEMA_NUMBER_DIGITS_MAX:
            raise SchemaSizeError(
                "digits in a number", SCHEMA_NUMBER_DIGITS_MAX, _shown_pointer(at)
            )
        if not isinstance(value, int) and not Decimal(value).is_finite():
            raise SchemaSyntaxError(f"{_shown_pointer(at)!r} is {value}")
        exact = exact_number(str(value))
        if exact is None:
            raise SchemaSizeError(
                "digits in a number", SCHEMA_NUMBER_DIGITS_MAX, _shown_pointer(at)
            )
        return exact

    def _key(self, key: object, at: tuple[str | int, ...]) -> str:
        if not isinstance(key, str):
            place = f"a key at {_shown_pointer(at)!r}" if at else "a key"
            raise SchemaSyntaxError(f"{place} is not a text, but of the type {type(key).__name__}")
        return self._text(key, at)

    def _text(self, value: str, at: tuple[str | int, ...]) -> str:
        self._chars_left -= len(value)
        if self._chars_left < 0:
            raise SchemaSizeError("bytes", SCHEMA_SIZE_BYTES_MAX, _shown_pointer(at))
        if any("\ud800" <= char <= "\udfff" for char in value):
            place = f" at {_shown_pointer(at)!r}" if at else ""
            raise SchemaSyntaxError(f"half a character (a lone surrogate){place}")
        return str(value)


def _shown_pointer(at: tuple[str | int, ...]) -> str:
    return shown(pointer_text(at))
