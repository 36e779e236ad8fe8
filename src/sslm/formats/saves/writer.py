"""Writing saved sequences as bytes; see docs/format.md, 12."""

import struct
from array import array
from enum import IntFlag
from typing import Final

from sslm.formats.choice import CHOICE_SIZE_BYTES, encode_choice
from sslm.formats.saves.contents import (
    HASH_SIZE_BYTES,
    SATURATION_COUNT,
    Bytes,
    SavedMemory,
    SavedSchema,
    SavedSequence,
)
from sslm.hashes import sha256_of

MAGIC: Final = b"SSLMSAVE"
FORMAT_VERSION: Final = 1
HEADER_SIZE_BYTES: Final = 128
HASH_OFFSET_BYTES: Final = 32
PART_ALIGNMENT_BYTES: Final = 64
PARTS: Final = ("residual", "digests", "fixed states", "page", "tail")
"""What follows the token ids, each at a multiple of 64; as many pages as are full."""
NOTHING_CHOSEN: Final = -2
"""Stands for no choice where -1 is the choice of no token."""
CHOICE_REFUSED: Final = -3
"""Stands for logits that were too large to be compared."""

_HEADER: Final = struct.Struct("<8sIIQII32s32s32s")
_COUNTS: Final = struct.Struct("<IIIIQ")
_ANSWER: Final = struct.Struct("<II")
_SCHEMA: Final = struct.Struct("<32sIIII")
_MEMORY: Final = struct.Struct(f"<iIIIQQ{SATURATION_COUNT}Q32sIIQQQQQ")
_STATE: Final = struct.Struct("<IIII")


class SaveFeature(IntFlag):
    """What a save holds beyond tokens; a reader refuses what it does not know. Append only."""

    MEMORY = 1
    """What was computed. Without it, all tokens are computed again."""
    SCHEMA_STATE = 2
    """Where the answer stands in a schema. Without it, it follows none."""
    CHOICE = 4
    """How tokens are chosen. Without it, greedily."""
    ADAPTER_STATE = 8
    """Kept for a later release."""


def largest_overhead_bytes(state_count: int) -> int:
    """Return the most bytes of a save that are neither a token's id or bias nor in a part."""
    padding = PART_ALIGNMENT_BYTES * len(PARTS)
    choice = _ANSWER.size + CHOICE_SIZE_BYTES
    states = _STATE.size * state_count
    counts = _COUNTS.size + choice + _SCHEMA.size + _MEMORY.size
    return HEADER_SIZE_BYTES + counts + states + padding


def encode_save(saved: SavedSequence) -> bytes:
    """Return the one spelling of a saved sequence."""
    pieces = [_encode_counts(saved)]
    features = SaveFeature(0)
    if saved.choice is not None:
        features |= SaveFeature.CHOICE
        pieces += [_ANSWER.pack(saved.answer_start, 0), *encode_choice(saved.choice)]
    if saved.schema is not None:
        features |= SaveFeature.SCHEMA_STATE
        pieces.append(_encode_schema(saved.schema))
    if saved.memory is None:
        pieces.append(saved.pending.tobytes())
    else:
        features |= SaveFeature.MEMORY
        start = HEADER_SIZE_BYTES + sum(len(piece) for piece in pieces)
        pieces += _memory_pieces(saved.memory, saved.pending, start)
    size = HEADER_SIZE_BYTES + sum(len(piece) for piece in pieces)
    blank = _header(saved, features, size, bytes(HASH_SIZE_BYTES))
    content_hash = sha256_of([blank, *pieces])
    return b"".join([_header(saved, features, size, content_hash), *pieces])


def _header(
    saved: SavedSequence, features: SaveFeature, size_bytes: int, content_hash: bytes
) -> bytes:
    return _HEADER.pack(
        MAGIC,
        FORMAT_VERSION,
        features,
        size_bytes,
        saved.arithmetic_version,
        0,
        content_hash,
        saved.model_id,
        saved.adapter,
    )


def _encode_counts(saved: SavedSequence) -> Bytes:
    memory = saved.memory
    chunk = memory.chunk if memory else None
    return _COUNTS.pack(
        len(memory.token_ids) if memory else 0,
        len(chunk.token_ids) if chunk else 0,
        len(saved.pending),
        0,
        saved.forced_tokens,
    )


def _encode_schema(schema: SavedSchema) -> bytes:
    return _SCHEMA.pack(
        schema.digest, schema.answer_tokens or 0, schema.state, schema.token_count, 0
    )


def _memory_pieces(memory: SavedMemory, pending: "array[int]", start: int) -> list[Bytes]:
    """Return what begins at byte *start* of the save, in order, with the zeros between parts."""
    chunk = memory.chunk
    residual = chunk.residual if chunk else memory.last_residual
    digests = chunk.digests if chunk else b""
    pieces: list[Bytes] = [
        _MEMORY.pack(
            NOTHING_CHOSEN if memory.selected is None else memory.selected,
            chunk.next_segment if chunk else 0,
            chunk.first_logits_row if chunk else 0,
            0,
            memory.layers_run,
            memory.chunk_count,
            *memory.saturations,
            memory.link,
            len(memory.states),
            0,
            len(residual),
            len(digests),
            len(memory.fixed),
            memory.page_size_bytes,
            len(memory.tail),
        ),
        *(
            _STATE.pack(state.kind, state.segment_index, state.head_count, state.head_dim)
            for state in memory.states
        ),
        memory.token_ids.tobytes(),
        chunk.token_ids.tobytes() if chunk else b"",
        pending.tobytes(),
    ]
    end = start + sum(len(piece) for piece in pieces)
    for part in (residual, digests, memory.fixed, *memory.pages, memory.tail):
        padding = bytes(-end % PART_ALIGNMENT_BYTES)
        pieces += [padding, part]
        end += len(padding) + len(part)
    return pieces
