"""Vectors of the conventions and tables: sections 1 and 2 of docs/arithmetic.md."""

import math
from collections.abc import Iterator
from random import Random

from tests.vectors.exact import (
    CODE_MAX,
    INT32_MAX,
    G,
    X,
    bfp16,
    div_round,
    pow2neg,
    rope_row,
    rshift_round,
    sat32,
    scale_shift,
    sigmoid_neg,
)

Vector = dict[str, object]


def signed(rng: Random, bits: int) -> int:
    """Return an integer of a random width of up to *bits* bits with a random sign."""
    magnitude = rng.getrandbits(rng.randint(1, bits))
    return -magnitude if rng.random() < 0.5 else magnitude


def rshift_round_vectors() -> Iterator[Vector]:
    rng = Random("rshift_round")
    pairs = [(x, 1) for x in range(-5, 6)] + [(x, 2) for x in range(-7, 8)]
    pairs += [(0, 0), (-7, 0), (INT32_MAX, 0), (INT32_MAX, 16), (-INT32_MAX, 16)]
    for s in (1, 7, 16, 31, 47, 61):
        half = 1 << (s - 1)
        pairs += [(x, s) for x in (half - 1, half, half + 1, -half + 1, -half, -half - 1)]
        pairs += [(x, s) for x in (3 * half, -3 * half)]
    big = 2**62 - 1
    pairs += [(x, s) for x in (big, -big) for s in (1, 30, 61, 62, 63, 64, 100)]
    pairs += [(signed(rng, 62), rng.randint(0, 62)) for _ in range(60)]
    for x, s in dict.fromkeys(pairs):
        yield {"name": f"x={x} s={s}", "x": x, "s": s, "expected": rshift_round(x, s)}


def scale_shift_vectors() -> Iterator[Vector]:
    rng = Random("scale_shift")
    pairs = [(x, s) for x in (-3, -1, 0, 1, 3) for s in (-24, -1, 0, 1, 2)]
    pairs += [(2**62 - 1, 62), (1 - 2**62, 62), (2**62 - 1, 63), (1 - 2**62, 110)]
    pairs += [(INT32_MAX, -24), (-INT32_MAX, -24), (2**38 - 1, -24), (1 - 2**38, -24)]
    pairs += [(signed(rng, 62), rng.randint(0, 64)) for _ in range(30)]
    pairs += [(signed(rng, 38), -rng.randint(1, 24)) for _ in range(20)]
    for x, s in dict.fromkeys(pairs):
        yield {"name": f"x={x} s={s}", "x": x, "s": s, "expected": scale_shift(x, s)}


def div_round_vectors() -> Iterator[Vector]:
    rng = Random("div_round")
    pairs = [(a, d) for a in (-7, -5, -3, -1, 0, 1, 3, 5, 7) for d in (1, 2, 3, 10)]
    pairs += [(2**55, 2**31), (2**55, 2**32 - 1), (2**55, 2**31 + 1), (2**55, 3037000499)]
    pairs += [(2**60, 2**30), (2**60, 2**31), (2**60, 2**31 - 1), (2**60, 2**30 + 1)]
    pairs += [(2**55, rng.randint(2**31, 2**32 - 1)) for _ in range(20)]
    pairs += [(2**60, rng.randint(2**30, 2**31)) for _ in range(20)]
    for a, d in dict.fromkeys(pairs):
        yield {"name": f"a={a} d={d}", "a": a, "d": d, "expected": div_round(a, d)}


def sat32_vectors() -> Iterator[Vector]:
    rng = Random("sat32")
    values = [
        sign * (edge + step)
        for edge in (0, 2**31)
        for step in (-2, -1, 0, 1, 2)
        for sign in (1, -1)
    ]
    values += [sign * edge for edge in (2**32, 2**33 + 1, 2**62, 2**63 - 1) for sign in (1, -1)]
    values += [signed(rng, 40) for _ in range(20)]
    for x in dict.fromkeys(values):
        expected = {"y": sat32(x), "saturations": int(sat32(x) != x)}
        yield {"name": f"x={x}", "x": x, "expected": expected}


def isqrt_vectors() -> Iterator[Vector]:
    rng = Random("isqrt")
    values = [0, 1, 2, 3, 4, 5, 8, 9, 2**62, 2**62 - 1, 2**62 + 1, 2**63, 2**64 - 1, 2**64 - 2]
    for root in (2**16, 2**26, 2**27 - 1, 2**31, 2**31 + 1, 2**32 - 1, 3037000499, 4294967290):
        values += [root * root - 1, root * root, root * root + 1]
    values += [rng.randint(2**62, 2**64 - 1) for _ in range(20)]
    values += [rng.getrandbits(rng.randint(1, 62)) for _ in range(20)]
    for x in dict.fromkeys(values):
        yield {"name": f"x={x}", "x": x, "expected": math.isqrt(x)}


def _bfp16_rows(rng: Random) -> Iterator[tuple[str, list[int]]]:
    yield "one zero", [0]
    yield "zeros", [0] * 17
    yield "largest code", [CODE_MAX, -CODE_MAX, 1, -1, 0]
    yield "one over the largest code", [CODE_MAX + 1, -CODE_MAX - 1, 1, -1, 3, -3]
    yield "the largest is negative", [5, -CODE_MAX - 1, 7]
    yield "rounds to the largest code", [2 * CODE_MAX, -2 * CODE_MAX, 1, -1]
    yield "rounds up over the largest code", [2 * CODE_MAX + 1, 1, -1, 3, -3, 5]
    yield "negative twin stays below", [-2 * CODE_MAX - 1, 1, -1, 3, -3, 5]
    yield "int32 limits", [INT32_MAX, -INT32_MAX, 65536, -65536, 65535, -65535, 0, 1]
    yield "alone at the int32 limit", [-INT32_MAX]
    yield "ties at exponent 17", [INT32_MAX] + [k * 2**16 for k in range(-5, 6)]
    yield "62 bits", [2**62 - 1, 1 - 2**62, 2**47, -(2**47), 2**47 - 1, -(2**47) + 1]
    for s in (1, 2, 5, 16, 17, 30, 47):
        edge = (CODE_MAX << s) + (1 << (s - 1))
        if edge < 2**62:
            yield f"last row of exponent {s}", [edge - 1, 1 - edge, 1 << (s - 1), -(1 << (s - 1))]
            yield f"first row beyond exponent {s}", [edge, -edge, 1 << s, -(1 << s)]
    for size in (1, 2, 7, 8, 9, 15, 16, 31, 33, 64, 200):
        yield f"int32, {size} values", [signed(rng, 31) for _ in range(size)]
    for bits in (15, 16, 20, 24, 30):
        yield f"{bits} bits", [signed(rng, bits) for _ in range(19)]
    for bits in (32, 40, 48, 55, 62):
        yield f"int64, {bits} bits", [signed(rng, bits) for _ in range(21)]


def bfp16_vectors() -> Iterator[Vector]:
    for name, row in _bfp16_rows(Random("bfp16")):
        codes, s = bfp16(row)
        assert all(abs(c) <= CODE_MAX for c in codes)
        yield {"name": name, "row": row, "expected": {"codes": codes, "exponent": s}}


def table_vectors() -> Iterator[Vector]:
    yield {"name": "X", "expected": X}
    yield {"name": "G", "expected": G}


def pow2neg_vectors() -> Iterator[Vector]:
    rng = Random("pow2neg")
    values = [0, 1, 2, 3, 511, 512, 1022, 1023, 1024, 1025, 2047, 32768, 65535]
    for i in (*range(1, 6), 12, 20, 21, 22, 23):
        values += [(i << 16) + step for step in (-1025, -1, 0, 1, 1023, 1024)]
    values += [22 * 65536 - 2, 24 << 16, 2**31, 2**32 - 1, 2**32 + 17 * 65536]
    values += [rng.randrange(22 << 16) for _ in range(60)]
    for t in dict.fromkeys(values):
        yield {"name": f"t={t}", "t": t, "expected": pow2neg(t)}


def sigmoid_neg_vectors() -> Iterator[Vector]:
    rng = Random("sigmoid_neg")
    values = [0, 1, 2, 511, 512, 1023, 1024, 1025, 65535, 65536, 65537, 131072, 300000]
    values += [2**20 - 1025, 2**20 - 1024, 2**20 - 1023, 2**20 - 2, 2**20 - 1, 2**20, 2**20 + 1]
    values += [2**31, 2**40] + [rng.randrange(2**20) for _ in range(60)]
    for a in dict.fromkeys(values):
        yield {"name": f"a={a}", "a": a, "expected": sigmoid_neg(a)}


def _rope_table_vector(
    name: str, theta: int, rotary_dim: int, position: int, factors: list[tuple[int, int]]
) -> Vector:
    cos, sin = rope_row(rope_theta=theta, rotary_dim=rotary_dim, position=position, factors=factors)
    return {
        "name": f"{name}theta={theta} rotary_dim={rotary_dim} position={position}",
        "rope_theta": theta,
        "rotary_dim": rotary_dim,
        "position": position,
        "factors": factors,
        "expected": {"cos": cos, "sin": sin},
    }


def rope_table_vectors() -> Iterator[Vector]:
    for theta in (10000, 100000):
        for rotary_dim in (64, 24):
            for position in (0, 1, 2, 63, 64, 1000, 8191):
                ones = [(1, 1)] * (rotary_dim // 2)
                yield _rope_table_vector("", theta, rotary_dim, position, ones)
    for position in (1, 8191):
        yield _rope_table_vector("linear factor 4, ", 10000, 24, position, [(4, 1)] * 12)
        mixed = [(1, 1)] * 5 + [(3, 2), (5, 2), (17, 4)] + [(32, 1)] * 4
        yield _rope_table_vector("a factor for each pair, ", 500000, 24, position, mixed)
