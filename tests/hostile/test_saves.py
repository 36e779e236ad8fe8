"""Spoiled saves end in a named error or in a sequence that runs; all of it is a command.

``python -m benchmarks.hostile_saves`` changes every byte; here it is a few of each kind.
"""

from functools import cache

import pytest

from sslm.errors.saves import SaveIntegrityError
from sslm.formats.saves.writer import HEADER_SIZE_BYTES
from sslm.runtime.saves.saving import restore, save
from sslm.runtime.sequences.options import SequenceOptions
from tests.hostile.save_trips import SaveSubject, save_subjects, save_trip
from tests.hostile.spoiled_blobs import require_named_ends
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
    require_named_ends(
        subject.sound,
        save_trip(subject),
        step=max(1, len(subject.sound) // 40) | 1,
        header_size_bytes=HEADER_SIZE_BYTES,
        integrity_error=SaveIntegrityError,
    )


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
