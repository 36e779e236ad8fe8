"""Section 3.7 of docs/arithmetic.md, attention, in plain Python integers.

Split where the page splits it: scores, sums of one group, and what joins the groups. The parts can
so be driven alone, with sums that no list of keys of a bearable length reaches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.vectors.exact import (
    Row,
    Rows,
    bfp16,
    div_round,
    dot,
    pow2neg,
    rshift_round,
    sat32,
    saturate,
    scale_shift,
)


@dataclass(frozen=True, kw_only=True)
class Group:
    """The sums of one group of visible positions: T_g, e_g, D_g and N_gd of steps 3 and 4."""

    t: int
    exponent: int
    d: int
    n: Row


@dataclass(frozen=True, kw_only=True)
class Joined:
    """What steps 5 and 6 make of the groups, with the values whose bounds the page states."""

    d: int
    n: Row
    d_short: int
    reciprocal: int
    n_short: Row
    o: Row
    exponent: int


@dataclass(frozen=True, kw_only=True)
class HeadState:
    """The visible positions of one key/value head, codes [keys][head_dim] and exponents [keys]."""

    first_position: int
    k_codes: Rows
    k_exponents: Row
    v_codes: Rows
    v_exponents: Row


def first_visible(position: int, window: int | None) -> int:
    """Return the first position that a query at *position* sees."""
    return 0 if window is None else max(0, position - window + 1)


def scores(query: Row, fraction_bits: int, state: HeadState) -> list[int]:
    """Step 1: one score for each visible key; *fraction_bits* is F_q + F_k."""
    assert 26 <= fraction_bits <= 78
    q, s_q = bfp16(query)
    return [
        sat32(scale_shift(dot(q, k), fraction_bits - 16 - s_q - s_k))
        for k, s_k in zip(state.k_codes, state.k_exponents, strict=True)
    ]


def group_sums(t: Row, v_codes: Rows, v_exponents: Row) -> Group:
    """Steps 3 and 4 for the keys of one group."""
    t_group = min(t) >> 16
    exponent = max(v_exponents)
    n = [0] * len(v_codes[0])
    d = 0
    for t_j, codes, s in zip(t, v_codes, v_exponents, strict=True):
        rest = t_j - (t_group << 16)
        d += pow2neg(rest)
        weight = pow2neg(rest + ((exponent - s) << 16))
        n = [total + weight * v for total, v in zip(n, codes, strict=True)]
    return Group(t=t_group, exponent=exponent, d=d, n=n)


def join(groups: Sequence[Group]) -> Joined:
    """Steps 5 and 6."""
    exponent = max(group.exponent for group in groups)
    d = sum(rshift_round(group.d << 7, group.t) for group in groups)
    n = [0] * len(groups[0].n)
    for group in groups:
        shift = group.t + exponent - group.exponent
        n = [total + rshift_round(x << 7, shift) for total, x in zip(n, group.n, strict=True)]
    bits = d.bit_length()
    d_short = scale_shift(d, bits - 31)
    reciprocal = div_round(2**60, d_short)
    n_short = [rshift_round(x, bits - 16) for x in n]
    o = [rshift_round(x * reciprocal, 31) for x in n_short]
    return Joined(
        d=d,
        n=n,
        d_short=d_short,
        reciprocal=reciprocal,
        n_short=n_short,
        o=o,
        exponent=exponent,
    )


def attend(query: Row, fraction_bits: int, state: HeadState) -> tuple[list[Group], Joined]:
    """Steps 1 to 6 for one query head."""
    values = scores(query, fraction_bits, state)
    largest = max(values)
    members: dict[tuple[int, bool], list[int]] = {}
    for index, value in enumerate(values):
        group = (state.first_position + index) >> 6, largest - value >= 8 << 16
        members.setdefault(group, []).append(index)
    groups = [
        group_sums(
            [largest - values[i] for i in indexes],
            [state.v_codes[i] for i in indexes],
            [state.v_exponents[i] for i in indexes],
        )
        for indexes in members.values()
    ]
    return groups, join(groups)


def outputs(joined: Joined) -> list[int]:
    """Step 7 before its saturation."""
    return [scale_shift(o, 14 - joined.exponent) for o in joined.o]


def attention(
    *,
    q: Rows,
    fraction_bits: int,
    first_position: int,
    k_codes: Sequence[Rows],
    k_exponents: Rows,
    v_codes: Sequence[Rows],
    v_exponents: Rows,
) -> dict[str, object]:
    """Section 3.7 for all heads of one row.

    Args:
        q: Query values, [num_attention_heads][head_dim].
        fraction_bits: F_q + F_k.
        first_position: The first visible position; the state starts with it and ends with p.
        k_codes: [keys][num_key_value_heads][head_dim].
        k_exponents: [keys][num_key_value_heads].
        v_codes: As *k_codes*.
        v_exponents: As *k_exponents*.

    Returns:
        ``y``, [num_attention_heads * head_dim], and ``saturations``.
    """
    kv_heads = len(k_codes[0])
    y: list[int] = []
    for head, query in enumerate(q):
        kv_head = head * kv_heads // len(q)
        state = HeadState(
            first_position=first_position,
            k_codes=[position[kv_head] for position in k_codes],
            k_exponents=[position[kv_head] for position in k_exponents],
            v_codes=[position[kv_head] for position in v_codes],
            v_exponents=[position[kv_head] for position in v_exponents],
        )
        y += outputs(attend(query, fraction_bits, state)[1])
    return saturate(y)
