"""Sets of characters by their category, against the standard library's table."""

import unicodedata

import pytest

from sslm.schema.values.code_points import CodePoints
from sslm.schema.values.unicode_categories import UNICODE_VERSION
from sslm.schema.values.unicode_properties import property_set


def _members(name: str) -> set[int]:
    found: CodePoints | None = property_set(name)
    assert found is not None
    return {one for low, high in found for one in range(low, high + 1)}


def test_categories_are_those_of_unicode() -> None:
    """Every character that this Python's Unicode and the table's both know."""
    names = {"Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No", "Zs", "Po", "Sm", "Sc", "Mn", "Cc"}
    by_name: dict[str, set[int]] = {name: set() for name in names}
    for code_point in range(0x110000):
        category = unicodedata.ucd_3_2_0.category(chr(code_point))
        if category in names and unicodedata.category(chr(code_point)) == category:
            by_name[category].add(code_point)
    for name, expected in by_name.items():
        missing = expected - _members(name)
        # Between two versions a few characters change their category.
        assert len(missing) < (1 if unicodedata.unidata_version == UNICODE_VERSION else 9)
        assert expected


@pytest.mark.skipif(
    unicodedata.unidata_version != UNICODE_VERSION, reason="this Python has another Unicode"
)
def test_the_table_is_what_the_tool_writes() -> None:
    from tools.unicode_categories import TARGET, module_text

    assert TARGET.read_text(encoding="utf-8") == module_text()


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (("L", "Letter", "gc=L", "General_Category=Letter"), ("Lu", "Ll", "Lt", "Lm", "Lo")),
        (("LC", "Cased_Letter"), ("Lu", "Ll", "Lt")),
        (("N", "Number"), ("Nd", "Nl", "No")),
        (("Z", "Separator"), ("Zs", "Zl", "Zp")),
        (("P", "punct"), ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po")),
    ],
)
def test_names_mean_their_parts(names: tuple[str, ...], parts: tuple[str, ...]) -> None:
    expected = set().union(*map(_members, parts))
    assert all(_members(name) == expected for name in names)


def test_other_names_are_unknown() -> None:
    assert [property_set(name) for name in ("", "Greek", "sc=Greek", "l", "Lx", "letter")] == [
        None
    ] * 6
    assert property_set("Cs") == ()
    assert len(_members("Any")) == 0x110000 - 0x800
