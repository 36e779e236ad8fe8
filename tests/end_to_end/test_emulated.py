"""The table of emulated CPUs tells right rows from wrong ones."""

import sys
from pathlib import Path

import pytest
from benchmarks import emulated
from benchmarks.emulated import INSTALLED, REFUSED, Way, digest_of, package_with, rows_of

from sslm.native_library import available_tiers, load_library
from tests.converted import stories_artifact


@pytest.mark.parametrize(
    ("digest", "is_refused", "is_right"),
    [
        ("a" * 64, False, True),
        ("b" * 64, False, False),
        (REFUSED, False, False),
        (REFUSED, True, True),
        ("a" * 64, True, False),
        ("failed: illegal instruction", True, False),
    ],
)
def test_a_row_is_right_if_it_answers_or_refuses_as_it_should(
    monkeypatch: pytest.MonkeyPatch, digest: str, is_refused: bool, is_right: bool
) -> None:
    def answer(way: Way, *_: object, **__: object) -> str:
        return "a" * 64 if way.library == "NumPy" else digest

    monkeypatch.setattr(emulated, "digest_of", answer)
    way = Way(
        library=INSTALLED, cpu="this one", tier="avx2", command=("python",), is_refused=is_refused
    )
    rows = list(rows_of(Path("m.sslm"), [way], {INSTALLED: Path()}))
    assert [row.is_right for row in rows] == [True, is_right]


def test_a_tier_answers_from_a_copy_of_the_package(tmp_path: Path) -> None:
    package = package_with(load_library().path, tmp_path)
    tier = available_tiers()[0]
    way = Way(library=INSTALLED, cpu="this one", tier=tier, command=(sys.executable,))
    digest = digest_of(way, package, stories_artifact())
    assert len(bytes.fromhex(digest)) == 32
    refused = Way(library=INSTALLED, cpu="this one", tier="mmx", command=(sys.executable,))
    assert digest_of(refused, package, stories_artifact()) == REFUSED
