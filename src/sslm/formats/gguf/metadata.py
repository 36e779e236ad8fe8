"""The metadata of a GGUF file: typed values by key."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from sslm.errors.gguf import GgufError
from sslm.errors.status import Status
from sslm.formats.gguf.types import NUMBER_CODES, ValueType

_D = TypeVar("_D")


@dataclass(frozen=True, slots=True)
class MetadataArray:
    """An array value as it lies in the file; numbers become Python objects only when asked for."""

    item_type: ValueType
    """Any but ``ARRAY``."""
    count: int
    """Number of items."""
    content: bytes | tuple[str, ...]
    """Texts if the items are strings, else their little-endian bytes."""

    def items(self) -> tuple[str, ...] | tuple[int | float | bool, ...]:
        """Return the items as Python objects."""
        if isinstance(self.content, tuple):
            return self.content
        if self.item_type is ValueType.BOOL:
            return tuple(map(bool, self.content))
        return struct.unpack(f"<{self.count}{NUMBER_CODES[self.item_type]}", self.content)


Scalar = int | float | bool | str


@dataclass(frozen=True, slots=True)
class MetadataValue:
    """A value with the type that the file gives it."""

    value_type: ValueType
    value: Scalar | MetadataArray

    def __str__(self) -> str:
        """Describe the type, with the length of an array."""
        if isinstance(self.value, MetadataArray):
            return f"an array of {self.value.count} {self.value.item_type.name.lower()}"
        return f"one {self.value_type.name.lower()}"


class GgufMetadata:
    """Values by key, read through accessors that state the type and the limits.

    An accessor raises GgufError if the key is not there (GGUF_MISSING_KEY), if the value is of
    another type (GGUF_WRONG_VALUE_TYPE; there are no conversions) or if it is outside the limits
    (GGUF_VALUE_OUT_OF_RANGE). Its ``_or`` variant returns *default* for a missing key, and is as
    strict about one that is there.

    Args:
        values: In the order of the file.
    """

    def __init__(self, values: Mapping[str, MetadataValue]) -> None:
        self._values = values

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, key: str) -> MetadataValue:
        """Return the value with its type, for display; a decision goes through an accessor."""
        try:
            return self._values[key]
        except KeyError:
            raise GgufError(Status.GGUF_MISSING_KEY, key=key, expected="a value") from None

    # Single values.

    def u16_or(self, key: str, default: _D, *, at_most: int, at_least: int = 0) -> int | _D:
        """Return a ``uint16`` value from *at_least* to *at_most*, or *default* if it is missing."""
        if key not in self:
            return default
        value = self._scalar(key, ValueType.UINT16)
        assert isinstance(value, int)
        _require_range(key, "the value", value, at_least, at_most)
        return value

    def u32(self, key: str, *, at_most: int, at_least: int = 0) -> int:
        """Return a ``uint32`` value from *at_least* to *at_most*."""
        value = self._scalar(key, ValueType.UINT32)
        assert isinstance(value, int)
        _require_range(key, "the value", value, at_least, at_most)
        return value

    def u32_or(self, key: str, default: _D, *, at_most: int, at_least: int = 0) -> int | _D:
        """Return :meth:`u32` of *key*, or *default* if the key is missing."""
        return self.u32(key, at_least=at_least, at_most=at_most) if key in self else default

    def f32(self, key: str, *, at_least: float, at_most: float) -> float:
        """Return a ``float32`` value from *at_least* to *at_most*, so never NaN."""
        value = self._scalar(key, ValueType.FLOAT32)
        assert isinstance(value, float)
        _require_range(key, "the value", value, at_least, at_most)
        return value

    def f32_or(self, key: str, default: _D, *, at_least: float, at_most: float) -> float | _D:
        """Return :meth:`f32` of *key*, or *default* if the key is missing."""
        return self.f32(key, at_least=at_least, at_most=at_most) if key in self else default

    def boolean(self, key: str) -> bool:
        """Return a truth value."""
        return self._scalar(key, ValueType.BOOL) is True

    def boolean_or(self, key: str, default: _D) -> bool | _D:
        """Return :meth:`boolean` of *key*, or *default* if the key is missing."""
        return self.boolean(key) if key in self else default

    def string(self, key: str, *, at_most: int, at_least: int = 0) -> str:
        """Return a text of *at_least* to *at_most* UTF-8 bytes."""
        value = self._scalar(key, ValueType.STRING)
        assert isinstance(value, str)
        _require_range(key, "the size in bytes", len(value.encode()), at_least, at_most)
        return value

    def string_or(self, key: str, default: _D, *, at_most: int, at_least: int = 0) -> str | _D:
        """Return :meth:`string` of *key*, or *default* if the key is missing."""
        return self.string(key, at_least=at_least, at_most=at_most) if key in self else default

    # Arrays. The limits are for the number of items.

    def strings(self, key: str, *, at_most: int, at_least: int = 0) -> tuple[str, ...]:
        """Return the texts of an array of *at_least* to *at_most* of them."""
        content = self._array(key, ValueType.STRING, at_least=at_least, at_most=at_most).content
        assert isinstance(content, tuple)
        return content

    def strings_or(
        self, key: str, default: _D, *, at_most: int, at_least: int = 0
    ) -> tuple[str, ...] | _D:
        """Return :meth:`strings` of *key*, or *default* if the key is missing."""
        return self.strings(key, at_least=at_least, at_most=at_most) if key in self else default

    def i32_array(self, key: str, *, at_most: int, at_least: int = 0) -> tuple[int, ...]:
        """Return an array of *at_least* to *at_most* ``int32`` numbers."""
        array = self._array(key, ValueType.INT32, at_least=at_least, at_most=at_most)
        return tuple(item for item in array.items() if isinstance(item, int))

    def i32_array_or(
        self, key: str, default: _D, *, at_most: int, at_least: int = 0
    ) -> tuple[int, ...] | _D:
        """Return :meth:`i32_array` of *key*, or *default* if the key is missing."""
        return self.i32_array(key, at_least=at_least, at_most=at_most) if key in self else default

    def f32_array(self, key: str, *, at_most: int, at_least: int = 0) -> tuple[float, ...]:
        """Return an array of *at_least* to *at_most* ``float32`` numbers, all of them finite."""
        array = self._array(key, ValueType.FLOAT32, at_least=at_least, at_most=at_most)
        found = tuple(item for item in array.items() if isinstance(item, float))
        for index, item in enumerate(found):
            if not -_F32_MAX <= item <= _F32_MAX:
                what = f"item {index}"
                raise GgufError(
                    Status.GGUF_VALUE_OUT_OF_RANGE,
                    key=key,
                    what=what,
                    found=item,
                    at_least=-_F32_MAX,
                    at_most=_F32_MAX,
                )
        return found

    def f32_array_or(
        self, key: str, default: _D, *, at_most: int, at_least: int = 0
    ) -> tuple[float, ...] | _D:
        """Return :meth:`f32_array` of *key*, or *default* if the key is missing."""
        return self.f32_array(key, at_least=at_least, at_most=at_most) if key in self else default

    def _scalar(self, key: str, value_type: ValueType) -> Scalar:
        expected = f"one {value_type.name.lower()}"
        found = self._values.get(key)
        if found is None:
            raise GgufError(Status.GGUF_MISSING_KEY, key=key, expected=expected)
        if found.value_type is not value_type or isinstance(found.value, MetadataArray):
            raise GgufError(
                Status.GGUF_WRONG_VALUE_TYPE, key=key, found=str(found), expected=expected
            )
        return found.value

    def _array(
        self, key: str, item_type: ValueType, *, at_least: int, at_most: int
    ) -> MetadataArray:
        expected = f"an array of {item_type.name.lower()}"
        found = self._values.get(key)
        if found is None:
            raise GgufError(Status.GGUF_MISSING_KEY, key=key, expected=expected)
        array = found.value
        if not isinstance(array, MetadataArray) or array.item_type is not item_type:
            raise GgufError(
                Status.GGUF_WRONG_VALUE_TYPE, key=key, found=str(found), expected=expected
            )
        _require_range(key, "the number of items", array.count, at_least, at_most)
        return array


_F32_MAX = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


def _require_range(
    key: str, what: str, found: int | float, at_least: int | float, at_most: int | float
) -> None:
    # Written so that a value that is not a number fails too.
    if not at_least <= found <= at_most:
        raise GgufError(
            Status.GGUF_VALUE_OUT_OF_RANGE,
            key=key,
            what=what,
            found=found,
            at_least=at_least,
            at_most=at_most,
        )
