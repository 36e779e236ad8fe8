"""Powers of two with a fraction as integer weights, and the logarithm of their sum."""

from typing import Final

import numpy as np
import numpy.typing as npt

from sslm.numerics.rounding import Int64Array

WEIGHT_BITS: Final = 40
"""The weight of the exponent 0 is two to this."""

EXPONENT_BITS: Final = 24
"""Fraction bits of an exponent."""

COEFFICIENTS: Final = (2977044459, 1031764650, 238385494, 41298234, 5702267, 632021, 46333)
"""c[1] … c[7], with 32 fraction bits: 2**-f is 1 - c[1] f + c[2] f**2 - …, for f from 0 to 1."""

_END: Final = (WEIGHT_BITS + 1) << EXPONENT_BITS
_LN_2: Final = 744261118
"""round(2**30 * ln(2))."""
_LOG2_BITS: Final = 28


def weights(gaps: Int64Array, mantissa: int, shift: int) -> Int64Array:
    """Return ``2**40 * 2**-t`` for ``t = gap * mantissa * 2**-shift``, which has 24 fraction bits.

    Args:
        gaps: int64, any shape, 0 … 2**32 - 1.
        mantissa: In 2**30 … 2**31 - 1.
        shift: In 1 … 62.

    Returns:
        int64 of the same shape, 0 … 2**40. It never grows with the gap.
    """
    half = np.uint64((1 << shift) >> 1)
    exponents = (gaps.astype(np.uint64) * np.uint64(mantissa) + half) >> np.uint64(shift)
    is_some = exponents < np.uint64(_END)
    return np.where(is_some, _powers(np.where(is_some, exponents, 0)), 0).astype(np.int64)


def _powers(exponents: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    whole = exponents >> np.uint64(EXPONENT_BITS)
    fraction = (exponents << np.uint64(32 - EXPONENT_BITS)) & np.uint64(0xFFFF_FFFF)
    value = np.full(fraction.shape, COEFFICIENTS[-1], dtype=np.uint64)
    for coefficient in COEFFICIENTS[-2::-1]:
        value = np.uint64(coefficient) - (fraction * value >> np.uint64(32))
    power = np.uint64(1 << WEIGHT_BITS) - (fraction * value >> np.uint64(64 - WEIGHT_BITS))
    rounded: npt.NDArray[np.uint64] = (power + ((np.uint64(1) << whole) >> np.uint64(1))) >> whole
    return rounded


def log_weight(weight: int, fraction_bits: int) -> int:
    """Return ``ln(weight / 2**40)``.

    Args:
        weight: From 2**40 to 2**60.
        fraction_bits: Of the result, at most 57.
    """
    bits = weight.bit_length() - 1
    square = weight >> (bits - 31)
    log2 = bits - WEIGHT_BITS
    for _ in range(_LOG2_BITS):
        square = square * square >> 31
        log2 = 2 * log2 + (square >> 32)
        square >>= square >> 32
    shift = 30 + _LOG2_BITS - fraction_bits
    return (log2 * _LN_2 + (1 << shift >> 1)) >> shift
