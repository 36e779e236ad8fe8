"""Reading records of requests, which are as hostile as any file; see docs/format.md, 15."""

from array import array
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from sslm import limits
from sslm.errors.records import (
    NotARecordError,
    RecordFeatureError,
    RecordIntegrityError,
    RecordSizeError,
    RecordValueError,
    RecordVersionError,
)
from sslm.formats.bounded_reader import U32_MAX, U64_MAX, BoundedReader
from sslm.formats.choice import read_choice
from sslm.formats.names import feature_names
from sslm.formats.records.writer import (
    FORMAT_VERSION,
    HASH_OFFSET_BYTES,
    MAGIC,
    SHORT_DIGEST_SIZE_BYTES,
    RecordedSchema,
    RecordFeature,
    RecordFinish,
    SavedRecord,
)
from sslm.formats.saves.contents import HASH_SIZE_BYTES, Bytes
from sslm.hashes import hash_without

_READ: Final = int(RecordFeature.SEGMENTS | RecordFeature.SCHEMA)
_SEGMENTS_MAX: Final = limits.LAYER_COUNT_MAX + 2


@dataclass(frozen=True, slots=True)
class _Facts:
    """The numbers at the beginning, in their order."""

    prompt_tokens: int
    answer_tokens: int
    context_tokens: int
    max_tokens: int
    is_continuation: int
    finish: int
    stop_index: int
    stop_token_count: int
    stop_count: int
    segment_count: int


def read_record(blob: Bytes) -> SavedRecord:
    """Check the form of a record and return what it holds.

    Whether a model can have come to it is found by replaying it.

    Raises:
        ArtifactError: One class per defect; see ``sslm.errors.records`` and
            ``sslm.errors.reading``.
    """
    view = memoryview(blob)
    reader = BoundedReader(view)
    features = _read_features(reader)
    stated_size = reader.u64("size of the record", at_most=U64_MAX)
    if stated_size != reader.size_bytes:
        raise RecordSizeError(stated_size, reader.size_bytes)
    arithmetic_version = reader.u32("arithmetic version", at_most=U32_MAX)
    reader.zero_padding("after the arithmetic version", alignment_bytes=8)
    _require_hash(reader, view)
    model_id = _bytes(reader, "model_id", HASH_SIZE_BYTES)
    digest = _bytes(reader, "digest of the answer", HASH_SIZE_BYTES)
    facts = _read_facts(reader, has_segments=RecordFeature.SEGMENTS in features)
    choice = read_choice(reader)
    stop_token_ids = _read_ids(reader, "ids that end the answer", facts.stop_token_count)
    _require_ascending(stop_token_ids)
    prompt_ids = _read_ids(reader, "tokens of the prompt", facts.prompt_tokens)
    token_ids = _read_ids(reader, "tokens of the answer", facts.answer_tokens)
    links = _bytes(reader, "chain of digests", HASH_SIZE_BYTES * facts.answer_tokens)
    short = SHORT_DIGEST_SIZE_BYTES * facts.segment_count
    segments = _bytes(reader, "digests of segments", short * facts.answer_tokens)
    stop = _read_stops(reader, facts.stop_count)
    schema = _read_schema(reader) if RecordFeature.SCHEMA in features else None
    reader.require_end("the record")
    return SavedRecord(
        model_id=model_id,
        arithmetic_version=arithmetic_version,
        context_tokens=facts.context_tokens,
        max_tokens=facts.max_tokens,
        is_continuation=bool(facts.is_continuation),
        choice=choice,
        stop=stop,
        stop_token_ids=tuple(stop_token_ids),
        finish=RecordFinish(facts.finish),
        stop_index=facts.stop_index,
        prompt_ids=prompt_ids,
        token_ids=token_ids,
        digest=digest,
        links=links,
        segments=segments,
        segment_count=facts.segment_count,
        schema=schema,
    )


def _read_features(reader: BoundedReader) -> RecordFeature:
    magic = _bytes(reader, "magic", min(len(MAGIC), reader.size_bytes))
    if magic != MAGIC:
        raise NotARecordError(magic)
    version = reader.u32("format version", at_most=U32_MAX)
    if version != FORMAT_VERSION:
        raise RecordVersionError(version, FORMAT_VERSION)
    bits = reader.u32("features", at_most=U32_MAX)
    if unknown := bits & ~_READ:
        raise RecordFeatureError(feature_names(RecordFeature, unknown))
    return RecordFeature(bits)


def _require_hash(reader: BoundedReader, view: memoryview) -> None:
    stated = _bytes(reader, "hash", HASH_SIZE_BYTES)
    found = hash_without(view, HASH_OFFSET_BYTES)
    if found != stated:
        raise RecordIntegrityError(found.hex(), stated.hex())


def _read_facts(reader: BoundedReader, *, has_segments: bool) -> _Facts:
    longest = limits.CONTEXT_TOKENS_MAX
    least, most = (1, _SEGMENTS_MAX) if has_segments else (0, 0)
    return _Facts(
        reader.u32("tokens of the prompt", at_least=1, at_most=longest),
        reader.u32("tokens of the answer", at_least=1, at_most=longest),
        reader.u32("tokens of the context", at_least=1, at_most=longest),
        reader.u32("most tokens of the answer", at_least=1, at_most=longest),
        reader.u32("whether it continues a text", at_most=1),
        reader.u32("what ended the answer", at_most=max(RecordFinish)),
        reader.u32("stop string that ended it", at_most=limits.STOP_COUNT_MAX),
        reader.u32("count of ids that end the answer", at_most=limits.VOCAB_SIZE_MAX),
        reader.u32("count of stop strings", at_most=limits.STOP_COUNT_MAX),
        reader.u32("segments of each token", at_least=least, at_most=most),
    )


def _read_ids(reader: BoundedReader, name: str, count: int) -> "array[int]":
    ids = array("i")
    ids.frombytes(reader.take(name, size_bytes=4 * count))
    if count and min(ids) < 0:
        raise RecordValueError(f"{min(ids)} among the {name}", "ids are at least 0")
    return ids


def _require_ascending(ids: "array[int]") -> None:
    for before, after in pairwise(ids):
        if before >= after:
            raise RecordValueError(f"the ids {before} and {after}", "ids to end at ascend")


def _read_stops(reader: BoundedReader, count: int) -> tuple[str, ...]:
    most = limits.STOP_SIZE_CHARS_MAX
    stops = []
    for index in range(count):
        text = reader.utf8(f"stop string {index}", at_most=4 * most)
        if not 1 <= len(text) <= most:
            raise RecordValueError(f"stop string {index}", f"it has {len(text)} characters")
        stops.append(text)
    return tuple(stops)


def _read_schema(reader: BoundedReader) -> RecordedSchema:
    digest = _bytes(reader, "digest of the schema", HASH_SIZE_BYTES)
    is_cut = reader.u32("whether the answer may be cut off", at_most=1)
    is_endless = reader.u32("whether no token ends the answer", at_most=1)
    name = reader.utf8("name of the schema", at_most=limits.SCHEMA_NAME_SIZE_CHARS_MAX)
    return RecordedSchema(
        digest=digest, name=name, is_fitted=not is_cut, allows_ends=not is_endless
    )


def _bytes(reader: BoundedReader, name: str, size_bytes: int) -> bytes:
    return bytes(reader.take(name, size_bytes=size_bytes))
