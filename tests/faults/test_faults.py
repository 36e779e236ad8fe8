"""Calls in which one allocation, write, fsync, rename, lock, open or read fails."""

from pathlib import Path

import pytest

from tests.faults.shim import KINDS, build, is_supported
from tests.faults.sweep import Case, Part, prepared, sweep

ALLOCATIONS = {
    "generate": 40,
    "stream": 40,
    "generate_n": 30,
    "slices": 30,
    "session": 12,
    "record": 30,
    "batch": 30,
    "schema_answer": 30,
    "load": 2,
    "pull": 2,
    "byte_tokenizer": 4,
}
"""Calls that the suite tries, with how many of their allocations fail, one at a time."""

OF_FILES = ("load_copied", "save", "record", "replay", "batch", "pull", "schema")


@pytest.mark.skipif(not is_supported(), reason="needs glibc and cc, for a library to preload")
def test_one_fault_never_spoils_a_call(tmp_path: Path) -> None:
    parts = [Part(call=call, kind="allocation", cases=cases) for call, cases in ALLOCATIONS.items()]
    parts += [
        Part(call=call, kind=kind, cases=6)
        for call in OF_FILES
        for kind in KINDS
        if kind != "allocation"
    ]
    cases = sweep(parts, build(tmp_path), prepared(tmp_path / "files"), tmp_path / "work")
    assert [case.facts() for case in cases if case.is_bad] == []
    assert len(cases) >= 300
    # Every kind of fault was met, and told by the error that stands for it.
    assert {case.kind for case in cases} == set(KINDS)
    assert _outcomes(cases, "generate", "allocation") >= {"MemoryError"}
    assert _outcomes(cases, "save", "rename") == {"StorageFailedError 4002"}
    assert _outcomes(cases, "save", "short_write") == {"right"}
    assert _outcomes(cases, "load_copied", "read") == {"UnreadableFileError 208"}


def _outcomes(cases: list[Case], call: str, kind: str) -> set[str]:
    return {case.outcome for case in cases if (case.call, case.kind) == (call, kind)}
