"""Records that the search begins with: sound ones of all kinds, and some that lie."""

from array import array
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Final

from tests.records import PLAIN_CHOICE, RICH_CHOICE
from tests.saves import resize_save
from tests.unit.artifact.tiny_artifact import read

from fuzz.schema_seeds import OPTIONS
from fuzz.small_models import small_artifact
from sslm.answer_schemas.schema import Schema
from sslm.answer_schemas.vocabulary import schema_vocabulary
from sslm.artifact import Artifact
from sslm.artifact.prepared_schema import decode_schema
from sslm.evidence.recorded_schema import schema_of_record
from sslm.evidence.reexecution import reexecution, replay_tokens
from sslm.formats.bounded_reader import BoundedReader
from sslm.formats.records.writer import RecordedSchema, RecordFinish, SavedRecord, encode_record
from sslm.formats.schemas.blob import SchemaRecord, encode_schema
from sslm.formats.schemas.masks import mask_size_bytes
from sslm.formats.schemas.tables import FREE, NONE, StateTables
from sslm.numerics.digests import answer_digest
from sslm.opening.runner import Runner, open_backend
from sslm.text.tokenizer import Tokenizer

_COUNT = 4
_A, _B, _AB, _SPACE, _SPACE_A = 2, 3, 4, 5, 6
"""Ids of the model's vocabulary."""
_FINISHES: Final = {"complete": RecordFinish.SCHEMA, "dead_end": RecordFinish.DEAD_END}


@cache
def recorded_artifact() -> Artifact:
    """Return the model of the records."""
    return read(small_artifact())


@cache
def recorded_tokenizer() -> Tokenizer:
    """Return the tokenizer of that model."""
    return Tokenizer(recorded_artifact().vocabulary)


@cache
def recorded_schema() -> Schema:
    """Return what some of the records follow: pairs of "a" and of "a" or "b", spaces between."""
    mask = mask_size_bytes(recorded_tokenizer().vocab_size)
    record = SchemaRecord(
        name="pairs",
        options=OPTIONS,
        document=b"true",
        documents=b"",
        vocabulary_sha256=schema_vocabulary(recorded_tokenizer()).sha256,
        vocab_size=recorded_tokenizer().vocab_size,
        rows=(((97, 97, 1),), ((97, 98, 2),), ((32, 32, 0),)),
        accepting=bytes([0, 0, 1]),
        tables=StateTables(
            only_tokens=array("i", [FREE] * 3),
            only_targets=array("I", [NONE] * 3),
            distances=array("I", [1, 1, 0]),
            mask_indices=array("I", [1, 0, 2]),
        ),
        masks=tuple(
            sum(1 << one for one in ids).to_bytes(mask, "little")
            for ids in ((_A, _B), (_A, _AB), (_SPACE, _SPACE_A))
        ),
    )
    return Schema(decode_schema(BoundedReader(memoryview(encode_schema(record)))))


def record_seeds() -> dict[str, bytes]:
    """Records that are replayed identically, and some of what no request can have been."""
    template = SavedRecord(
        model_id=recorded_artifact().model_id,
        arithmetic_version=recorded_artifact().arithmetic_version,
        context_tokens=16,
        max_tokens=_COUNT,
        is_continuation=True,
        choice=PLAIN_CHOICE,
        stop=(),
        stop_token_ids=(),
        finish=RecordFinish.LENGTH,
        stop_index=0,
        prompt_ids=array("i", [1, 2, 3]),
        token_ids=array("i", [0] * _COUNT),
        digest=bytes(32),
        links=bytes(32 * _COUNT),
    )
    segments = recorded_artifact().config.num_hidden_layers + 2
    traced = replace(template, segment_count=segments, segments=bytes(4 * segments * _COUNT))
    sampled = replace(RICH_CHOICE, bias=((3, -5_000_000), (4, 250_000)), top_k=5)
    kinds = {
        "greedy": template,
        "segments": traced,
        "sampled": replace(template, choice=sampled, stop=("\x00zz", "né"), stop_token_ids=(0,)),
        "damped": replace(template, choice=replace(sampled, decoder=2), is_continuation=False),
    }
    follows = RecordedSchema(
        digest=recorded_schema().prepared.digest, name="pairs", is_fitted=True, allows_ends=False
    )
    for name, is_fitted in (("schema", True), ("schema_cut", False)):
        kinds[name] = replace(template, schema=replace(follows, is_fitted=is_fitted))
    found = {name: encode_record(_computed(record)) for name, record in kinds.items()}
    sound = found["greedy"]
    return found | {
        "another_model": _with(sound, 64, bytes(32)),
        "newer": _with(sound, 12, b"\x05"),
        "another_schema": _with(found["schema"], len(found["schema"]) - 30, b"\x05"),
        "most_tokens": _with(sound, 128, b"\0\0\x10\0"),
        "another_token": _with(sound, 224 + 4 * 3 + 4, b"\x07"),
        "another_link": _with(sound, 224 + 4 * (3 + _COUNT) + 32, b"\x05"),
    }


def _computed(record: SavedRecord) -> SavedRecord:
    """Return a record with what a request comes to, that only a schema ends."""
    backend = open_backend("reference", tier="auto", threads=1)
    runner = Runner(recorded_artifact(), backend, context_tokens=replay_tokens(record))

    def advance(sequence: object) -> None:
        runner.advance([sequence])  # type: ignore[list-item]

    source = recorded_schema() if record.schema else None
    schema = schema_of_record(record, recorded_artifact(), recorded_tokenizer(), source)
    with closing(runner), reexecution(runner, record, advance, schema) as execution:
        steps = []
        for step in islice(execution.steps(), len(record.token_ids)):
            steps.append(step)
            if step.ending is not None:
                break
    ids = array("i", [step.token_id for step in steps])
    return replace(
        record,
        finish=_FINISHES.get(steps[-1].ending or "", record.finish),
        token_ids=ids,
        links=b"".join(step.link for step in steps),
        segments=b"".join(digest for step in steps for digest in step.segments),
        digest=answer_digest(steps[-1].link, ids),
    )


def _with(blob: bytes, offset: int, patch: bytes) -> bytes:
    return resize_save(blob[:offset] + patch + blob[offset + len(patch) :])
