"""Checks of the bounds that docs/arithmetic.md states, exhaustive where that is possible."""

import math
from collections.abc import Iterator
from itertools import pairwise

import mpmath

from tests.vectors import proofs_attention, proofs_choosing
from tests.vectors.exact import (
    CODE_MAX,
    INT32_MAX,
    G,
    Norm,
    X,
    bfp16,
    pow2neg,
    rms_factor,
    rmsnorm_group,
    rshift_round,
    sigmoid_neg,
)
from tests.vectors.proofs_attention import Finding

_GAIN_MAX = 2**23


def _conventions() -> Iterator[Finding]:
    halves = [((c + 128) >> 8, c) for c in range(-CODE_MAX, CODE_MAX + 1)]
    fits = all(-128 <= h <= 127 and -128 <= c - 256 * h <= 127 for h, c in halves)
    yield Finding(fits, "1: every code splits into two signed bytes (exhaustive)")
    beyond = (CODE_MAX + 1 + 128) >> 8
    yield Finding(beyond == 128, "1: and 32639 is the largest bound for which that holds")
    yield Finding(bfp16([INT32_MAX])[1] == 17, "1: 2^31 - 1 has exponent 17")
    yield Finding(bfp16([2**62 - 1])[1] == 48, "1: 2^62 - 1 has exponent 48")
    symmetric = all(
        abs(rshift_round(-m, s)) <= CODE_MAX
        for s in range(1, 49)
        for edge in [(CODE_MAX << s) + (1 << (s - 1)) - 1]
        for m in (edge - 1, edge)
    )
    yield Finding(symmetric, "1: codes of negative values stay within -32639 at every exponent")


def _tables() -> Iterator[Finding]:
    exact_x = all(
        (2 * v - 1) ** 64 < 2 ** (64 * 25 - j) < (2 * v + 1) ** 64 for j, v in enumerate(X)
    )
    yield Finding(exact_x, "2: every X[j] is the nearest integer (proved with integers)")
    distance = min(_distance_to_tie(j) for j in range(1025))
    near = f"2: every G[j] is at least {distance:.1e} away from a tie (200 bits)"
    yield Finding(distance > 1e-9, near)
    stated = (X[0], X[1], X[32], X[64]) == (16777216, 16596492, 11863283, 8388608)
    yield Finding(stated, "2: the stated entries of X")
    yield Finding((G[0], G[64], G[1024]) == (134217728, 72193413, 30), "2: the stated entries of G")
    widest = max(1023 * (a - b) for table in (X, G) for a, b in pairwise(table))
    bits = (widest + 512).bit_length()
    yield Finding(bits < 32, f"2: 32 bits are enough, the widest product has {bits} bits")


def _distance_to_tie(j: int) -> float:
    with mpmath.workprec(200):
        value = 2**28 / (1 + mpmath.exp(mpmath.mpf(j) / 64))
        fraction = value - mpmath.floor(value)
        return float(abs(fraction - mpmath.mpf(1) / 2))


def _pow2neg() -> Iterator[Finding]:
    end = 23 << 16
    values = [pow2neg(t) for t in range(end + 1)]
    falls = all(a >= b for a, b in pairwise(values))
    yield Finding(falls, f"2: pow2neg never grows over all t in [0, 23 * 2^16], {end + 1} values")
    exact = [math.exp2(20 - t / 65536) for t in range(end + 1)]
    relative = max(abs(values[t] / exact[t] - 1) for t in range(1 << 16))
    limit = 2**-15
    yield Finding(
        relative < limit, f"2: pow2neg relative error {relative:.2e} for t < 1 (limit 2^-15)"
    )
    errors = [v - e for v, e in zip(values, exact, strict=True)]
    worst = max(range(end + 1), key=lambda t: abs(errors[t]))
    text = (
        f"2: pow2neg absolute error {abs(errors[worst]):.3f} units of 2^-20, at t = {worst}"
        f" (limit 16); for t >= 4 * 2^16 {max(map(abs, errors[4 << 16 :])):.3f};"
        f" bias {math.fsum(errors[: 22 << 16]) / (22 << 16):+.3f}"
    )
    yield Finding(abs(errors[worst]) < 16, text)


def _sigmoid_neg() -> Iterator[Finding]:
    values = [sigmoid_neg(a) for a in range(2**20 + 1)]
    falls = all(a >= b for a, b in pairwise(values))
    yield Finding(falls, "2: sigmoid_neg never grows over all a in [0, 2^20]")
    errors = [v - 2**28 / (1 + math.exp(a / 65536)) for a, v in enumerate(values)]
    worst = max(range(len(errors)), key=lambda a: abs(errors[a]))
    relative = max(abs(e) * (1 + math.exp(a / 65536)) / 2**28 for a, e in enumerate(errors[:-1]))
    text = (
        f"2: sigmoid_neg absolute error {abs(errors[worst]):.1f} units of 2^-28 ="
        f" {abs(errors[worst]) / 2**28:.2e}, at a = {worst} (limit 2^-18);"
        f" relative {relative:.2e}; dropped at a = 2^20: {abs(errors[-1]):.1f} units"
    )
    yield Finding(abs(errors[worst]) < 2**10, text)


def _plain_norm(gain: list[int]) -> Norm:
    return Norm(
        gain=gain, gain_exponent=20, epsilon_mantissa=0, epsilon_exponent=0, f_in=20, f_out=26
    )


def _rmsnorm() -> Iterator[Finding]:
    yield Finding(65536 * CODE_MAX**2 < 2**46, "3.2: S < 2^46 at n = 65536")
    yield Finding(CODE_MAX * 2**24 * _GAIN_MAX < 2**62, "3.2: the product stays below 2^62")
    ks = [rms_factor(total)[1] for total in (1, 2**46, 2**47 - 1)]
    yield Finding(ks == [31, 8, 8], f"3.2: k is 31 at T = 1 and 8 at T = 2^47 - 1 (found {ks})")
    limit = 2**29 + 2**8
    # At f_out = ge + 6 the shift is 49 - k; a code can be no larger than sqrt(T) rounded down.
    largest = max(
        rshift_round(math.isqrt(total) * q * _GAIN_MAX, 49 - k)
        for c in range(1, CODE_MAX + 1)
        for total in (c * c, c * c + 1, c * c + 2 * c)
        for q, k in [rms_factor(total)]
    )
    text = (
        f"3.2: largest |y| of a one-hot row 2^29 {largest - 2**29:+d}, all codes (limit 2^29 + 2^8)"
    )
    yield Finding(largest < limit, text)
    # q <= 2^55 / r + 1/2 and q >= 2^23 give q * r <= 2^55 (1 + 2^-24); r > sqrt(T) 2^k (1 - 2^-31).
    # No |c_i| exceeds sqrt(T), so this holds for every row.
    bound = 2**29 * (1 + 2**-24) / (1 - 2**-31) + 1
    yield Finding(
        bound < limit, f"3.2: by the errors of r and q, |y| <= 2^29 + {bound - 2**29:.1f}"
    )
    rows = [
        [1],
        [-INT32_MAX],
        [CODE_MAX, 0, 0, 0],
        [0] * 63 + [-CODE_MAX],
        [7] * 64,
        [CODE_MAX, -CODE_MAX] * 36,
        [INT32_MAX] + [1] * 199,
        [2, 1],
    ]
    norms = [rmsnorm_group(row, _plain_norm([_GAIN_MAX] * len(row))) for row in rows]
    most = max(abs(y) for row in norms for y in row)
    yield Finding(most < limit, f"3.2: adversarial rows give at most 2^29 {most - 2**29:+d}")
    # 65536 equal codes c: T = 65536 c^2, and every result is 1/256 of the one-hot row's.
    equal = max(
        rshift_round(c * q * _GAIN_MAX, 49 - k)
        for c in range(1, CODE_MAX + 1)
        for q, k in [rms_factor(65536 * c * c)]
    )
    yield Finding(equal < limit, f"3.2: 65536 equal codes give at most {equal} (2^21 = {2**21})")


def _products() -> Iterator[Finding]:
    sums = 65536 * CODE_MAX * 127
    yield Finding(sums < 2**38, "3.4: |A| < 2^38 at K = 65536")
    yield Finding(sums * (2**24 - 1) < 2**62, "3.4: |A * m| < 2^62")
    yield Finding(rshift_round(2**62 - 1, 63) == 0, "3.4: a right shift of 63 gives 0")
    turned = rshift_round(2 * INT32_MAX * 2**30, 30)
    yield Finding(2 * INT32_MAX * 2**30 < 2**62, f"3.5: a C - b S < 2^62, result up to {turned}")
    yield Finding(INT32_MAX**2 < 2**62, "3.8: |h * u| < 2^62")
    a = (INT32_MAX << 16).bit_length()
    yield Finding(a == 47, f"3.8: scale_shift(|g|, F_g - 16) needs {a} bits before the min")


def findings() -> Iterator[Finding]:
    """Yield every finding; the attention ones are the last and the slowest."""
    for part in (_conventions, _tables, _pow2neg, _sigmoid_neg, _rmsnorm, _products):
        yield from part()
    yield from proofs_choosing.findings()
    yield from proofs_attention.findings()
