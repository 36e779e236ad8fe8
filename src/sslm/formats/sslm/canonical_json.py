"""Canonical JSON: one spelling per value, whole numbers only; see docs/format.md, 4."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, TypeVar

from sslm.errors.canonical_json import CanonicalJsonError
from sslm.errors.reading import FieldError
from sslm.errors.showing import json_problem
from sslm.errors.status import Status
from sslm.json_nesting import nesting_of
from sslm.limits import SSLM_JSON_DIGITS_MAX, SSLM_JSON_NESTING_MAX

JsonValue = None | bool | int | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
Item = TypeVar("Item")

_SHOWN_CHARS: Final = 80
"""Of a key in a message, which may be as long as its section."""

_TYPE_NAMES: Final = {
    bool: "a boolean",
    int: "an integer",
    str: "a text",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def encode_json(value: JsonValue) -> bytes:
    """Return the one spelling of *value*: sorted keys, no spaces, UTF-8, shortest escapes."""
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    return text.encode("utf-8")


def decode_json(data: memoryview, section: str) -> JsonValue:
    """Parse bytes that must be the canonical spelling of some value.

    Args:
        data: Bytes whose size the caller has bounded.
        section: What they are, for errors.

    Raises:
        FieldError: If they are not UTF-8.
        CanonicalJsonError: If they are not JSON, nest too deep, hold a number that is not a whole
            one of at most ``SSLM_JSON_DIGITS_MAX`` digits, are another spelling, or have a key
            twice in an object.
    """

    def whole(digits: str) -> int:
        if len(digits) > SSLM_JSON_DIGITS_MAX:
            raise CanonicalJsonError(
                Status.JSON_SYNTAX, section=section, reason=f"a number has {len(digits)} digits"
            )
        return int(digits)

    def refuse(digits: str) -> NoReturn:
        raise CanonicalJsonError(
            Status.JSON_SYNTAX, section=section, reason=f"{digits[:40]} is not a whole number"
        )

    raw = bytes(data)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FieldError(
            Status.BAD_UTF8, field=section, offset_bytes=error.start, reason=error.reason
        ) from error
    if nesting_of(raw).depth > SSLM_JSON_NESTING_MAX:
        raise CanonicalJsonError(Status.JSON_SYNTAX, section=section, reason="it nests too deep")
    try:
        value: JsonValue = json.loads(
            text, parse_int=whole, parse_float=refuse, parse_constant=refuse
        )
    except json.JSONDecodeError as error:
        raise CanonicalJsonError(
            Status.JSON_SYNTAX, section=section, reason=json_problem(error)
        ) from error
    _require_canonical(raw, value, section)
    return value


class JsonFields:
    """The fields of one object, each taken once, by name and type.

    Args:
        place: Where the object is, for errors.
        value: What stands there.

    Raises:
        CanonicalJsonError: If *value* is not an object.
    """

    def __init__(self, place: str, value: JsonValue) -> None:
        if not isinstance(value, dict):
            raise _type_error(place, value, "an object")
        self.place = place
        self._left: dict[str, JsonValue] = dict(value)

    def has(self, key: str) -> bool:
        """Tell whether a field is there that was not taken yet."""
        return key in self._left

    def take(self, key: str) -> JsonValue:
        """Take any value; raise CanonicalJsonError if it is not there."""
        if key not in self._left:
            raise CanonicalJsonError(Status.JSON_MISSING_KEY, place=self.place, key=key)
        return self._left.pop(key)

    def integer(self, key: str, *, at_least: int, at_most: int) -> int:
        """Take a whole number from *at_least* to *at_most*."""
        return integer(f"{self.place}.{key}", self.take(key), at_least=at_least, at_most=at_most)

    def integer_or_none(self, key: str, *, at_least: int, at_most: int) -> int | None:
        """Take a whole number from *at_least* to *at_most*, or null."""
        value, place = self.take(key), f"{self.place}.{key}"
        return None if value is None else integer(place, value, at_least=at_least, at_most=at_most)

    def boolean(self, key: str) -> bool:
        """Take ``true`` or ``false``."""
        value = self.take(key)
        if not isinstance(value, bool):
            raise _type_error(f"{self.place}.{key}", value, "a boolean")
        return value

    def text(self, key: str, *, at_most: int) -> str:
        """Take a text of at most *at_most* characters."""
        return text(f"{self.place}.{key}", self.take(key), at_most=at_most)

    def text_or_none(self, key: str, *, at_most: int) -> str | None:
        """Take a text of at most *at_most* characters, or null."""
        value = self.take(key)
        return None if value is None else text(f"{self.place}.{key}", value, at_most=at_most)

    def hexadecimal(self, key: str, *, size_bytes: int) -> bytes:
        """Take so many bytes, written as lower-case hexadecimal digits."""
        return hexadecimal(f"{self.place}.{key}", self.take(key), size_bytes=size_bytes)

    def items(
        self, key: str, read: Callable[[str, JsonValue], Item], *, at_most: int, at_least: int = 0
    ) -> tuple[Item, ...]:
        """Take a list of bounded length, each item through *read*(place, value)."""
        place, value = f"{self.place}.{key}", self.take(key)
        if not isinstance(value, list):
            raise _type_error(place, value, "a list")
        if not at_least <= len(value) <= at_most:
            raise CanonicalJsonError(
                Status.JSON_RANGE,
                place=f"the length of {place}",
                found=len(value),
                at_least=at_least,
                at_most=at_most,
            )
        return tuple(read(f"{place}[{index}]", item) for index, item in enumerate(value))

    def texts(self, key: str, *, count_at_most: int, at_most: int) -> Mapping[str, str]:
        """Take an object of free keys whose values are texts; keys and texts are bounded alike."""
        place = f"{self.place}.{key}"
        fields = JsonFields(place, self.take(key))
        if len(fields._left) > count_at_most:
            raise CanonicalJsonError(
                Status.JSON_RANGE,
                place=f"the length of {place}",
                found=len(fields._left),
                at_least=0,
                at_most=count_at_most,
            )
        return {
            text(f"a key of {place}", name, at_most=at_most): text(
                f"{place}.{name}", value, at_most=at_most
            )
            for name, value in fields._left.items()
        }

    def finish(self) -> None:
        """Raise CanonicalJsonError if a field was not taken."""
        for key in self._left:
            raise CanonicalJsonError(
                Status.JSON_UNKNOWN_KEY, place=self.place, key=key[:_SHOWN_CHARS]
            )


def integer(place: str, value: JsonValue, *, at_least: int, at_most: int) -> int:
    """Return *value* if it is a whole number within its bounds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _type_error(place, value, "an integer")
    if not at_least <= value <= at_most:
        raise CanonicalJsonError(
            Status.JSON_RANGE, place=place, found=value, at_least=at_least, at_most=at_most
        )
    return value


def text(place: str, value: JsonValue, *, at_most: int) -> str:
    """Return *value* if it is a text of at most *at_most* characters."""
    if not isinstance(value, str):
        raise _type_error(place, value, "a text")
    if len(value) > at_most:
        raise CanonicalJsonError(
            Status.JSON_RANGE,
            place=f"the length of {place}",
            found=len(value),
            at_least=0,
            at_most=at_most,
        )
    return value


def hexadecimal(place: str, value: JsonValue, *, size_bytes: int) -> bytes:
    """Return the bytes that *value* spells in lower-case hexadecimal digits."""
    digits = text(place, value, at_most=2 * size_bytes)
    if len(digits) != 2 * size_bytes or not set(digits) <= set("0123456789abcdef"):
        raise CanonicalJsonError(
            Status.JSON_TEXT,
            place=place,
            found=digits,
            expected=f"{2 * size_bytes} lower-case hexadecimal digits",
        )
    return bytes.fromhex(digits)


def _type_error(place: str, value: JsonValue, expected: str) -> CanonicalJsonError:
    return CanonicalJsonError(
        Status.JSON_TYPE, place=place, found=_TYPE_NAMES[type(value)], expected=expected
    )


def _require_canonical(raw: bytes, value: JsonValue, section: str) -> None:
    try:
        canonical = encode_json(value)
    except UnicodeEncodeError as error:
        # A lone surrogate can be escaped in JSON, but has no UTF-8.
        raise CanonicalJsonError(
            Status.JSON_SYNTAX, section=section, reason="an escape stands for half a character"
        ) from error
    if canonical != raw:
        pairs = enumerate(zip(canonical, raw, strict=False))
        same = min(len(canonical), len(raw))
        raise CanonicalJsonError(
            Status.JSON_NOT_CANONICAL,
            section=section,
            offset_bytes=next((at for at, (a, b) in pairs if a != b), same),
        )
