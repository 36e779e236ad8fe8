"""Checks of the bounds of section 5 of docs/arithmetic.md."""

from collections.abc import Iterator
from itertools import pairwise

import mpmath
import numpy as np

from tests.vectors import exact_choosing as exact
from tests.vectors.proofs_attention import Finding

ONE = 2**24


def _weights_of_fractions() -> np.ndarray:
    """Weights of all exponents from 0 to below 1, as the page says, in 64 bits."""
    fraction = np.arange(ONE, dtype=np.uint64) << np.uint64(8)
    h = np.full(ONE, exact.COEFFICIENTS[6], dtype=np.uint64)
    for c in exact.COEFFICIENTS[5::-1]:
        h = np.uint64(c) - (fraction * h >> np.uint64(32))
    return (np.uint64(2**40) - (fraction * h >> np.uint64(24))).astype(np.int64)


def findings() -> Iterator[Finding]:
    """Yield what the page states and whether it holds."""
    mpmath.mp.prec = 200
    weights = _weights_of_fractions()
    sample = [exact.weight(t, 2**30, 30) for t in range(0, ONE, 65_537)]
    yield Finding(sample == weights[::65_537].tolist(), "5.4: the same weights in 64 bits")
    falls = int(-np.diff(weights).max())
    yield Finding(falls == 22017, f"5.4: each weight is smaller by {falls} or more (exhaustive)")
    yield Finding(weights[-1] > 2**39, "5.4: the last one is larger than half (exhaustive)")
    relative = weights / np.exp2(40 - np.arange(ONE) / ONE) - 1
    yield Finding(
        bool(np.abs(relative).max() < 2**-29.5), "5.4: the polynomial's error is below 2^-29.5"
    )
    rounding = mpmath.log(2) * (mpmath.mpf(2) ** -25 + 41 * mpmath.mpf(2) ** -31)
    total = rounding + mpmath.mpf(2) ** -29.5
    yield Finding(total < mpmath.mpf(2) ** -24.7, "5.4: a weight's relative error is below 2^-24.7")
    temperatures = [1, 2, 999_999, 10**6, 10**6 + 1, 2**31 - 1]
    scales = [exact.scale(t) for t in temperatures]
    fits = all(2**30 <= m < 2**31 and 1 <= h <= 62 for m, h in scales)
    yield Finding(fits, "5.4: 2^30 <= m < 2^31 and 1 <= h <= 62 for all temperatures")
    ordered = all(one[1] <= other[1] for one, other in pairwise(scales))
    yield Finding(ordered, "5.4: h grows with the temperature")
    yield Finding(exact.scale(10**6) == (1549082005, 26), "5.4: m and h of the temperature 1")
    k = int(mpmath.nint(mpmath.mpf(2) ** 96 / mpmath.log(2)))
    yield Finding(k == exact.LOG2_E_96, "5.4: K is log2(e)")
    yield Finding(int(mpmath.nint(mpmath.log(2) * 2**30)) == 744261118, "5.10: ln(2)")
    yield Finding(20 * 2**28 * 744261118 < 2**62, "5.10: the product fits 62 bits")
