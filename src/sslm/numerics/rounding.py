"""Rounding shifts, division and saturation of NumPy integers."""

from typing import Final

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]

INT32_MAX: Final = (1 << 31) - 1


def rshift_round(value: Int64Array, shift: npt.ArrayLike) -> Int64Array:
    """Divide by ``2**shift``, rounding halves up.

    Args:
        value: int64, any shape, ``|value| < 2**62``.
        shift: Non-negative, broadcast against *value*; 63 and more give 0.

    Returns:
        int64, the broadcast shape.

    See docs/arithmetic.md, "Conventions".
    """
    bits = np.minimum(np.asarray(shift, dtype=np.int64), 63)
    half = np.where(bits > 0, np.int64(1) << np.maximum(bits - 1, 0), 0)
    return (value + half) >> bits


def scale_shift(value: Int64Array, shift: npt.ArrayLike) -> Int64Array:
    """Divide by ``2**shift`` as :func:`rshift_round`, or multiply exactly where it is negative.

    Args:
        value: int64, any shape, ``|value| < 2**62``; where *shift* is negative the product must
            stay below ``2**63``.
        shift: Broadcast against *value*.

    Returns:
        int64, the broadcast shape.
    """
    bits = np.asarray(shift, dtype=np.int64)
    right = rshift_round(value, np.maximum(bits, 0))
    return np.where(bits >= 0, right, value << np.maximum(-bits, 0))


def div_round(numerator: int, divisor: int) -> int:
    """Divide Python integers, rounding halves up; the divisor is positive."""
    return (2 * numerator + divisor) // (2 * divisor)


def saturate(value: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Clamp to ±(2**31 - 1).

    Args:
        value: int64 [rows, width].

    Returns:
        The clamped values, and how many of each row changed: int64 [rows].
    """
    clamped = np.clip(value, -INT32_MAX, INT32_MAX)
    return clamped, np.count_nonzero(clamped != value, axis=-1)
