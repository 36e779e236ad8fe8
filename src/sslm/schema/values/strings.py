"""Languages of the contents of JSON strings, in the canonical spelling.

All of them are without the quotes around, which :func:`quoted` adds. A character is spelled as
its UTF-8 bytes, except where JSON demands an escape: the short one if there is one, else that of
four digits, in lower case. So each text has one spelling, and intersections and differences of
languages are those of the texts.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final

from sslm.errors.schema import SchemaTextError
from sslm.schema.regular.language import Bytes, Language, OneOf, Repeat, Sequence, Whole, either
from sslm.schema.values.code_points import EVERY_CODE_POINT, CodePoints

QUOTE: Final = b'"'

_SHORT_ESCAPES: Final = {
    8: b"\\b",
    9: b"\\t",
    10: b"\\n",
    12: b"\\f",
    13: b"\\r",
    34: b'\\"',
    92: b"\\\\",
}
_ESCAPED: Final = (*range(0x20), 34, 92)
_ENDS_OF_SIZES: Final = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)
"""Largest code point of one, two, three and four bytes."""


def spelled(text: str) -> bytes:
    """Return the canonical spelling of a text, without quotes.

    Raises:
        SchemaTextError: If the text holds a lone surrogate.
    """
    for index, character in enumerate(text):
        if "\ud800" <= character <= "\udfff":
            raise SchemaTextError(ord(character), index)
    return text.translate(_ESCAPES).encode()


def quoted(content: Language) -> Language:
    """Return the JSON strings with contents of a language."""
    return Sequence((Bytes(QUOTE), content, Bytes(QUOTE)))


def text(value: str) -> Language:
    """Return the language of one text; raises SchemaTextError."""
    return Bytes(spelled(value))


def character_of(allowed: CodePoints) -> Language:
    """Return all texts of one character of a set."""
    parts: list[Language] = []
    plain: list[tuple[int, int]] = []
    for low, high in allowed:
        for code_point in _ESCAPED:
            if low <= code_point <= high:
                parts.append(Bytes(_spelled_code_point(code_point)))
        plain += _without_escaped(low, high)
    ascii_ranges = tuple((low, min(high, 0x7F)) for low, high in plain if low <= 0x7F)
    if ascii_ranges:
        parts.append(OneOf(ascii_ranges))
    for low, high in plain:
        if high > 0x7F:
            parts += [_bytes_of(ranges) for ranges in _utf8(max(low, 0x80), high)]
    found = either(parts)
    return Whole(found) if len(parts) > 1 else found


@cache
def any_character() -> Language:
    """Return all texts of one character."""
    return character_of(EVERY_CODE_POINT)


@cache
def any_text() -> Language:
    """Return all texts."""
    return Repeat(any_character(), 0, None)


def text_of_length(least: int, most: int | None) -> Language:
    """Return all texts of *least* to *most* characters (code points); None means no bound."""
    return Repeat(any_character(), least, most)


def _spelled_code_point(code_point: int) -> bytes:
    if code_point in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[code_point]
    if code_point < 0x20:
        return b"\\u%04x" % code_point
    return chr(code_point).encode()


_ESCAPES: Final = {one: _spelled_code_point(one).decode() for one in _ESCAPED}


def _without_escaped(low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range whose characters are spelled as they are."""
    for first, last in ((0x20, 33), (35, 91), (93, EVERY_CODE_POINT[-1][1])):
        if max(low, first) <= min(high, last):
            yield max(low, first), min(high, last)


def _bytes_of(ranges: list[tuple[int, int]]) -> Language:
    return Sequence(tuple(OneOf((one,)) for one in ranges))


def _utf8(low: int, high: int) -> Iterator[list[tuple[int, int]]]:
    """Yield lists of byte ranges that together are the UTF-8 of a range without surrogates."""
    for size, end in enumerate(_ENDS_OF_SIZES, 1):
        if low <= end:
            yield from _utf8_of_size(low, min(high, end), size)
            low = end + 1
        if low > high:
            return


def _utf8_of_size(low: int, high: int, size: int) -> Iterator[list[tuple[int, int]]]:
    """Yield such lists for a range whose code points all take *size* bytes.

    A list is right where the first and last code point differ in a leading byte only if all that
    follow it go through all their values; so the two ends are split off until that is so.
    """
    for free in range(1, size):
        block = (1 << 6 * free) - 1
        if low & ~block == high & ~block:
            continue
        if low & block:
            yield from _utf8_of_size(low, low | block, size)
            yield from _utf8_of_size((low | block) + 1, high, size)
            return
        if high & block != block:
            yield from _utf8_of_size(low, (high & ~block) - 1, size)
            yield from _utf8_of_size(high & ~block, high, size)
            return
    yield list(zip(_encoded(low), _encoded(high), strict=True))


def _encoded(code_point: int) -> bytes:
    return chr(code_point).encode()
