"""The arithmetic of docs/arithmetic.md (profile int/1, version 1) in plain Python integers.

Written from the page alone, for clearness and not for speed: it shares no code with the package,
so that a misreading in either shows up as a difference. Section numbers are those of the page.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mpmath

CODE_MAX = 32639
INT32_MAX = 2**31 - 1

Row = Sequence[int]
Rows = Sequence[Row]


# Section 1: conventions.


def rshift_round(x: int, s: int) -> int:
    """Return x / 2^s, halves going up; s >= 0."""
    assert s >= 0
    return x if s == 0 else (x + (1 << (s - 1))) >> s


def scale_shift(x: int, s: int) -> int:
    """Return ``rshift_round(x, s)``, or x * 2^-s exactly for a negative s."""
    return rshift_round(x, s) if s >= 0 else x << -s


def div_round(a: int, d: int) -> int:
    """Return a / d, halves going up; d > 0."""
    assert d > 0
    return (2 * a + d) // (2 * d)


def sat32(x: int) -> int:
    """Clamp x to +-(2^31 - 1)."""
    return max(-INT32_MAX, min(INT32_MAX, x))


def saturate(row: Row) -> dict[str, object]:
    """Return the row after ``sat32`` and how many of its elements changed."""
    clamped = [sat32(x) for x in row]
    changed = sum(a != b for a, b in zip(clamped, row, strict=True))
    return {"y": clamped, "saturations": changed}


def bfp16(row: Row) -> tuple[list[int], int]:
    """Return the codes and the exponent of a row in block floating point."""
    largest = max(abs(v) for v in row)
    s = 0
    while rshift_round(largest, s) > CODE_MAX:
        s += 1
    return [rshift_round(v, s) for v in row], s


def dot(a: Row, b: Row) -> int:
    """Return the exact inner product of two rows of one length."""
    return sum(x * y for x, y in zip(a, b, strict=True))


# Section 2: tables.


def _table_x() -> list[int]:
    with mpmath.workprec(200):
        return [int(mpmath.nint(mpmath.power(2, 24 - mpmath.mpf(j) / 64))) for j in range(65)]


def _table_g() -> list[int]:
    with mpmath.workprec(200):
        return [int(mpmath.nint(2**28 / (1 + mpmath.exp(mpmath.mpf(j) / 64)))) for j in range(1025)]


X = _table_x()
G = _table_g()


def pow2neg(t: int) -> int:
    """Return 2^20 * 2^-t for a t >= 0 with 16 fraction bits."""
    assert t >= 0
    if t >= 22 << 16:
        return 0
    i, f = t >> 16, t % 2**16
    j, r = f >> 10, f % 2**10
    y = X[j] - rshift_round((X[j] - X[j + 1]) * r, 10)
    return rshift_round(y, 4 + i)


def sigmoid_neg(a: int) -> int:
    """Return 2^28 * sigmoid(-a) for an a >= 0 with 16 fraction bits."""
    assert a >= 0
    if a >= 2**20:
        return 0
    j, r = a >> 10, a % 2**10
    return G[j] - rshift_round((G[j] - G[j + 1]) * r, 10)


def rope_row(
    *, rope_theta: int, rotary_dim: int, position: int, factors: Sequence[tuple[int, int]]
) -> tuple[list[int], list[int]]:
    """Return the cos and sin entries of one position, one for each pair.

    Args:
        rope_theta: Base of the frequencies.
        rotary_dim: Rotated elements of a head, even.
        position: Position in the sequence.
        factors: For each pair the number that divides its frequency, as numerator, denominator.
    """
    cos, sin = [], []
    with mpmath.workprec(200):
        for i, (numerator, denominator) in enumerate(factors):
            theta = mpmath.power(rope_theta, -mpmath.mpf(2 * i) / rotary_dim)
            angle = position * theta * denominator / numerator
            cos.append(int(mpmath.nint(2**30 * mpmath.cos(angle))))
            sin.append(int(mpmath.nint(2**30 * mpmath.sin(angle))))
    return cos, sin


# Section 3: operations, except attention.


def embed(*, weights: Rows, mantissas: Row, exponent: int, token_id: int) -> dict[str, object]:
    """Section 3.1."""
    assert -24 <= exponent <= 62
    m = mantissas[token_id]
    return saturate([scale_shift(w * m, exponent) for w in weights[token_id]])


@dataclass(frozen=True, kw_only=True)
class Norm:
    """The constants of one rmsnorm."""

    gain: Row
    gain_exponent: int
    epsilon_mantissa: int
    epsilon_exponent: int
    f_in: int
    f_out: int


def rms_factor(total: int) -> tuple[int, int]:
    """Return ``(q, k)`` of steps 3 and 4 of section 3.2 for T = *total*."""
    assert total > 0
    k = 31
    while total << (2 * k) >= 2**64:
        k -= 1
    r = math.isqrt(total << (2 * k))
    assert 2**31 <= r < 2**32
    q = div_round(2**55, r)
    assert 2**23 <= q <= 2**24
    return q, k


def rmsnorm_group(x: Row, norm: Norm) -> list[int]:
    """Section 3.2 for one group, before the saturation of step 5."""
    n = len(x)
    assert n == len(norm.gain)
    codes, s = bfp16(x)
    squares = sum(c * c for c in codes)
    if squares == 0:
        return [0] * n
    shift = norm.epsilon_exponent - 2 * norm.f_in + 2 * s
    total = squares + scale_shift(n * norm.epsilon_mantissa, shift)
    q, k = rms_factor(total)
    shift = 55 - k + norm.gain_exponent - norm.f_out
    assert shift >= 0
    return [scale_shift(c * q * g, shift) for c, g in zip(codes, norm.gain, strict=True)]


def rmsnorm(x: Row, norm: Norm) -> dict[str, object]:
    """Section 3.2 for a row; each group is as wide as the gain, which all groups share."""
    n = len(norm.gain)
    groups = [x[i : i + n] for i in range(0, len(x), n)]
    return saturate([y for group in groups for y in rmsnorm_group(group, norm)])


def linear(
    *,
    codes: Row,
    exponent: int,
    weights: Rows,
    mantissas: Row,
    weight_exponent: int,
    bias: Row | None,
    old: Row | None,
) -> dict[str, object]:
    """Section 3.4."""
    y = []
    for n, (w, m) in enumerate(zip(weights, mantissas, strict=True)):
        scaled = scale_shift(dot(codes, w) * m, weight_exponent - exponent)
        y.append(scaled + (bias[n] if bias else 0) + (old[n] if old else 0))
    return saturate(y)


def rope(
    *,
    x: Row,
    head_dim: int,
    rotary_dim: int,
    pairing: str,
    cos: Row,
    sin: Row,
) -> dict[str, object]:
    """Section 3.5."""
    y = list(x)
    for start in range(0, len(x), head_dim):
        for i in range(rotary_dim // 2):
            if pairing == "interleaved":
                first, second = start + 2 * i, start + 2 * i + 1
            else:
                first, second = start + i, start + i + rotary_dim // 2
            a, b = x[first], x[second]
            y[first] = rshift_round(a * cos[i] - b * sin[i], 30)
            y[second] = rshift_round(b * cos[i] + a * sin[i], 30)
    return saturate(y)


def append(row: Row, head_dim: int) -> tuple[list[list[int]], list[int]]:
    """Section 3.6 for one K or V row: the codes and the exponent of every head."""
    heads = [bfp16(row[i : i + head_dim]) for i in range(0, len(row), head_dim)]
    return [codes for codes, _ in heads], [s for _, s in heads]


def gated_activation(*, gate: Row, up: Row, f_g: int) -> tuple[list[int], int]:
    """Section 3.8."""
    assert 0 <= f_g <= 40
    v = []
    for g, u in zip(gate, up, strict=True):
        z = sigmoid_neg(min(scale_shift(abs(g), f_g - 16), 2**20))
        h = rshift_round(g * (2**28 - z if g >= 0 else z), 28)
        v.append(h * u)
    assert all(abs(product) < 2**62 for product in v)
    return bfp16(v)


def add(a: Row, b: Row) -> dict[str, object]:
    """Section 3.9."""
    return saturate([x + y for x, y in zip(a, b, strict=True)])


def logits(codes: Row, weights: Rows, mantissas: Row) -> list[int]:
    """Section 3.10."""
    return [m * dot(codes, w) for w, m in zip(weights, mantissas, strict=True)]


def choose_plain(values: Row) -> int:
    """Section 3.11."""
    return list(values).index(max(values))


def moving_average(rows: Rows) -> list[list[int]]:
    """Section 3.12 from the zero state: the output of every row, which is the state after it."""
    state = [0] * len(rows[0])
    outputs = []
    for row in rows:
        state = [rshift_round(3 * h + x, 2) for h, x in zip(state, row, strict=True)]
        outputs.append(state)
    return outputs
