"""How a token is chosen, as bytes; see docs/format.md, 14."""

import struct
from dataclasses import dataclass
from typing import Final

from sslm import limits
from sslm.errors.records import SavedBiasOrderError, SavedDecoderError
from sslm.formats.bounded_reader import U32_MAX, U64_MAX, BoundedReader

DECODERS: Final = ("greedy", "sampling", "damped")
"""Names of the decoders; a decoder's number is its place here. Append only."""

_FIELDS: Final = struct.Struct("<IIiiIIIIQIIII")
_BIAS: Final = struct.Struct("<ii")
_MICRO: Final = 1_000_000

CHOICE_SIZE_BYTES: Final = _FIELDS.size
"""Bytes of a choice without biases."""
BIAS_SIZE_BYTES: Final = _BIAS.size
"""Bytes of each bias."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedChoice:
    """The fields of :class:`sslm.program.choice.Choice`, by the same names.

    Args:
        decoder: Index in ``DECODERS``.
        bias: (token id, millionths), ids ascending, each once.
        repetition: Millionths, as all without another unit.
        presence: From ``-limits.CHOICE_MICRO_MAX``.
        frequency: Likewise.
        temperature: Above 0.
        top_k: 0 … ``limits.VOCAB_SIZE_MAX``.
        top_p: 1 … 1,000,000.
        min_p: 0 … 1,000,000.
        seed: 64 bits.
        damping: Fraction bits 15, 0 … ``limits.DAMPING_MAX``.
        damping_order: 1 … ``limits.DAMPING_ORDER_MAX``.
    """

    decoder: int
    bias: tuple[tuple[int, int], ...]
    repetition: int
    presence: int
    frequency: int
    temperature: int
    top_k: int
    top_p: int
    min_p: int
    seed: int
    damping: int
    damping_order: int


def encode_choice(saved: SavedChoice) -> list[bytes]:
    """Return the one spelling of a choice, a multiple of 8 bytes, in pieces."""
    fields = _FIELDS.pack(
        saved.decoder,
        saved.repetition,
        saved.presence,
        saved.frequency,
        saved.temperature,
        saved.top_k,
        saved.top_p,
        saved.min_p,
        saved.seed,
        saved.damping,
        saved.damping_order,
        len(saved.bias),
        0,
    )
    return [fields, *(_BIAS.pack(token_id, micro) for token_id, micro in saved.bias)]


def read_choice(reader: BoundedReader) -> SavedChoice:
    """Read a choice whose every number is one that no sum may overflow for.

    Whether a model has the ids of its biases is not known here.

    Raises:
        SavedDecoderError: If its decoder does not exist.
        SavedBiasOrderError: If the ids of its biases do not ascend.
        ArtifactError: If a number is out of its range; see ``sslm.errors.reading``.
    """
    micro, most = limits.CHOICE_MICRO_MAX, limits.VOCAB_SIZE_MAX
    decoder = reader.u32("decoder", at_most=U32_MAX)
    if decoder >= len(DECODERS):
        raise SavedDecoderError(decoder, len(DECODERS) - 1)
    repetition = reader.u32("repetition penalty", at_least=1, at_most=micro)
    presence = reader.i32("presence penalty", at_least=-micro, at_most=micro)
    frequency = reader.i32("frequency penalty", at_least=-micro, at_most=micro)
    temperature = reader.u32("temperature", at_least=1, at_most=micro)
    top_k = reader.u32("top_k", at_most=most)
    top_p = reader.u32("top_p", at_least=1, at_most=_MICRO)
    min_p = reader.u32("min_p", at_most=_MICRO)
    seed = reader.u64("seed", at_most=U64_MAX)
    damping = reader.u32("damping", at_most=limits.DAMPING_MAX)
    order = reader.u32("order of damping", at_least=1, at_most=limits.DAMPING_ORDER_MAX)
    count = reader.u32("count of biases", at_most=most)
    reader.u32("after the count of biases", at_most=0)
    return SavedChoice(
        decoder=decoder,
        bias=_read_bias(reader, count),
        repetition=repetition,
        presence=presence,
        frequency=frequency,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        seed=seed,
        damping=damping,
        damping_order=order,
    )


def _read_bias(reader: BoundedReader, count: int) -> tuple[tuple[int, int], ...]:
    pairs = reader.take("biases", size_bytes=_BIAS.size * count)
    largest, micro = limits.VOCAB_SIZE_MAX - 1, limits.CHOICE_MICRO_MAX
    inner = BoundedReader(pairs, base_offset_bytes=reader.position - pairs.nbytes)
    found: list[tuple[int, int]] = []
    for index in range(count):
        token_id = inner.i32(f"id of bias {index}", at_least=0, at_most=largest)
        if found and token_id <= found[-1][0]:
            raise SavedBiasOrderError(index, token_id, found[-1][0])
        bias = inner.i32(f"bias {index}", at_least=-micro, at_most=micro)
        found.append((token_id, bias))
    return tuple(found)
