"""Runs of whole numbers that are mostly small: base 128, lowest digit first."""

from collections.abc import Iterable, Iterator
from typing import Final

from sslm.errors.schema_files import SchemaNumbersError
from sslm.formats.bounded_reader import U32_MAX

_SMALL: Final = frozenset(range(128))
_TOO_MANY_BITS: Final = 35


def encode_numbers(numbers: Iterable[int]) -> bytes:
    """Return the one spelling of numbers from 0 to 2**32 - 1, one after the other.

    Each byte has seven bits of its number, and its highest one unless it is the last.
    """
    found = bytearray()
    for number in numbers:
        rest = number
        while rest > 127:
            found.append(rest & 127 | 128)
            rest >>= 7
        found.append(rest)
    return bytes(found)


def read_numbers(part: str, data: memoryview) -> list[int]:
    """Return all numbers that bytes spell.

    Args:
        part: What they are, for errors.
        data: Bytes whose size the caller has bounded; a number takes at most 40 bytes of memory.

    Raises:
        SchemaNumbersError: If one is too large, is spelled longer than it need be, or is cut.
    """
    if _SMALL.issuperset(data):
        return list(data)
    found: list[int] = []
    number = shift = 0
    for index, byte in enumerate(data):
        number |= (byte & 127) << shift
        if byte > 127:
            shift += 7
            if shift >= _TOO_MANY_BITS:
                raise SchemaNumbersError(part, index, "a number is above 2**32 - 1")
            continue
        if number > U32_MAX:
            raise SchemaNumbersError(part, index, "a number is above 2**32 - 1")
        if shift and not byte:
            raise SchemaNumbersError(part, index, "a number is spelled longer than it need be")
        found.append(number)
        number = shift = 0
    if shift:
        raise SchemaNumbersError(part, len(data), "the last number is cut")
    return found


class NumberSource:
    """Numbers of one part, taken one by one and never beyond their end.

    Args:
        part: What they are, for errors.
        data: What spells them.

    Raises:
        SchemaNumbersError: As :func:`read_numbers`.
    """

    def __init__(self, part: str, data: memoryview) -> None:
        self._part = part
        self._numbers = read_numbers(part, data)
        self._supply: Iterator[int] = iter(self._numbers)

    def take(self, name: str, at_most: int) -> int:
        """Return the next number, which may be at most *at_most*.

        Raises:
            SchemaNumbersError: If it is above that, or there is none.
        """
        number = next(self._supply, None)
        if number is None:
            raise SchemaNumbersError(self._part, len(self._numbers), f"{name} is missing")
        if number > at_most:
            left = sum(1 for _ in self._supply)
            index = len(self._numbers) - left - 1
            raise SchemaNumbersError(
                self._part, index, f"{name} is {number}, at most {at_most} is possible"
            )
        return number

    def require_end(self) -> None:
        """Raise SchemaNumbersError if there are more numbers."""
        left = sum(1 for _ in self._supply)
        if left:
            index = len(self._numbers) - left
            raise SchemaNumbersError(self._part, index, f"{left} numbers more than are used")
