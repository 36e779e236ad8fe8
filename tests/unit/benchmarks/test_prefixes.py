"""The measurement of prefixes tells when sequences that share one are not what they should be."""

from dataclasses import replace

import pytest
from benchmarks.prefixes import ADOPT_MS_MAX, Shared, measure_here, show

from tests.converted import stories_artifact


@pytest.fixture(scope="module")
def found() -> list[Shared]:
    return measure_here(stories_artifact(), prefix_tokens=128, count=5)


def test_what_is_shared_is_held_once(found: list[Shared]) -> None:
    first, second = found
    assert (first.prefix_tokens, first.prefix_pages, first.held_pages) == (128, 2, 2 + 5)
    assert (second.prefix_tokens, second.prefix_pages, second.is_nested) == (228, 3, True)
    assert (first.pages_if_alone, second.pages_if_alone) == (15, 20)
    for shared in found:
        assert shared.held_pages == shared.expected_pages
        assert shared.equal_to_alone == shared.equal_after_release == 5


def test_faults_are_told(found: list[Shared], capsys: pytest.CaptureFixture[str]) -> None:
    shared = replace(found[0], adopt_ms_median=ADOPT_MS_MAX)
    assert shared.faults == []
    assert replace(shared, held_pages=8).faults == ["pages held"]
    assert replace(shared, equal_to_alone=4).faults == ["answers"]
    assert replace(shared, equal_after_release=4).faults == ["answers after the release"]
    slow = replace(shared, adopt_ms_median=ADOPT_MS_MAX + 0.001)
    assert slow.faults == ["time of adopting"]
    # Where a page is copied, that takes what it takes.
    assert replace(slow, prefix_tokens=127).faults == []
    show(slow)
    assert "wrong: time of adopting" in capsys.readouterr().out
