"""Schema documents are hostile: each fault has its name, and numbers stay exact."""

from decimal import Decimal
from typing import Any

import pytest

from sslm.errors.schema_documents import (
    SchemaDuplicateKeyError,
    SchemaSizeError,
    SchemaSyntaxError,
)
from sslm.limits import SCHEMA_NESTING_MAX, SCHEMA_SIZE_BYTES_MAX, SCHEMA_VALUE_COUNT_MAX
from sslm.schema.documents.canonical import canonical_json
from sslm.schema.documents.document import exact_number, number_text, pointer_text, read_document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("-0.0", 0),
        ("0e999999", 0),
        ("1.0", 1),
        ("1e3", 1000),
        ("12.50", Decimal("12.5")),
        ("-1.5e-3", Decimal("-0.0015")),
        ("0.1", Decimal("0.1")),
        ("9007199254740993", 9007199254740993),
        ("1e308", 10**308),
    ],
)
def test_a_number_has_one_value_and_one_spelling(text: str, value: int | Decimal) -> None:
    found = exact_number(text)
    assert found == value
    assert type(found) is type(value)
    assert exact_number(number_text(value)) == value
    assert read_document(f"[{text}]") == [value]


@pytest.mark.parametrize(
    "text", ["1e400", "1e-401", "9" * 401, "1e99999999999999999999", "1.5e-400"]
)
def test_a_number_of_too_many_digits_is_refused(text: str) -> None:
    assert exact_number(text) is None
    with pytest.raises(SchemaSizeError):
        read_document(text)


@pytest.mark.parametrize(
    "digits", ["9" * 400, "0." + "0" * 398 + "15", "9" * 200 + "." + "9" * 200]
)
def test_neither_sign_nor_point_is_a_digit(digits: str) -> None:
    for text in (digits, "-" + digits):
        assert exact_number(text) == Decimal(text)
        assert read_document(text) == Decimal(text)


def test_values_are_copied_with_exact_numbers() -> None:
    source = {"a": (1, 1.5, 2.0, 0.1), "b": [None, True, "x"]}
    assert read_document(source) == {
        "a": [1, Decimal("1.5"), 2, Decimal("0.1")],
        "b": [None, True, "x"],
    }
    assert read_document(b'{"a": [true, 1]}') == {"a": [True, 1]}


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_stops_at_its_bound() -> None:
    assert read_document(_nested(SCHEMA_NESTING_MAX)) == _nested(SCHEMA_NESTING_MAX)
    for source in (
        _nested(SCHEMA_NESTING_MAX + 1),
        "[" * (SCHEMA_NESTING_MAX + 1) + "]" * (SCHEMA_NESTING_MAX + 1),
        "[" * 200_000,
    ):
        with pytest.raises(SchemaSizeError, match="levels of nesting"):
            read_document(source)


def test_size_and_count_stop_at_their_bounds() -> None:
    items = [1] * (SCHEMA_VALUE_COUNT_MAX - 1)
    assert read_document(items) == items
    with pytest.raises(SchemaSizeError, match="values"):
        read_document([*items, 1])
    for source in (
        b" " * (SCHEMA_SIZE_BYTES_MAX + 1),
        " " * (SCHEMA_SIZE_BYTES_MAX + 1),
        ["x" * (SCHEMA_SIZE_BYTES_MAX + 1)],
        [1 << 4000],
    ):
        with pytest.raises(SchemaSizeError):
            read_document(source)


def test_a_mark_of_the_byte_order_is_no_part_of_the_text() -> None:
    assert read_document(b"\xef\xbb\xbf[1]") == [1]
    assert read_document("\ufeff[1]") == [1]


def test_a_value_inside_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(SchemaSizeError, match="levels of nesting"):
        read_document(loop)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "{",
        "[1,]",
        "NaN",
        "[Infinity]",
        '{"a": 01}',
        b"\xff",
        b"\xef\xbb\xbf\xef\xbb\xbf{}",
        "\ufeff",
        '"\\ud800"',
        ["\ud800"],
        {"\ud800": 1},
        {1: 2},
        [float("nan")],
        [float("-inf")],
        [b"bytes"],
        object(),
    ],
)
def test_what_is_no_json_is_refused(source: object) -> None:
    with pytest.raises(SchemaSyntaxError):
        read_document(source)


def test_a_key_stands_once() -> None:
    with pytest.raises(SchemaDuplicateKeyError, match="'b'"):
        read_document('{"x": {"a": 1, "b": 2, "b": 3}}')


def test_a_value_has_one_spelling() -> None:
    value = read_document('{"b" : [1.0, 2.50, -0, null, true], "a": "\\u00e9\\n\\u0001\\/\x7f"}')
    text = '{"b":[1,2.5,0,null,true],"a":"é\\n\\u0001/\x7f"}'
    assert canonical_json(value) == text.encode()


def test_a_pointer_escapes_its_tokens() -> None:
    assert pointer_text(("a/b", "m~n", 0, "")) == "/a~1b/m~0n/0/"
