"""Spoiled records end in a named error or in a replay; all of it is a command.

``python -m benchmarks.hostile_saves`` changes every byte; here it is a few of each kind.
"""

from functools import cache

import pytest

from sslm.errors.records import RecordIntegrityError
from sslm.formats.records.writer import HEADER_SIZE_BYTES
from tests.hostile.record_trips import RecordSubject, record_subjects, record_trip
from tests.hostile.spoiled_blobs import require_named_ends

NAMES = [
    *("record, links", "record, segments", "record, stops"),
    *("record, sampled", "record, damped", "record, schema"),
]


@cache
def subjects() -> dict[str, RecordSubject]:
    found = {subject.name: subject for subject in record_subjects()}
    assert list(found) == NAMES
    return found


@pytest.mark.parametrize("name", NAMES)
def test_spoiled_records(name: str) -> None:
    subject = subjects()[name]
    require_named_ends(
        subject.sound,
        record_trip(subject),
        step=max(1, len(subject.sound) // 25) | 1,
        header_size_bytes=HEADER_SIZE_BYTES,
        integrity_error=RecordIntegrityError,
    )
