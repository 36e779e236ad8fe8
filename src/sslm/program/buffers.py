"""Named buffers that the ops of a program read and write."""

from dataclasses import dataclass
from enum import Enum


class BufferKind(Enum):
    """What a row of a buffer holds."""

    INT32 = "int32"
    """int32 values at static fraction bits."""
    CODES = "codes"
    """int16 block floating point: codes in -32639 … 32639 and one exponent a row."""
    LOGITS = "logits"
    """Exact int64 scores of a row of the vocabulary, only for rows that asked for them."""
    TOKENS = "tokens"
    """Token ids, one a row: the input of embed, or the output of select."""


EXPONENT_MAX_INT32 = 17
"""Largest block exponent of a row of int32 values."""
EXPONENT_MAX_GATED = 48
"""Largest block exponent of a row of products of two int32 values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A matrix with one row per row of the run.

    The residual buffer is carried between calls by the sequence; every other buffer is scratch that
    lives within one segment.

    Args:
        name: Unique in its program.
        kind: What a row holds.
        width: Elements of a row.
        fraction_bits: Static binary point of INT32 and CODES rows; 0 for the other kinds.
        exponent_max: The largest exponent that a CODES row can have; 0 for the other kinds.
    """

    name: str
    kind: BufferKind
    width: int
    fraction_bits: int = 0
    exponent_max: int = 0
