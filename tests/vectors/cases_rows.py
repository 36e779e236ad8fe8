"""Vectors of the ops that work on rows alone: section 3 of docs/arithmetic.md."""

from collections.abc import Iterator, Sequence
from random import Random

from tests.vectors import exact
from tests.vectors.cases_primitives import Vector, signed
from tests.vectors.exact import CODE_MAX, INT32_MAX, Norm


def int32_row(rng: Random, size: int, bits: int = 31) -> list[int]:
    """Return *size* values of random widths up to *bits* bits."""
    return [signed(rng, bits) for _ in range(size)]


def uniform_row(rng: Random, size: int, bits: int = 31) -> list[int]:
    """Return *size* values that spread evenly over +-(2^bits - 1)."""
    limit = 2**bits - 1
    return [rng.randint(-limit, limit) for _ in range(size)]


def _norm_vector(name: str, x: Sequence[int], norm: Norm) -> Vector:
    n = len(norm.gain)
    epsilon = n * norm.epsilon_mantissa
    assert exact.scale_shift(epsilon, norm.epsilon_exponent - 2 * norm.f_in) < 2**46
    assert norm.f_out <= norm.gain_exponent + 24
    assert all(abs(g) <= 2**23 for g in norm.gain)
    return {
        "name": name,
        "x": x,
        "gain": norm.gain,
        "gain_exponent": norm.gain_exponent,
        "epsilon_mantissa": norm.epsilon_mantissa,
        "epsilon_exponent": norm.epsilon_exponent,
        "f_in": norm.f_in,
        "f_out": norm.f_out,
        "expected": exact.rmsnorm(x, norm),
    }


# 1e-5 to 24 bits: 10995116 * 2^-40.
_EPSILON = (10995116, 40)


def _norm(
    gain: Sequence[int],
    *,
    ge: int = 20,
    f_in: int = 20,
    f_out: int = 26,
    epsilon: tuple[int, int] = _EPSILON,
) -> Norm:
    return Norm(
        gain=gain,
        gain_exponent=ge,
        epsilon_mantissa=epsilon[0],
        epsilon_exponent=epsilon[1],
        f_in=f_in,
        f_out=f_out,
    )


def _norm_edges(rng: Random) -> Iterator[Vector]:
    top = 2**23
    yield _norm_vector("a row of zeros", [0] * 8, _norm([top] * 8))
    yield _norm_vector("zeros without epsilon", [0] * 3, _norm([top] * 3, epsilon=(0, 0)))
    yield _norm_vector("a zero group between others", [5, -9, 0, 0, 7, 70000], _norm([top, -top]))
    yield _norm_vector("one value, no epsilon", [1], _norm([top], epsilon=(0, 0)))
    yield _norm_vector("one negative value", [-1], _norm([top], epsilon=(0, 0)))
    yield _norm_vector("one value at the limit", [INT32_MAX], _norm([top], epsilon=(0, 0)))
    yield _norm_vector("one largest code", [-CODE_MAX], _norm([-top], epsilon=(0, 0)))
    one_hot = [0] * 30 + [-INT32_MAX] + [0]
    yield _norm_vector("one-hot row", one_hot, _norm([top] * 32, epsilon=(0, 0)))
    yield _norm_vector("equal row", [-12345] * 33, _norm(uniform_row(rng, 33, 23)))
    yield _norm_vector(
        "extreme codes, alternating", [CODE_MAX, -CODE_MAX] * 36, _norm([top, top, -top, -top] * 18)
    )
    saturating = _norm([top, 2**18, 2**7, 2**6, 2**5, 1, 0, -top], f_out=44)
    yield _norm_vector("largest f_out saturates", [3, -3, 3, -3, 3, -3, 3, 3], saturating)
    yield _norm_vector(
        "saturates in one of two groups", [100, 0, 0, 0, 0, 0, 0, 0] + [0] * 8, saturating
    )
    yield _norm_vector(
        "results on both sides of the limit",
        [1, -1, 1, -1, -1, 1, -1, 1],
        _norm([255, 256, 256, 257], f_out=44, epsilon=(0, 0)),
    )
    yield _norm_vector("epsilon outweighs the row", [1, -1, 2, 0, 1], _norm([top] * 5, f_in=24))
    yield _norm_vector(
        "epsilon shifted right by the exponent",
        [INT32_MAX, 5, -70000000, 9],
        _norm([top] * 4, f_in=30, epsilon=(2**24 - 1, 62)),
    )
    yield _norm_vector(
        "epsilon just within its bound",
        [1, 2, 3, 4],
        _norm([top] * 4, f_in=30, epsilon=(2**24 - 1, 41)),
    )
    yield _norm_vector("epsilon rounds to zero", [INT32_MAX, -1], _norm([top] * 2, f_in=0))
    yield _norm_vector("epsilon ties", [32640, 1, 1, 1], _norm([top] * 4, f_in=0, epsilon=(1, 1)))
    yield _norm_vector(
        "large right shift, ties towards plus",
        [1, -1, 1, -1],
        _norm([2**10, 2**10, -(2**10), 3 * 2**10], ge=10, f_out=0, epsilon=(0, 0)),
    )
    yield _norm_vector("all results round to zero", [9, -9, 8, 7], _norm([top] * 4, f_out=-30))


def rmsnorm_vectors() -> Iterator[Vector]:
    rng = Random("rmsnorm")
    yield from _norm_edges(rng)
    for n in (1, 2, 7, 16, 24, 64, 72, 80, 200):
        x = uniform_row(rng, n, rng.randint(12, 31))
        yield _norm_vector(f"one group of {n}", x, _norm(uniform_row(rng, n, 23)))
    for n, groups in ((2, 5), (8, 3), (24, 3), (64, 2)):
        x = [v for _ in range(groups) for v in uniform_row(rng, n, rng.randint(2, 31))]
        norm = _norm(
            uniform_row(rng, n, 23), ge=rng.randint(8, 23), f_in=18, f_out=rng.randint(8, 28)
        )
        yield _norm_vector(f"{groups} groups of {n}", x, norm)
    for n in (5, 40):
        yield _norm_vector(
            f"mixed widths, {n} values", int32_row(rng, n), _norm(int32_row(rng, n, 23), f_out=20)
        )


def quantize_vectors() -> Iterator[Vector]:
    rng = Random("quantize")
    rows = [[0] * 5, [1], [-1, 0], [CODE_MAX] * 3, [-CODE_MAX - 1, 1, -1], [INT32_MAX] * 7]
    rows += [[2 * CODE_MAX + 1, 3, -3], [-2 * CODE_MAX - 1, 5, -5], [2 * CODE_MAX, 1, -1]]
    rows += [[INT32_MAX] + [k * 65536 for k in range(-3, 4)]]
    rows += [uniform_row(rng, size, bits) for size in (1, 8, 31, 72, 200) for bits in (14, 22, 31)]
    for index, row in enumerate(rows):
        codes, s = exact.bfp16(row)
        expected = {"codes": codes, "exponent": s}
        yield {"name": f"row {index}", "row": row, "expected": expected}


def _rope_vector(  # noqa: PLR0917 - tables of cases read best in one fixed order
    name: str, x: Sequence[int], head_dim: int, pairing: str, cos: Sequence[int], sin: Sequence[int]
) -> Vector:
    rotary_dim = 2 * len(cos)
    assert rotary_dim <= head_dim
    expected = exact.rope(
        x=x, head_dim=head_dim, rotary_dim=rotary_dim, pairing=pairing, cos=cos, sin=sin
    )
    return {
        "name": f"{name}, {pairing}",
        "x": x,
        "head_dim": head_dim,
        "rotary_dim": rotary_dim,
        "pairing": pairing,
        "cos": cos,
        "sin": sin,
        "expected": expected,
    }


def _rope_table(theta: int, rotary_dim: int, position: int) -> tuple[list[int], list[int]]:
    return exact.rope_row(
        rope_theta=theta,
        rotary_dim=rotary_dim,
        position=position,
        factors=[(1, 1)] * (rotary_dim // 2),
    )


def rope_vectors() -> Iterator[Vector]:
    rng = Random("rope")
    one, half, diagonal = 2**30, 2**29, 759250125
    for pairing in ("interleaved", "half"):
        limits = [INT32_MAX, -INT32_MAX, INT32_MAX, INT32_MAX, -INT32_MAX, -INT32_MAX, 0, INT32_MAX]
        yield _rope_vector("no turn", limits, 8, pairing, [one] * 4, [0] * 4)
        yield _rope_vector("quarter turn", limits, 8, pairing, [0] * 4, [one] * 4)
        yield _rope_vector("half turn", limits, 8, pairing, [-one] * 4, [0] * 4)
        yield _rope_vector(
            "eighth turn saturates", limits, 8, pairing, [diagonal] * 4, [diagonal] * 4
        )
        yield _rope_vector(
            "halves of both signs",
            [1, 0, -1, 0, 3, 0, -3, 0],
            8,
            pairing,
            [half] * 4,
            [half, -half, half, -half],
        )
        yield _rope_vector(
            "only the rotary part turns",
            [*limits, 7, -7, 9, INT32_MAX],
            12,
            pairing,
            [diagonal] * 2,
            [-diagonal] * 2,
        )
        for heads, head_dim, rotary_dim, position, theta in (
            (3, 24, 24, 5, 10000),
            (2, 64, 64, 1000, 100000),
            (1, 64, 24, 63, 10000),
            (2, 80, 32, 64, 10000),
            (1, 128, 128, 8191, 100000),
            (4, 8, 2, 1, 10000),
            (9, 16, 16, 2, 10000),
        ):
            cos, sin = _rope_table(theta, rotary_dim, position)
            x = uniform_row(rng, heads * head_dim, rng.randint(16, 31))
            name = f"{heads} heads of {head_dim}, rotary {rotary_dim}, position {position}"
            yield _rope_vector(name, x, head_dim, pairing, cos, sin)


def append_vectors() -> Iterator[Vector]:
    rng = Random("append")
    rows = [("zeros", 4, [0] * 8, [0] * 8)]
    rows += [("a zero head beside a full one", 4, [0] * 4 + [INT32_MAX] * 4, [1] * 4 + [0] * 4)]
    rows += [("int32 limits", 2, [INT32_MAX, -INT32_MAX], [-INT32_MAX, INT32_MAX])]
    rows += [
        ("edges of a code", 2, [CODE_MAX, 0, CODE_MAX + 1, 1], [-CODE_MAX, -1, -CODE_MAX - 1, -1])
    ]
    rows += [
        (
            "ties",
            4,
            [65279, 1, -1, 3, -65279, 3, -3, 5],
            [INT32_MAX, 65536, -65536, 196608, 65278, 1, -1, -3],
        )
    ]
    for heads, head_dim in (
        (1, 8),
        (3, 8),
        (2, 24),
        (1, 64),
        (3, 64),
        (1, 80),
        (1, 128),
        (5, 16),
        (8, 4),
        (2, 2),
    ):
        for bits in (15, 31):
            k = [v for _ in range(heads) for v in uniform_row(rng, head_dim, rng.randint(1, bits))]
            v = [v for _ in range(heads) for v in uniform_row(rng, head_dim, rng.randint(1, bits))]
            rows += [(f"{heads} heads of {head_dim}, up to {bits} bits", head_dim, k, v)]
    for name, head_dim, k_row, v_row in rows:
        k_codes, k_exponents = exact.append(k_row, head_dim)
        v_codes, v_exponents = exact.append(v_row, head_dim)
        yield {
            "name": name,
            "head_dim": head_dim,
            "k_row": k_row,
            "v_row": v_row,
            "expected": {
                "k_codes": k_codes,
                "k_exponents": k_exponents,
                "v_codes": v_codes,
                "v_exponents": v_exponents,
            },
        }


def _gated_rows(rng: Random) -> Iterator[tuple[str, int, list[int], list[int]]]:
    yield "zeros", 16, [0, 0, 0], [INT32_MAX, -INT32_MAX, 0]
    yield "zero up", 16, [INT32_MAX, -INT32_MAX, 7], [0, 0, 0]
    edges = [0, 1, -1, 1024, -1024, 1048575, -1048575, 1048576, -1048576, 1048577, -1048577]
    yield "edges of the table", 16, edges, [2**20] * len(edges)
    yield "limits", 16, [INT32_MAX, -INT32_MAX, INT32_MAX], [INT32_MAX, INT32_MAX, -INT32_MAX]
    yield "limits, nothing decays", 40, [INT32_MAX, -INT32_MAX], [INT32_MAX, -INT32_MAX]
    yield "f_g 0", 0, [1, -1, 15, -15, 16, -16, 17, -17, INT32_MAX, -INT32_MAX], [1 << 24] * 10
    yield "f_g 15", 15, [1, -1, 3, -3, 524287, 524288, -524287, -524288], [999999937] * 8
    yield "f_g 17, ties", 17, [1, -1, 3, -3, 5, -5, 2097151, -2097151, -2097150], [2**30] * 9
    yield "f_g 40", 40, [2**23, -(2**23), 2**24, 3 * 2**23, 5, -5], [INT32_MAX] * 6
    yield "ties of the product", 40, [1, -1, 3, -3, 7, -7, 2**20 + 1, -(2**20) - 1], [1] * 8
    yield "one large product", 20, [2**30, 3, 5, -7, -9], [-(2**30), 100, 200, -300, 400]
    for f_g, bits, size in (
        (16, 20, 33),
        (16, 18, 64),
        (18, 22, 31),
        (20, 24, 72),
        (22, 25, 16),
        (24, 28, 40),
        (26, 30, 8),
        (28, 31, 200),
        (12, 15, 9),
        (8, 12, 17),
        (30, 31, 24),
        (35, 31, 24),
    ):
        yield (
            f"f_g {f_g}, {bits} bits, {size} values",
            f_g,
            uniform_row(rng, size, bits),
            uniform_row(rng, size, rng.randint(20, 31)),
        )
    yield "mixed widths", 18, int32_row(rng, 90), int32_row(rng, 90)


def gated_activation_vectors() -> Iterator[Vector]:
    for name, f_g, gate, up in _gated_rows(Random("gated_activation")):
        codes, s = exact.gated_activation(gate=gate, up=up, f_g=f_g)
        yield {
            "name": name,
            "gate": gate,
            "up": up,
            "f_g": f_g,
            "expected": {"codes": codes, "exponent": s},
        }


def add_vectors() -> Iterator[Vector]:
    rng = Random("add")
    top = INT32_MAX
    rows = [("zeros", [0] * 4, [0] * 4), ("opposites", [top, -top, 5], [-top, top, -5])]
    rows += [("limits reached, not passed", [top - 1, 1 - top, top, 0], [1, -1, 0, -top])]
    rows += [("one past the limit", [top, -top, top, 1], [1, -1, top, -top])]
    rows += [("minus 2^31 is a saturation", [-top, -(2**30), -1], [-1, -(2**30), -top])]
    rows += [("all saturate", [top] * 9, [top] * 9), ("all saturate below", [-top] * 9, [-2] * 9)]
    for size in (1, 7, 8, 15, 16, 17, 33, 72, 200):
        for bits in (30, 31):
            name = f"{size} values of {bits} bits"
            rows += [(name, uniform_row(rng, size, bits), uniform_row(rng, size, bits))]
    for name, a, b in rows:
        yield {"name": name, "a": a, "b": b, "expected": exact.add(a, b)}


def moving_average_vectors() -> Iterator[Vector]:
    rng = Random("moving_average")
    top = INT32_MAX
    rows = [("one zero row", [[0]]), ("one row", [[1, 2, 3, -1, -2, -3, 6, -6]])]
    rows += [
        ("limit held", [[top, -top]] * 100),
        ("limits in turn", [[top, -top], [-top, top]] * 20),
    ]
    rows += [("decay of a pulse", [[top, -top, 4, -4, 2, -2]] + [[0] * 6] * 90)]
    rows += [("ties", [[v, -v] for v in (2, 2, 6, 10, 2, 1, 3, 5)])]
    for count, width in ((1, 1), (2, 8), (3, 72), (7, 16), (20, 9), (64, 3), (65, 5), (200, 2)):
        for bits in (4, 31):
            name = f"{count} rows of {width}, {bits} bits"
            rows += [(name, [uniform_row(rng, width, bits) for _ in range(count)])]
    for name, x in rows:
        yield {"name": name, "rows": x, "expected": exact.moving_average(x)}
