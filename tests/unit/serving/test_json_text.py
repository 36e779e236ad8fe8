"""JSON of strangers: what is read, what is refused, and that both take little time."""

import json
from decimal import Decimal

import pytest

from sslm import limits
from sslm.errors.batches import BatchLineSyntaxError
from sslm.serving.json_text import read_json
from tests.call_count import calls_of


def refusal(data: bytes) -> str:
    with pytest.raises(BatchLineSyntaxError) as caught:
        read_json("line 7", data)
    assert caught.value.place == "line 7"
    return str(caught.value.reason)


def test_values_are_read_exactly() -> None:
    text = '{"a": [1, -2, 0.1, 1e-7, true, null, "\\u00e9\\ud83d\\ude00 \\" [{"], "": {}}'
    assert read_json("", text.encode()) == {
        "a": [1, -2, Decimal("0.1"), Decimal("1e-7"), True, None, 'é😀 " [{'],
        "": {},
    }
    assert read_json("", b" 5 ") == 5
    assert read_json("", b'"' + b"[" * 100_000 + b'"') == "[" * 100_000


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "Expecting value"),
        (b"\xef\xbb\xbf{}", "Expecting value"),
        (b"{'a': 1}", "Expecting property name"),
        (b'{"a": 1,}', "Expecting property name|Illegal trailing comma"),
        (b'{"a": 1} {}', "Extra data"),
        (b'"\xff"', "not UTF-8 from byte 1"),
        (b'"a\nb"', "Invalid control character"),
        (b'"abc', "Unterminated string starting at character 0"),
        (b'"abc\\', "Unterminated string"),
        (b"[NaN]", "NaN is no number"),
        (b"-Infinity", "-Infinity is no number"),
        (b"1e100", "out of all bounds"),
        (b"1e-999999999999", "out of all bounds"),
        (b"1" * 41, "41 characters"),
        (b"0." + b"1" * 40, "42 characters"),
        (b'{"a": 1, "b": 2, "a": 1}', "the key 'a' stands twice"),
        (b'["\\ud800"]', "half a character"),
        (b'{"\\uDC00a": 1}', "half a character"),
        (b"[" * 73 + b"]" * 73, "nests deeper than 72"),
        (b"[" * 1_000_000, "nests deeper than 72"),
        (b"[" + b"[]," * 40_000 + b"1]", "more than 32768 objects"),
        (b"]" * 100, "Expecting value"),
    ],
)
def test_what_is_refused(data: bytes, reason: str) -> None:
    import re

    assert re.search(reason, refusal(data))


@pytest.mark.parametrize(
    "data",
    [
        b'"' * (1 << 21),
        b'"' + b'\\"' * (1 << 20),
        b"\\" * (1 << 21),
        b'["' + b"\\u00e9" * (1 << 18) + b'"',
        b'{"a":' * (1 << 18),
        b"[" + b'"",' * (1 << 19),
        b"0" * (1 << 21),
    ],
)
def test_no_text_takes_much_work(data: bytes) -> None:
    """Some calls for all of it; of what is quadratic in C, no test would see the end."""
    assert calls_of(lambda: refusal(data)) < 100


def test_the_deepest_and_longest_that_is_allowed() -> None:
    deep = b"[" * limits.BATCH_LINE_NESTING_MAX + b"]" * limits.BATCH_LINE_NESTING_MAX
    assert json.loads(deep) == read_json("", deep)
    many = b"[" + b"{}," * (limits.BATCH_LINE_CONTAINER_COUNT_MAX - 1) + b"1]"
    assert len(read_json("", many)) == limits.BATCH_LINE_CONTAINER_COUNT_MAX  # type: ignore[arg-type]
