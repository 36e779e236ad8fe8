"""The ops of docs/arithmetic.md in plain Python integers: slow, and sharing nothing with NumPy.

Rows are lists. The table nodes are the package's own, which have a test of their own.
"""

from collections.abc import Sequence
from math import isqrt

from sslm.numerics.tables import pow2_nodes, sigmoid_nodes

INT32_MAX = 2**31 - 1
CODE_MAX = 32639

Row = list[int]
Rows = list[Row]


def round_shift(value: int, shift: int) -> int:
    return value if shift == 0 else (value + (1 << (shift - 1))) >> shift


def scale_shift(value: int, shift: int) -> int:
    return round_shift(value, shift) if shift >= 0 else value << -shift


def div_round(numerator: int, divisor: int) -> int:
    return (2 * numerator + divisor) // (2 * divisor)


def clamp(value: int) -> int:
    return max(-INT32_MAX, min(INT32_MAX, value))


def saturated(row: Sequence[int]) -> tuple[Row, int]:
    clamped = [clamp(value) for value in row]
    return clamped, sum(a != b for a, b in zip(clamped, row, strict=True))


def bfp16(row: Sequence[int]) -> tuple[Row, int]:
    largest = max(map(abs, row))
    shift = next(s for s in range(64) if round_shift(largest, s) <= CODE_MAX)
    return [round_shift(value, shift) for value in row], shift


def dot(left: Sequence[int], right: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(left, right, strict=True))


def pow2neg(t: int) -> int:
    if t >= 22 << 16:
        return 0
    whole, fraction = divmod(t, 1 << 16)
    node, rest = divmod(fraction, 1 << 10)
    low, high = pow2_nodes()[node], pow2_nodes()[node + 1]
    return round_shift(low - round_shift((low - high) * rest, 10), 4 + whole)


def sigmoid_neg(a: int) -> int:
    if a >= 1 << 20:
        return 0
    node, rest = divmod(a, 1 << 10)
    low, high = sigmoid_nodes()[node], sigmoid_nodes()[node + 1]
    return low - round_shift((low - high) * rest, 10)


def rmsnorm_group(
    group: Sequence[int],
    gain: Sequence[int],
    *,
    gain_exponent: int,
    epsilon: tuple[int, int],
    f_in: int,
    f_out: int,
) -> tuple[Row, int]:
    """Section 3.2; *epsilon* is (mantissa, exponent)."""
    codes, s = bfp16(group)
    squares = dot(codes, codes)
    if squares == 0:
        return [0] * len(group), 0
    mantissa, exponent = epsilon
    total = squares + scale_shift(len(group) * mantissa, exponent - 2 * f_in + 2 * s)
    k = max(k for k in range(32) if total << (2 * k) < 1 << 64)
    root = isqrt(total << (2 * k))
    assert 1 << 31 <= root < 1 << 32
    q = div_round(1 << 55, root)
    assert 1 << 23 <= q <= 1 << 24
    shift = 55 - k + gain_exponent - f_out
    assert shift >= 0
    return saturated([round_shift(c * q * g, shift) for c, g in zip(codes, gain, strict=True)])


def linear_values(
    codes: Sequence[int], weights: Sequence[Sequence[int]], mantissas: Sequence[int], shift: int
) -> Row:
    """Section 3.4 before bias, old value and saturation; *shift* is e - s."""
    return [scale_shift(dot(codes, w) * m, shift) for w, m in zip(weights, mantissas, strict=True)]


def rope(
    row: Sequence[int], cos: Sequence[int], sin: Sequence[int], *, head_dim: int, pairing: str
) -> tuple[Row, int]:
    """Section 3.5 for a row of heads at one position."""
    out = list(row)
    half = len(cos)
    for start in range(0, len(row), head_dim):
        for i, (c, s) in enumerate(zip(cos, sin, strict=True)):
            first, second = (2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + half)
            a, b = row[start + first], row[start + second]
            out[start + first] = round_shift(a * c - b * s, 30)
            out[start + second] = round_shift(b * c + a * s, 30)
    return saturated(out)


KeyValue = tuple[Row, int]
"""Codes and exponent of one head at one position."""


def attention_head(
    query: Sequence[int],
    keys: dict[int, KeyValue],
    values: dict[int, KeyValue],
    *,
    fraction_bits: int,
) -> Row:
    """Section 3.7, not yet saturated: the visible positions only, by position.

    *fraction_bits* is F_q + F_k.
    """
    q, s_q = bfp16(query)
    scores = {
        j: clamp(scale_shift(dot(q, codes), fraction_bits - 16 - s_q - s_k))
        for j, (codes, s_k) in keys.items()
    }
    highest = max(scores.values())
    t = {j: highest - score for j, score in scores.items()}
    groups: dict[tuple[int, bool], list[int]] = {}
    for j, distance in t.items():
        groups.setdefault((j >> 6, distance >= 8 << 16), []).append(j)
    exponent = max(values[j][1] for j in t)
    d_sum, n_sum = 0, [0] * len(query)
    for members in groups.values():
        t_group = min(t[j] for j in members) >> 16
        e_group = max(values[j][1] for j in members)
        d_group, n_group = 0, [0] * len(query)
        for j in members:
            rest = t[j] - (t_group << 16)
            codes, s_v = values[j]
            weight = pow2neg(rest + ((e_group - s_v) << 16))
            d_group += pow2neg(rest)
            n_group = [n + weight * v for n, v in zip(n_group, codes, strict=True)]
        assert d_group <= 1 << 26
        assert all(abs(n) < 1 << 41 for n in n_group)
        d_sum += round_shift(d_group << 7, t_group)
        down = t_group + exponent - e_group
        n_sum = [n + round_shift(m << 7, down) for n, m in zip(n_sum, n_group, strict=True)]
    assert 1 << 27 <= d_sum <= 1 << 47
    bits = d_sum.bit_length()
    reciprocal = div_round(1 << 60, scale_shift(d_sum, bits - 31))
    small = [round_shift(n, bits - 16) for n in n_sum]
    assert all(abs(n) < 1 << 31 for n in small)
    return [scale_shift(round_shift(n * reciprocal, 31), 14 - exponent) for n in small]


def gated_activation(
    gate: Sequence[int], up: Sequence[int], *, gate_fraction_bits: int
) -> tuple[Row, int]:
    """Section 3.8."""
    products = []
    for g, u in zip(gate, up, strict=True):
        z = sigmoid_neg(min(scale_shift(abs(g), gate_fraction_bits - 16), 1 << 20))
        sigma = (1 << 28) - z if g >= 0 else z
        products.append(round_shift(g * sigma, 28) * u)
    assert all(abs(product) < 1 << 62 for product in products)
    return bfp16(products)


def moving_average(rows: Rows, state: Row) -> Rows:
    """Section 3.12: the state after each row."""
    out = []
    for row in rows:
        state = [round_shift(3 * h + x, 2) for h, x in zip(state, row, strict=True)]
        out.append(state)
    return out
