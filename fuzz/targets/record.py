"""Bytes as a record with a hash that is right, up to its replay."""

from typing import Final

from fuzz.record_seeds import recorded_artifact, recorded_schema, recorded_tokenizer
from fuzz.sealed_mutation import sealed, sealed_mutation
from fuzz.target import ByteMutator, Outcomes, Target, require
from sslm.errors.base import ArtifactError
from sslm.errors.records import RecordSchemaError
from sslm.evidence.replay import replay_record
from sslm.formats.records.reader import read_record
from sslm.formats.records.writer import encode_record
from sslm.numerics.digests import answer_digest
from sslm.opening.runner import open_backend
from sslm.program.plan import Backend

_SIZE_BYTES_MAX: Final = 1 << 12


def run(data: bytes, outcomes: Outcomes) -> None:
    """Read the record as it is and with its hash put right; replay what can be."""
    blob = sealed(data)
    if blob != data:
        with outcomes.refusals(ArtifactError):
            read_record(data)
            outcomes.reached("read without its hash")
    with outcomes.refusals(ArtifactError, RecordSchemaError):
        record = read_record(blob)
        require(encode_record(record) == blob, "what is read is written as the same bytes")
        outcomes.reached("read")
        report = replay_record(
            record,
            recorded_artifact(),
            recorded_tokenizer(),
            open_backend=_backend,
            threads=1,
            schema=recorded_schema() if record.schema else None,
        )
        outcomes.reached("identical" if report.identical else "different")
        ids = list(report.token_ids)
        if report.identical:
            require(ids == list(record.token_ids), "identical answers have the recorded tokens")
            last = record.link(len(ids) - 1)
            require(answer_digest(last, ids) == record.digest, "and the recorded digest")
        else:
            require(report.first_difference is not None, "a difference has a place")


def _backend() -> Backend:
    return open_backend("native", tier="auto", threads=1)


def mutate(data: bytes, size_bytes_max: int, seed: int, mutated: ByteMutator) -> bytes:
    """Change a record and seal it again."""
    return sealed_mutation(TARGET.seeds, data, size_bytes_max, seed, mutated)


TARGET: Final = Target(
    name="record",
    subject="a sealed record to its reader, and what it says to a replay",
    run=run,
    modules=(
        "sslm.evidence.recorded_schema",
        "sslm.evidence.reexecution",
        "sslm.evidence.replay",
        "sslm.evidence.locating",
        "sslm.formats.choice",
        "sslm.formats.records.writer",
        "sslm.formats.records.reader",
        "sslm.runtime.saves.snapshot_records",
    ),
    size_bytes_max=_SIZE_BYTES_MAX,
    reaches=("identical", "different"),
    mutate=mutate,
)
