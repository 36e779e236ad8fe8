"""Spoiled records end in a named error or in a replay; all of it is a command.

``python -m benchmarks.hostile_saves`` changes every byte; here it is a few of each kind.
"""

from functools import cache

import pytest

from sslm.errors.records import RecordIntegrityError
from sslm.formats.record_blob import HEADER_SIZE_BYTES
from tests.hostile.byte_sweep import cuts, flips, sweep
from tests.hostile.record_trips import RecordSubject, record_subjects, record_trip
from tests.saves import reseal_save, resize_save

NAMES = [
    *("record, links", "record, segments", "record, stops"),
    *("record, sampled", "record, damped"),
]


@cache
def subjects() -> dict[str, RecordSubject]:
    found = {subject.name: subject for subject in record_subjects()}
    assert list(found) == NAMES
    return found


@pytest.mark.parametrize("name", NAMES)
def test_spoiled_records(name: str) -> None:
    subject = subjects()[name]
    trip, sound = record_trip(subject), subject.sound
    step = max(1, len(sound) // 25) | 1
    cut = sweep(cuts(sound, step=step), trip, sound=sound)
    assert (cut.failures, cut.loaded) == ([], 0)
    sealed_cuts = cuts(sound, step=step, first=HEADER_SIZE_BYTES, seal=resize_save)
    sealed_cut = sweep(sealed_cuts, trip, sound=sound)
    assert (sealed_cut.failures, sealed_cut.loaded) == ([], 0)
    changed = sweep(flips(sound, step=step), trip, sound=sound)
    assert (changed.failures, changed.loaded) == ([], 0)
    sealed = sweep(flips(sound, step=step, seal=reseal_save), trip, sound=sound)
    assert sealed.failures == []
    assert sealed.loaded > 0
    assert sealed.loaded + sum(sealed.refusals.values()) == sealed.cases > 20
    # The hash is never what refuses: whoever seals again gets past it.
    errors = {refusal.error for refusal in sealed.refusals}
    assert errors
    assert RecordIntegrityError.__name__ not in errors
