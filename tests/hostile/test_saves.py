"""Spoiled saves end in a named error or in a sequence that runs; all of it is a command.

``python -m benchmarks.hostile_saves`` changes every byte; here it is a few of each kind.
"""

from functools import cache

import pytest

from sslm.errors.saves import SaveIntegrityError
from sslm.formats.save_blob import HEADER_SIZE_BYTES
from sslm.runtime.saving import restore, save
from sslm.runtime.sequence_options import SequenceOptions
from tests.hostile.byte_sweep import cuts, flips, sweep
from tests.hostile.save_trips import SaveSubject, save_subjects, save_trip
from tests.saves import reseal_save, resize_save
from tests.sequences import new_pool, new_sequence, run
from tests.tiny_models import MODEL_ID

NAMES = [
    f"{model}, {place}"
    for model in ("stories260K", "recurrent toy")
    for place in (
        *("at rest", "ids alone", "mid-token", "mid-chunk", "68 tokens"),
        *("sampling ids alone", "sampling"),
    )
]
CANARY = bytes(range(0xA0, 0xB0)) * 4


@cache
def subjects() -> dict[str, SaveSubject]:
    found = {subject.name: subject for subject in save_subjects()}
    assert list(found) == NAMES
    return found


@pytest.mark.parametrize("name", NAMES)
def test_spoiled_saves(name: str) -> None:
    subject = subjects()[name]
    trip, sound = save_trip(subject), subject.sound
    step = max(1, len(sound) // 40) | 1
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
    assert SaveIntegrityError.__name__ not in errors


def test_nothing_of_released_pages_is_in_a_save() -> None:
    """Pages are handed out again with what their last owner wrote, and saved without it."""
    plan = subjects()["stories260K, at rest"].plan
    pool = new_pool(plan, 3)
    size = pool.layout.page_size_bytes
    for token_count in range(1, 96, 13):
        pool.memory[:] = (CANARY * (3 * size // len(CANARY) + 1))[: 3 * size]
        with new_sequence(plan, pool) as sequence:
            sequence.push([index % 37 for index in range(token_count)])
            run(plan, sequence)
            blob = save(sequence)
            snapshot = sequence.snapshot()
        for content in (blob, save(snapshot)):
            assert not any(CANARY[at : at + 4] in content for at in range(16))
        snapshot.release()
        with new_sequence(plan, new_pool(plan)) as elsewhere:
            elsewhere.push([index % 37 for index in range(token_count)])
            run(plan, elsewhere)
            assert save(elsewhere) == blob
        options = SequenceOptions(context_tokens=96, reserved_tokens=0)
        with restore(blob, plan.program, pool, MODEL_ID, options) as again:
            assert save(again) == blob
