"""Softmax attention of one span, on plain arrays (docs/arithmetic.md, "attention")."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sslm.backends.reference.kernels import pow2neg
from sslm.numerics.block_float import bfp16
from sslm.numerics.rounding import (
    INT32_MAX,
    Int64Array,
    rshift_round,
    saturate,
    scale_shift,
)
from sslm.program.ops import Attention
from sslm.program.states import PAGE_TOKENS

BoolArray = npt.NDArray[np.bool_]

_FAR = np.int64(1) << 33
"""Farther from the maximum than any score can be: stands for a key that is not there."""

_NEAR = np.int64(8) << 16
"""Keys nearer to the row's maximum than this form a group of their own in each block."""


@dataclass(frozen=True, slots=True)
class Codes:
    """Codes int64 [heads, positions, head_dim], exponents int64 [heads, positions]."""

    codes: Int64Array
    exponents: Int64Array

    def grouped(self, group_count: int) -> "Codes":
        """Repeat each key/value head for the query heads that read it."""
        return Codes(
            np.repeat(self.codes, group_count, axis=0),
            np.repeat(self.exponents, group_count, axis=0),
        )


def attention(
    query: Int64Array, keys: Codes, values: Codes, *, first_position: int, op: Attention
) -> tuple[Int64Array, Int64Array]:
    """Attend from int64 [rows, heads * head_dim] to positions 0 … first_position + rows - 1.

    Keys and values hold whole pages; positions past the last row are never visible. Returns
    the output rows and how many values of each saturated.
    """
    rows, head_dim = len(query), op.keys.head_dim
    q = query.reshape(rows, op.num_attention_heads, head_dim).transpose(1, 0, 2)
    group_count = op.num_attention_heads // op.keys.head_count
    keys, values = keys.grouped(group_count), values.grouped(group_count)
    visible = _visible(first_position + np.arange(rows), keys.codes.shape[1], op.window)
    shift = op.query.fraction_bits + op.keys.fraction_bits - 16
    distance = _distances(q, keys, visible, shift)
    out = _weighted_mean(distance, values, visible)
    return saturate(out.transpose(1, 0, 2).reshape(rows, -1))


def _visible(positions: Int64Array, key_count: int, window: int | None) -> BoolArray:
    """Return bool [rows, keys]: which keys each row sees."""
    behind = positions[:, None] - np.arange(key_count)
    visible: BoolArray = (behind >= 0) & (behind < (key_count if window is None else window))
    return visible


def _distances(q: Int64Array, keys: Codes, visible: BoolArray, shift: int) -> Int64Array:
    """Return t int64 [heads, rows, keys]: how far each score lies below its row's maximum."""
    codes, exponents = bfp16(q)
    # Products of two 16-bit codes over at most 256 dims stay far below 2**53.
    dots = codes.astype(np.float64) @ keys.codes.astype(np.float64).transpose(0, 2, 1)
    shifts = shift - exponents[:, :, None] - keys.exponents[:, None, :]
    scores = np.clip(scale_shift(dots.astype(np.int64), shifts), -INT32_MAX, INT32_MAX)
    highest = np.where(visible, scores, -INT32_MAX).max(axis=-1, keepdims=True)
    return np.where(visible, highest - scores, _FAR)


def _weighted_mean(distance: Int64Array, values: Codes, visible: BoolArray) -> Int64Array:
    """Return int64 [heads, rows, head_dim] at the values' fraction bits, not yet saturated."""
    heads, rows, key_count = distance.shape
    blocks = key_count // PAGE_TOKENS
    t = distance.reshape(heads, rows, blocks, PAGE_TOKENS)
    seen = visible.reshape(1, rows, blocks, PAGE_TOKENS)
    exponents = values.exponents.reshape(heads, 1, blocks, PAGE_TOKENS)
    codes = values.codes.reshape(heads, blocks, PAGE_TOKENS, -1).astype(np.float64)
    groups = [_group_sums(t, codes, exponents, seen & near) for near in (t < _NEAR, t >= _NEAR)]
    top = np.maximum(*(group.exponent.max(axis=-1) for group in groups))
    numerator = np.zeros((heads, rows, codes.shape[-1]), dtype=np.int64)
    denominator = np.zeros((heads, rows), dtype=np.int64)
    for group in groups:
        down = group.floor_t + top[..., None] - group.exponent
        numerator += rshift_round(group.numerator << 7, down[..., None]).sum(axis=2)
        denominator += rshift_round(group.denominator << 7, group.floor_t).sum(axis=-1)
    return scale_shift(_quotient(numerator, denominator), (14 - top)[..., None])


@dataclass(frozen=True, slots=True)
class _GroupSums:
    """T, e, D int64 [heads, rows, blocks] and N int64 [heads, rows, blocks, head_dim].

    A group without members has zero sums, which no shift brings back.
    """

    floor_t: Int64Array
    exponent: Int64Array
    denominator: Int64Array
    numerator: Int64Array


def _group_sums(
    t: Int64Array, codes: npt.NDArray[np.float64], exponents: Int64Array, member: BoolArray
) -> _GroupSums:
    """Sum the members of each block; *t* and *member* are [heads, rows, blocks, 64]."""
    floor_t = np.where(member, t, _FAR).min(axis=-1) >> 16
    exponent = np.where(member, exponents, 0).max(axis=-1)
    rest = np.where(member, t - (floor_t << 16)[..., None], _FAR)
    weights = pow2neg(rest)
    lift = np.where(member, exponent[..., None] - exponents, 0) << 16
    # Sums stay below 2**41, so float64 is exact here too.
    lifted = pow2neg(rest + lift).astype(np.float64)
    numerator = np.einsum("hrbk,hbkd->hrbd", lifted, codes, optimize=True)
    return _GroupSums(floor_t, exponent, weights.sum(axis=-1), numerator.astype(np.int64))


def _quotient(numerator: Int64Array, denominator: Int64Array) -> Int64Array:
    """Divide int64 [..., head_dim] by int64 [...], to 14 bits finer than a code."""
    bits = np.vectorize(int.bit_length, otypes=[np.int64])(denominator.astype(object))
    normal = scale_shift(denominator, bits - 31)
    reciprocal = ((np.int64(1) << 61) + normal) // (2 * normal)
    small = rshift_round(numerator, (bits - 16)[..., None])
    return rshift_round(small * reciprocal[..., None], 31)
