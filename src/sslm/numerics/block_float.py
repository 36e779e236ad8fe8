"""Block floating point: 16-bit codes with one exponent a row."""

from typing import Final

import numpy as np

from sslm.limits import CODE_MAX
from sslm.numerics.rounding import Int64Array, rshift_round

_EXPONENT_MAX: Final = 48


def bfp16(rows: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Bring the last axis to 16-bit codes with a common exponent.

    Args:
        rows: int64 [..., width], ``|value| < 2**62``.

    Returns:
        Codes, int64 [..., width] in -32639 … 32639, and exponents, int64 [...] in 0 … 48.

    See docs/arithmetic.md, "Block floating point".
    """
    largest = np.abs(rows).max(axis=-1)
    # rshift_round falls with the shift, so the smallest shift that fits is the count of misfits.
    candidates = np.arange(_EXPONENT_MAX)
    misfits = rshift_round(largest[..., None], candidates) > CODE_MAX
    exponents = misfits.sum(axis=-1, dtype=np.int64)
    return rshift_round(rows, exponents[..., None]), exponents
