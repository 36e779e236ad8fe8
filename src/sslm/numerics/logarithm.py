"""The logarithm of a sum of weights (docs/arithmetic.md, "Choosing")."""

from typing import Final

from sslm.numerics.weights import WEIGHT_BITS

_LN_2: Final = 744261118
"""round(2**30 * ln(2))."""

_LOG2_BITS: Final = 28


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
