"""The page of calls and refusals is complete, and is what the tests say."""

from pathlib import Path

import pytest
from tools.c_interface_page import (
    ALL_CALLS,
    PAGE,
    ROOT,
    Mark,
    MarkError,
    missing,
    read_marks,
    render,
)
from tools.published_calls import CALLS, CAUSES, LATER

MARKS = read_marks(ROOT / "tests")


def test_the_page_is_up_to_date() -> None:
    """Write it with ``python -m tools.c_interface_page``."""
    assert PAGE.read_text(encoding="utf-8") == render(MARKS)


def test_every_call_and_refusal_has_a_test_or_a_reason() -> None:
    assert missing(MARKS) == []


def test_all_calls_and_causes_are_there() -> None:
    assert len(ALL_CALLS) == sum(len(calls) for calls in CALLS.values())
    assert {name for name in ALL_CALLS if not name.startswith("sslm_")} == {"schema compiler"}
    assert len(ALL_CALLS) - 1 == 38
    assert len(CAUSES) == len(set(CAUSES)) == 28
    causes = {cause for causes in ALL_CALLS.values() for cause in causes}
    # The one that no call returns is the GPU's.
    assert set(CAUSES) - causes == {"SSLM_GPU_SHADER_BINARY_STALE"}
    assert {cause for cause in causes if cause not in CAUSES} == {
        f"out_tokens -{number}" for number in (1, 2, 3)
    }
    pairs = {f"{call} {cause}" for call, causes in ALL_CALLS.items() for cause in causes}
    assert set(LATER) <= {*ALL_CALLS, *CAUSES, *causes, *pairs}


def test_each_cause_is_covered_or_comes_later() -> None:
    covered = {mark.refusal for mark in MARKS}
    assert {cause for cause in CAUSES if cause not in covered} == set(LATER) & set(CAUSES)


def marks_of(folder: Path, decorator: str) -> list[Mark]:
    tests = folder / "tests"
    tests.mkdir()
    source = f"import pytest\n\n\n{decorator}\ndef test_it() -> None:\n    pass\n"
    (tests / "test_some.py").write_text(source, encoding="utf-8")
    return read_marks(tests)


def test_marks_are_read(tmp_path: Path) -> None:
    decorator = (
        '@pytest.mark.published_call("sslm_stats", here="f: g")\n'
        '@pytest.mark.parametrize("a", [1])\n'
        '@pytest.mark.published_call("sslm_kv_pool_destroy", case="c",\n'
        '    refusal="SSLM_POOL_HAS_LIVE_HANDLES", here="E")'
    )
    test = "tests/test_some.py::test_it"
    cause = "SSLM_POOL_HAS_LIVE_HANDLES"
    marks = marks_of(tmp_path, decorator)
    assert marks == [
        Mark(call="sslm_stats", refusal="", case="", here="f: g", test=test),
        Mark(call="sslm_kv_pool_destroy", refusal=cause, case="c", here="E", test=test),
    ]
    page = render(marks)
    assert "| `sslm_stats` | `f`: g | [test_it](../tests/test_some.py) |" in page
    assert f"| `sslm_kv_pool_destroy`: `{cause}`, c | `E` | [test_it]" in page
    assert f"| `{cause}` | `E` |" in page
    assert "sslm_kv_pool_destroy has no test" in missing(marks)
    assert f"sslm_kv_pool_destroy {cause} has no test" not in missing(marks)


@pytest.mark.parametrize(
    "arguments",
    [
        '"sslm_none", here="E"',
        '"sslm_stats"',
        'here="E"',
        '"sslm_stats", "sslm_stats", here="E"',
        '"sslm_stats", here=name',
        '"sslm_stats", here="E", other="O"',
        '"sslm_stats", here="E", refusal="SSLM_BUFFER_TOO_SMALL"',
    ],
)
def test_a_mark_that_says_nothing_true(tmp_path: Path, arguments: str) -> None:
    with pytest.raises(MarkError):
        marks_of(tmp_path, f"@pytest.mark.published_call({arguments})")


def test_a_test_of_what_is_said_to_come_later(tmp_path: Path) -> None:
    marks = marks_of(tmp_path, '@pytest.mark.published_call("sslm_adapter_residency", here="E")')
    expected = "sslm_adapter_residency has a test and is listed as coming later"
    assert expected in missing(marks)
