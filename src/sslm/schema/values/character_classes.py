"""The sets of characters that regular expressions have names for (ECMA-262, flag ``u``)."""

from typing import Final

from sslm.schema.values.code_points import CodePoints, all_but, code_points, of_characters

DIGITS: Final[CodePoints] = ((0x30, 0x39),)
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

CONTROLS: Final = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
"""Code points of control characters, by the letters that escape them."""
