"""Sets of Unicode code points, as ascending ranges that neither touch nor hold surrogates."""

from collections.abc import Iterable
from typing import Final

CodePoints = tuple[tuple[int, int], ...]

CODE_POINT_MAX: Final = 0x10FFFF
SURROGATES: Final = (0xD800, 0xDFFF)

EVERY_CODE_POINT: Final[CodePoints] = ((0, 0xD7FF), (0xE000, CODE_POINT_MAX))
DIGITS: Final[CodePoints] = ((0x30, 0x39),)
CONTROLS: Final = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
"""Code points of control characters, by the letters that escape them."""


def code_points(ranges: Iterable[tuple[int, int]]) -> CodePoints:
    """Return the set of all code points in *ranges*, in any order, that are no surrogates."""
    parts = []
    for low, high in ranges:
        parts.append((low, min(high, SURROGATES[0] - 1)))
        parts.append((max(low, SURROGATES[1] + 1), high))
    found: list[tuple[int, int]] = []
    for low, high in sorted(part for part in parts if part[0] <= part[1]):
        # The ranges on both sides of the surrogates stay apart, as these lie between them.
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def all_but(excluded: CodePoints) -> CodePoints:
    """Return the code points that are not in a set."""
    found = []
    start = 0
    for low, high in excluded:
        found.append((start, low - 1))
        start = high + 1
    return code_points([*found, (start, CODE_POINT_MAX)])


def of_characters(characters: str) -> CodePoints:
    """Return the set of the code points of *characters*."""
    return code_points((ord(one), ord(one)) for one in characters)


WORD: Final = code_points(((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)))
LINE_ENDS: Final = of_characters("\n\r\u2028\u2029")
SPACE: Final = code_points(
    (
        (0x09, 0x0D),
        (0x20, 0x20),
        (0xA0, 0xA0),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x2028, 0x2029),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
        (0xFEFF, 0xFEFF),
    )
)

ANY_IN_LINE: Final = all_but(LINE_ENDS)
"""What a dot stands for."""

BY_LETTER: Final[dict[str, CodePoints]] = {
    "d": DIGITS,
    "D": all_but(DIGITS),
    "w": WORD,
    "W": all_but(WORD),
    "s": SPACE,
    "S": all_but(SPACE),
}
"""What ``\\d`` and its like stand for, by their letters."""
