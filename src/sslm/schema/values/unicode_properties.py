"""Sets of characters that Unicode has names for: its general categories."""

import re
from functools import cache
from typing import Final

from sslm.schema.values.code_points import EVERY_CODE_POINT, CodePoints, code_points

_RUN: Final = re.compile(r"([A-Z][a-z])([0-9]*)")

_LONG_NAMES: Final = {
    "Letter": "L",
    "Cased_Letter": "LC",
    "Uppercase_Letter": "Lu",
    "Lowercase_Letter": "Ll",
    "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm",
    "Other_Letter": "Lo",
    "Mark": "M",
    "Combining_Mark": "M",
    "Nonspacing_Mark": "Mn",
    "Spacing_Mark": "Mc",
    "Enclosing_Mark": "Me",
    "Number": "N",
    "Decimal_Number": "Nd",
    "digit": "Nd",
    "Letter_Number": "Nl",
    "Other_Number": "No",
    "Punctuation": "P",
    "punct": "P",
    "Connector_Punctuation": "Pc",
    "Dash_Punctuation": "Pd",
    "Open_Punctuation": "Ps",
    "Close_Punctuation": "Pe",
    "Initial_Punctuation": "Pi",
    "Final_Punctuation": "Pf",
    "Other_Punctuation": "Po",
    "Symbol": "S",
    "Math_Symbol": "Sm",
    "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk",
    "Other_Symbol": "So",
    "Separator": "Z",
    "Space_Separator": "Zs",
    "Line_Separator": "Zl",
    "Paragraph_Separator": "Zp",
    "Other": "C",
    "Control": "Cc",
    "cntrl": "Cc",
    "Format": "Cf",
    "Surrogate": "Cs",
    "Private_Use": "Co",
    "Unassigned": "Cn",
}
"""Short names of general categories by their long ones."""

_CASED: Final = ("Lu", "Ll", "Lt")


def property_set(name: str) -> CodePoints | None:
    """Return the characters with a property, or None if the name is not known.

    Args:
        name: As patterns have it: ``L``, ``Letter``, ``gc=Lu``, ``Any``, ``ASCII``.
    """
    if name == "Any":
        return EVERY_CODE_POINT
    if name == "ASCII":
        return ((0, 0x7F),)
    name = re.sub("^(General_Category|gc)=", "", name)
    short = _LONG_NAMES.get(name, name)
    wanted = _CASED if short == "LC" else (short,)
    ranges = [one for key in _categories() if key.startswith(wanted) for one in _categories()[key]]
    return code_points(ranges) if short in _LONG_NAMES.values() else None


@cache
def _categories() -> dict[str, list[tuple[int, int]]]:
    """Return the ranges of every category, by its short name."""
    from sslm.schema.values.unicode_categories import RUNS

    found: dict[str, list[tuple[int, int]]] = {}
    start = 0
    for category, count in _RUN.findall(RUNS.replace("\n", "")):
        end = start + int(count or 1)
        found.setdefault(category, []).append((start, end - 1))
        start = end
    return found
