"""Saves, records and schemas with every byte cut off and changed; prints who refused what.

    python -m benchmarks.hostile_saves [--step N] [--only WORD] [--part 1/20] [--json]

Saves of stories260K and of a recurrent program, at rest, in the middle of a token and of a chunk,
and of ids alone, records of requests, and compiled schemas: cut at every length, and with every
byte changed, also when size and hash were stated anew. Each case must end in a named error that has
taken nothing, in a sequence or schema that is just what the file says, or in a replay that calls
nothing identical which was not computed, within 64 MiB and a second of processor time. Exit 1 if
one does not.
"""

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.hostile.byte_sweep import cuts, flips
from tests.hostile.record_trips import record_subjects, record_trip
from tests.hostile.save_trips import save_subjects, save_trip
from tests.hostile.schema_trips import schema_subjects, schema_trip
from tests.saves import reseal_save, resize_save

from benchmarks.hostile_bytes import Subject, sweep_all
from sslm.formats.saves.writer import HEADER_SIZE_BYTES


def subjects(_: Path, step: int) -> Iterator[Subject]:
    """Every save, record and schema with every kind of change."""
    saves = ((save.name, save.sound, save_trip(save)) for save in save_subjects())
    records = ((one.name, one.sound, record_trip(one)) for one in record_subjects())
    schemas = ((name, sound, schema_trip(sound)) for name, sound in schema_subjects())
    for name, sound, trip in chain(saves, records, schemas):
        for change, cases in (
            ("cut", cuts(sound, step=step)),
            ("cut, sealed", cuts(sound, step=step, first=HEADER_SIZE_BYTES, seal=resize_save)),
            ("flipped", flips(sound, step=step)),
            ("flipped, sealed", flips(sound, step=step, seal=reseal_save)),
        ):
            yield Subject(name=f"{name}, {change}", sound=sound, cases=cases, trip=trip)


if __name__ == "__main__":
    sys.exit(sweep_all(str(__doc__), subjects))
