"""Compiled schemas with bytes cut off and changed: named errors, or what the file says.

All bytes are changed by ``python -m benchmarks.hostile_saves --only schema``.
"""

import pytest

from sslm.formats.schemas.containers import HEADER_SIZE_BYTES
from tests.hostile.byte_sweep import cuts, flips, sweep
from tests.hostile.schema_trips import schema_subjects, schema_trip
from tests.saves import reseal_save, resize_save

STEP = 13
SUBJECTS = list(schema_subjects())


@pytest.mark.parametrize(("name", "sound"), SUBJECTS, ids=[name for name, _ in SUBJECTS])
def test_every_change_is_seen(name: str, sound: bytes) -> None:
    trip = schema_trip(sound)
    assert trip(sound, 0) is None
    for cases, refused in (
        (cuts(sound, step=STEP), True),
        (cuts(sound, step=STEP, first=HEADER_SIZE_BYTES, seal=resize_save), True),
        (flips(sound, step=STEP), True),
        (flips(sound, step=STEP, seal=reseal_save), False),
    ):
        found = sweep(cases, trip, sound=sound)
        assert found.failures == []
        assert sum(found.refusals.values()) > 0
        assert (found.loaded == 0) == refused
