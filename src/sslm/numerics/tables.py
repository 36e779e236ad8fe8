"""The two interpolation tables of profile int/1, from integers alone.

docs/arithmetic.md, "Tables", defines them. They are recomputed at start rather than stored: a few
milliseconds buy a definition that can be read, and no file can bring other values.
"""

from array import array
from functools import cache
from typing import Final

POW2_NODE_COUNT: Final = 65
SIGMOID_NODE_COUNT: Final = 1025

_GUARD_BITS: Final = 128
_ONE: Final = 1 << _GUARD_BITS


@cache
def pow2_nodes() -> "array[int]":
    """Return X[j] = round(2**24 * 2**(-j/64)), j = 0 … 64, as int32."""
    # X[j] is the 64th root of 2**(24 * 64 - j): an integer root of an integer, rounded.
    return array("i", [_rounded_root64(24 * 64 - j) for j in range(POW2_NODE_COUNT)])


@cache
def sigmoid_nodes() -> "array[int]":
    """Return G[j] = round(2**28 / (1 + e**(j/64))), j = 0 … 1024, as int32."""
    step = _exp_of_64th()
    power = _ONE
    nodes = []
    for _ in range(SIGMOID_NODE_COUNT):
        numerator, denominator = _ONE << 28, _ONE + power
        nodes.append((2 * numerator + denominator) // (2 * denominator))
        power = power * step >> _GUARD_BITS
    return array("i", nodes)


def _rounded_root64(exponent: int) -> int:
    """Return round(2**(exponent / 64)); the exponent is that of a value below 2**25."""
    # Twice the root, floored, then halved upwards: the root itself is never a half integer.
    target = 1 << (exponent + 64)
    low, high = 0, 1 << 26
    while high - low > 1:
        middle = (low + high) // 2
        if middle**64 <= target:
            low = middle
        else:
            high = middle
    return (low + 1) // 2


def _exp_of_64th() -> int:
    """Return e**(1/64) with 128 fraction bits, by its Taylor series."""
    total = term = _ONE
    for n in range(1, 32):
        term //= 64 * n
        total += term
    return total
