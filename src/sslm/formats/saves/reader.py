"""Reading saved sequences, which are as hostile as any file; see docs/format.md, 12."""

from array import array
from dataclasses import dataclass
from typing import Final

from sslm import limits
from sslm.errors.saves import (
    NotASaveError,
    SaveFeatureError,
    SaveIntegrityError,
    SavePartSizeError,
    SaveSizeError,
    SaveStateKindError,
    SaveVersionError,
)
from sslm.formats.bounded_reader import U32_MAX, U64_MAX, BoundedReader
from sslm.formats.choice import read_choice
from sslm.formats.names import feature_names
from sslm.formats.saves.contents import (
    HASH_SIZE_BYTES,
    SATURATION_COUNT,
    Bytes,
    SavedChunk,
    SavedMemory,
    SavedSchema,
    SavedSequence,
    SavedState,
    SavedStateKind,
)
from sslm.formats.saves.writer import (
    CHOICE_REFUSED,
    FORMAT_VERSION,
    HASH_OFFSET_BYTES,
    MAGIC,
    NOTHING_CHOSEN,
    PART_ALIGNMENT_BYTES,
    PARTS,
    SaveFeature,
)
from sslm.hashes import hash_without

_READ: Final = int(SaveFeature.MEMORY | SaveFeature.CHOICE | SaveFeature.SCHEMA_STATE)
_I32_MAX: Final = (1 << 31) - 1
_STATE_SIZE_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class _Counts:
    """How many tokens are computed, in progress and pending."""

    computed: int
    rows: int
    pending: int


def stated_size_bytes(blob: Bytes) -> int:
    """Return the size that the save at the beginning of a buffer has, as its header says.

    Raises:
        ArtifactError: If the buffer begins with nothing that is read here.
    """
    reader = BoundedReader(memoryview(blob))
    _read_features(reader)
    return reader.u64("size of the save", at_most=U64_MAX)


def read_save(blob: Bytes) -> SavedSequence:
    """Check the form of a save and return what it holds.

    Whether a model can have been in this state is not known here. Large parts are views of *blob*,
    which must not change while they are used.

    Raises:
        ArtifactError: One class per defect; see ``sslm.errors.saves`` and ``sslm.errors.reading``.
    """
    view = memoryview(blob)
    reader = BoundedReader(view)
    features = _read_features(reader)
    stated_size = reader.u64("size of the save", at_most=U64_MAX)
    if stated_size != reader.size_bytes:
        raise SaveSizeError(stated_size, reader.size_bytes)
    arithmetic_version = reader.u32("arithmetic version", at_most=U32_MAX)
    reader.zero_padding("after the arithmetic version", alignment_bytes=8)
    _require_hash(reader, view)
    model_id = bytes(reader.take("model_id", size_bytes=HASH_SIZE_BYTES))
    adapter = bytes(reader.take("adapter", size_bytes=HASH_SIZE_BYTES))
    has_memory = SaveFeature.MEMORY in features
    counts = _read_counts(reader, has_memory=has_memory)
    forced_tokens = reader.u64("forced tokens", at_most=limits.SAVE_COUNTER_MAX)
    choice, answer_start = None, 0
    if SaveFeature.CHOICE in features:
        answer_start = reader.u32("where the answer begins", at_most=limits.CONTEXT_TOKENS_MAX)
        reader.zero_padding("after where the answer begins", alignment_bytes=8)
        choice = read_choice(reader)
    schema = _read_schema(reader) if SaveFeature.SCHEMA_STATE in features else None
    if has_memory:
        pending, memory = _read_memory(reader, counts)
    else:
        pending, memory = _read_ids(reader, "pending tokens", counts.pending), None
    reader.require_end("the save")
    return SavedSequence(
        model_id=model_id,
        arithmetic_version=arithmetic_version,
        adapter=adapter,
        pending=pending,
        forced_tokens=forced_tokens,
        choice=choice,
        answer_start=answer_start,
        schema=schema,
        memory=memory,
    )


def _read_features(reader: BoundedReader) -> SaveFeature:
    magic = bytes(reader.take("magic", size_bytes=min(len(MAGIC), reader.size_bytes)))
    if magic != MAGIC:
        raise NotASaveError(magic)
    version = reader.u32("format version", at_most=U32_MAX)
    if version != FORMAT_VERSION:
        raise SaveVersionError(version, FORMAT_VERSION)
    bits = reader.u32("features", at_most=U32_MAX)
    unknown = bits & ~_READ
    if unknown:
        raise SaveFeatureError(feature_names(SaveFeature, unknown))
    return SaveFeature(bits)


def _require_hash(reader: BoundedReader, view: memoryview) -> None:
    stated = bytes(reader.take("hash", size_bytes=HASH_SIZE_BYTES))
    found = hash_without(view, HASH_OFFSET_BYTES)
    if found != stated:
        raise SaveIntegrityError(found.hex(), stated.hex())


def _read_counts(reader: BoundedReader, *, has_memory: bool) -> _Counts:
    longest = limits.CONTEXT_TOKENS_MAX
    counts = _Counts(
        reader.u32("computed tokens", at_most=longest if has_memory else 0),
        reader.u32("tokens in progress", at_most=limits.SAVE_CHUNK_ROWS_MAX if has_memory else 0),
        reader.u32("pending tokens", at_most=longest),
    )
    reader.zero_padding("after the counts of tokens", alignment_bytes=16)
    return counts


def _read_schema(reader: BoundedReader) -> SavedSchema:
    digest = bytes(reader.take("the digest of the schema", size_bytes=HASH_SIZE_BYTES))
    answer_tokens = reader.u32("tokens of the answer", at_most=U32_MAX)
    state = reader.u32("state in the schema", at_most=U32_MAX)
    token_count = reader.u32("tokens of the schema's content", at_most=limits.CONTEXT_TOKENS_MAX)
    reader.zero_padding("after the schema's place", alignment_bytes=8)
    return SavedSchema(
        digest=digest,
        answer_tokens=answer_tokens or None,
        state=state,
        token_count=token_count,
    )


def _read_memory(reader: BoundedReader, counts: _Counts) -> "tuple[array[int], SavedMemory]":
    """Read all that follows the counters of tokens: the pending ones, and what is computed."""
    selected = reader.i32("chosen token", at_least=CHOICE_REFUSED, at_most=_I32_MAX)
    place = _read_place(reader, counts)
    layers_run = reader.u64("layers run", at_most=limits.SAVE_COUNTER_MAX)
    chunk_count = reader.u64("chunks begun", at_most=limits.SAVE_COUNTER_MAX)
    saturations = tuple(
        reader.u64(f"saturations[{site}]", at_most=limits.SAVE_COUNTER_MAX)
        for site in range(SATURATION_COUNT)
    )
    link = bytes(reader.take("chain of digests", size_bytes=HASH_SIZE_BYTES))
    state_count = reader.u32("count of states", at_most=limits.SAVE_STATE_COUNT_MAX)
    reader.zero_padding("after the count of states", alignment_bytes=8)
    # What does not fit is found where it is read: of pages there may be none.
    sizes = {part: reader.u64(f"size of {part}", at_most=U64_MAX) for part in PARTS}
    states = _read_states(reader, state_count)
    token_ids = _read_ids(reader, "computed tokens", counts.computed)
    rows = _read_ids(reader, "tokens in progress", counts.rows)
    pending = _read_ids(reader, "pending tokens", counts.pending)
    residual, digests, fixed = (
        _read_part(reader, part, sizes[part]) for part in ("residual", "digests", "fixed states")
    )
    page_count = counts.computed // limits.SAVE_PAGE_TOKENS
    pages = tuple(_read_part(reader, "page", sizes["page"]) for _ in range(page_count))
    return pending, SavedMemory(
        token_ids=token_ids,
        chunk=_chunk(place, rows, residual, digests),
        selected=None if selected == NOTHING_CHOSEN else selected,
        last_residual=b"" if rows else residual,
        link=link,
        saturations=saturations,
        layers_run=layers_run,
        chunk_count=chunk_count,
        states=states,
        fixed=fixed,
        page_size_bytes=sizes["page"],
        pages=pages,
        tail=_read_part(reader, "tail", sizes["tail"]),
    )


def _read_place(reader: BoundedReader, counts: _Counts) -> tuple[int, int]:
    """Read next segment and first scored row of the chunk, which are zero if there is none."""
    least, most = (1, U32_MAX) if counts.rows else (0, 0)
    next_segment = reader.u32("next segment", at_least=least, at_most=most)
    first_logits_row = reader.u32("first scored row", at_most=counts.rows)
    reader.zero_padding("after the first scored row", alignment_bytes=8)
    return next_segment, first_logits_row


def _read_states(reader: BoundedReader, count: int) -> tuple[SavedState, ...]:
    rows = reader.take("table of states", size_bytes=_STATE_SIZE_BYTES * count).cast("I")
    states = []
    for index in range(count):
        kind, segment_index, head_count, head_dim = rows[4 * index : 4 * index + 4]
        if kind not in SavedStateKind.__members__.values():
            raise SaveStateKindError(index, kind)
        states.append(SavedState(SavedStateKind(kind), segment_index, head_count, head_dim))
    return tuple(states)


def _read_ids(reader: BoundedReader, name: str, count: int) -> "array[int]":
    ids = array("i")
    ids.frombytes(reader.take(name, size_bytes=4 * count))
    return ids


def _read_part(reader: BoundedReader, name: str, size_bytes: int) -> memoryview:
    reader.zero_padding(f"before {name}", alignment_bytes=PART_ALIGNMENT_BYTES)
    return reader.take(name, size_bytes=size_bytes)


def _chunk(
    place: tuple[int, int], token_ids: "array[int]", residual: memoryview, digests: memoryview
) -> SavedChunk | None:
    if token_ids:
        next_segment, first_logits_row = place
        return SavedChunk(
            token_ids=token_ids,
            next_segment=next_segment,
            first_logits_row=first_logits_row,
            residual=residual,
            digests=digests,
        )
    if digests.nbytes:
        raise SavePartSizeError("digests", digests.nbytes, 0)
    return None
