"""What each op computes, on plain arrays. Contracts: the op records and docs/arithmetic.md."""

from math import isqrt

import numpy as np
import numpy.typing as npt

from sslm.numerics.block_float import bfp16
from sslm.numerics.rounding import (
    Int64Array,
    div_round,
    rshift_round,
    saturate,
    scale_shift,
)
from sslm.numerics.tables import pow2_nodes, sigmoid_nodes
from sslm.program.ops import Epsilon

_SIGMOID_ARGUMENT_MAX = 1 << 20
_POW2_ARGUMENT_MAX = 22 << 16


def rmsnorm(
    groups: Int64Array,
    gain: Int64Array,
    *,
    gain_exponent: int,
    epsilon: Epsilon,
    fraction_bits: int,
    out_fraction_bits: int,
) -> tuple[Int64Array, Int64Array]:
    """Normalise int64 [groups, n]; also return how many values of each group saturated."""
    codes, exponents = bfp16(groups)
    reciprocals = np.zeros(len(groups), dtype=np.int64)
    shifts = np.zeros(len(groups), dtype=np.int64)
    for index, (row, exponent) in enumerate(zip(codes, exponents.tolist(), strict=True)):
        square_sum = int(np.dot(row, row))
        if square_sum:
            eps_shift = epsilon.shift - 2 * fraction_bits + 2 * exponent
            scaled = _scale_shift_int(groups.shape[1] * epsilon.mantissa, eps_shift)
            half_bits = (64 - (square_sum + scaled).bit_length()) // 2
            root = isqrt((square_sum + scaled) << (2 * half_bits))
            reciprocals[index] = div_round(1 << 55, root)
            shifts[index] = 55 - half_bits + gain_exponent - out_fraction_bits
    scaled_rows = scale_shift(codes * reciprocals[:, None] * gain, shifts[:, None])
    return saturate(scaled_rows)


def _scale_shift_int(value: int, shift: int) -> int:
    return value << -shift if shift <= 0 else (value + (1 << (shift - 1))) >> shift


def linear(
    codes: Int64Array, weights: npt.NDArray[np.float64], mantissas: Int64Array, shift: Int64Array
) -> Int64Array:
    """Return int64 [rows, out_features]: exact sums times mantissas, shifted, not yet saturated.

    ``shift`` is the matrix exponent less each row's exponent, int64 [rows].
    """
    products = exact_sums(codes, weights) * mantissas
    # What a left shift would carry beyond 2**38 saturates whatever is added to it.
    limit = np.where(shift < 0, np.int64(1) << 38, np.int64(1) << 62)[:, None]
    return scale_shift(np.clip(products, -limit, limit), shift[:, None])


def exact_sums(codes: Int64Array, weights: npt.NDArray[np.float64]) -> Int64Array:
    """Return codes @ weights.T, exact because every partial sum stays below 2**53."""
    return (codes.astype(np.float64) @ weights.T).astype(np.int64)


def rotate(
    rows: Int64Array, cos: Int64Array, sin: Int64Array, *, head_dim: int, pairing: str
) -> tuple[Int64Array, Int64Array]:
    """Rotate int64 [rows, heads * head_dim] by tables already taken at each row's position."""
    heads = rows.reshape(len(rows), -1, head_dim).copy()
    rotary_dim = 2 * cos.shape[1]
    dims = np.arange(rotary_dim)
    first, second = dims.reshape(-1, 2).T if pairing == "interleaved" else dims.reshape(2, -1)
    a, b = heads[..., first], heads[..., second]
    cos, sin = cos[:, None, :], sin[:, None, :]
    heads[..., first] = rshift_round(a * cos - b * sin, 30)
    heads[..., second] = rshift_round(b * cos + a * sin, 30)
    return saturate(heads.reshape(rows.shape))


def pow2neg(t: Int64Array) -> Int64Array:
    """Return ``2**20 * 2**-t`` for t >= 0 with 16 fraction bits."""
    nodes = np.array(pow2_nodes(), dtype=np.int64)
    bounded = np.minimum(t, _POW2_ARGUMENT_MAX)
    fraction = bounded & 0xFFFF
    index, rest = fraction >> 10, fraction & 0x3FF
    low = nodes[index] - rshift_round((nodes[index] - nodes[index + 1]) * rest, 10)
    return np.where(t >= _POW2_ARGUMENT_MAX, 0, rshift_round(low, 4 + (bounded >> 16)))


def sigmoid_neg(a: Int64Array) -> Int64Array:
    """Return ``2**28 * sigmoid(-a)`` for a >= 0 with 16 fraction bits."""
    nodes = np.array(sigmoid_nodes(), dtype=np.int64)
    bounded = np.minimum(a, _SIGMOID_ARGUMENT_MAX - 1)
    index, rest = bounded >> 10, bounded & 0x3FF
    value = nodes[index] - rshift_round((nodes[index] - nodes[index + 1]) * rest, 10)
    return np.where(a >= _SIGMOID_ARGUMENT_MAX, 0, value)


def gated_activation(
    gate: Int64Array, up: Int64Array, *, gate_fraction_bits: int
) -> tuple[Int64Array, Int64Array]:
    """Return codes and exponents of SiLU(gate) * up, both int64 [rows, width]."""
    argument = scale_shift(np.abs(gate), gate_fraction_bits - 16)
    below = sigmoid_neg(np.minimum(argument, _SIGMOID_ARGUMENT_MAX))
    sigmoid = np.where(gate >= 0, (1 << 28) - below, below)
    return bfp16(rshift_round(gate * sigmoid, 28) * up)


def moving_average(rows: Int64Array, state: Int64Array) -> Int64Array:
    """Walk int64 [rows, width] in order; the last row returned is the new state."""
    out = np.empty_like(rows)
    for index, row in enumerate(rows):
        state = rshift_round(3 * state + row, 2)
        out[index] = state
    return out
