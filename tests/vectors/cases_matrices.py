"""Vectors of ops that read a matrix, and of plain choices: section 3 of docs/arithmetic.md."""

from collections.abc import Iterator, Sequence
from random import Random

from tests.vectors import exact
from tests.vectors.cases_primitives import Vector, signed
from tests.vectors.cases_rows import uniform_row
from tests.vectors.exact import CODE_MAX, INT32_MAX

MANTISSA_MAX = 2**24 - 1


def matrix(rng: Random, rows: int, columns: int) -> list[list[int]]:
    """Return weight codes that spread evenly over -127 ... 127."""
    return [[rng.randint(-127, 127) for _ in range(columns)] for _ in range(rows)]


def mantissas(rng: Random, rows: int) -> list[int]:
    """Return mantissas of 24 bits, the first bit set."""
    return [rng.randint(2**23, MANTISSA_MAX) for _ in range(rows)]


def codes(rng: Random, size: int, largest: int = CODE_MAX) -> list[int]:
    """Return codes that spread evenly over +-*largest*."""
    return [rng.randint(-largest, largest) for _ in range(size)]


def _embed_vector(
    name: str, weights: Sequence[Sequence[int]], m: Sequence[int], exponent: int, token_id: int
) -> Vector:
    expected = exact.embed(weights=weights, mantissas=m, exponent=exponent, token_id=token_id)
    return {
        "name": name,
        "weights": weights,
        "mantissas": m,
        "exponent": exponent,
        "token_id": token_id,
        "expected": expected,
    }


def embed_vectors() -> Iterator[Vector]:
    rng = Random("embed")
    edge = [[0, 1, -1, 2, -2, 3, -3, 127, -127]]
    for exponent in (-24, -17, -1, 0, 1, 2, 8, 24, 30, 31, 32, 62):
        yield _embed_vector(
            f"all weights 127, e={exponent}", [[127, -127] * 4], [MANTISSA_MAX], exponent, 0
        )
        yield _embed_vector(f"mantissa 1, e={exponent}", edge, [1], exponent, 0)
    yield _embed_vector("mantissa 0", edge, [0], -24, 0)
    yield _embed_vector("ties", edge, [2], 2, 0)
    yield _embed_vector("around the limit", [[64, -64, 63, -63, 127, -1, 0]], [2**23], -2, 0)
    for vocab_size, hidden_size in ((3, 1), (5, 9), (17, 16), (4, 72), (7, 33)):
        weights, m = matrix(rng, vocab_size, hidden_size), mantissas(rng, vocab_size)
        for token_id in (0, vocab_size - 1):
            name = f"{vocab_size} tokens of {hidden_size}, token {token_id}"
            yield _embed_vector(name, weights, m, rng.randint(2, 14), token_id)


def _linear_vector(  # noqa: PLR0917 - tables of cases read best in one fixed order
    name: str,
    c: Sequence[int],
    exponent: int,
    weights: Sequence[Sequence[int]],
    m: Sequence[int],
    weight_exponent: int,
    *,
    exponent_max: int = 17,
    bias: Sequence[int] | None = None,
    old: Sequence[int] | None = None,
) -> Vector:
    assert exponent <= exponent_max
    assert exponent_max - 24 <= weight_exponent <= 110
    expected = exact.linear(
        codes=c,
        exponent=exponent,
        weights=weights,
        mantissas=m,
        weight_exponent=weight_exponent,
        bias=bias,
        old=old,
    )
    return {
        "name": name,
        "codes": c,
        "exponent": exponent,
        "exponent_max": exponent_max,
        "weights": weights,
        "mantissas": m,
        "weight_exponent": weight_exponent,
        "bias": bias,
        "old": old,
        "expected": expected,
    }


def _linear_edges(rng: Random) -> Iterator[Vector]:
    signs = [[127] * 8, [-127] * 8, [127, -127] * 4, [0] * 8]
    tops = [MANTISSA_MAX] * 4
    limit = [INT32_MAX, -INT32_MAX, INT32_MAX, -INT32_MAX]
    yield _linear_vector("zero row", [0] * 8, 0, signs, tops, 20)
    yield _linear_vector(
        "zero row, bias and old alone",
        [0] * 8,
        0,
        signs,
        tops,
        20,
        bias=[5, -5, INT32_MAX, -INT32_MAX],
        old=[-7, 7, 0, 0],
    )
    yield _linear_vector(
        "bias and old at the limits",
        [0] * 8,
        0,
        signs,
        tops,
        20,
        bias=limit,
        old=[0, 0, -INT32_MAX, INT32_MAX],
    )
    yield _linear_vector(
        "bias and old saturate",
        [0] * 8,
        0,
        signs,
        tops,
        20,
        bias=limit,
        old=[1, -1, INT32_MAX, -INT32_MAX],
    )
    yield _linear_vector(
        "a sum comes back within the limit",
        [2] * 8,
        0,
        signs,
        [1 << 20] * 4,
        0,
        bias=[-INT32_MAX, INT32_MAX, 3, -3],
        old=[4, -4, 0, 1],
    )
    yield _linear_vector(
        "largest left shift, small sums",
        [1, 0, 0, 0, 0, 0, 0, 0],
        17,
        [[1] + [0] * 7, [-1] + [0] * 7, [127] + [0] * 7, [-128 + 1] + [0] * 7],
        [1, 1, 1, 2],
        -7,
    )
    yield _linear_vector(
        "largest left shift saturates",
        [CODE_MAX] * 8,
        17,
        signs,
        tops,
        -7,
        bias=[1, 1, 1, 1],
        old=[-1, -1, -1, -2],
    )
    yield _linear_vector(
        "largest left shift around the limit",
        [1] * 8,
        17,
        [[127, 1] + [0] * 6, [127] + [0] * 7, [-127, -1] + [0] * 6, [-127] + [0] * 7],
        [1] * 4,
        -7,
        old=[-1, 2**24 - 1, 0, 1 - 2**24],
    )
    yield _linear_vector(
        "left shift by the exponent of a product",
        [9, -9, 3, 1, 0, 0, 0, 1],
        48,
        signs,
        [1, 2, 3, 4],
        24,
        exponent_max=48,
    )
    yield _linear_vector(
        "largest weight exponent", [CODE_MAX] * 8, 0, signs, tops, 110, bias=[3, -3, 0, 0]
    )
    for shift in (51, 50, 49, 48):
        yield _linear_vector(f"right shift {shift}", [CODE_MAX] * 8, 5, signs, tops, shift + 5)
    yield _linear_vector(
        "ties",
        [1, 0, 0, 0, 0, 0, 0, 0],
        0,
        [[1] + [0] * 7, [-1] + [0] * 7, [3] + [0] * 7, [-3] + [0] * 7],
        [2**22] * 4,
        23,
    )
    yield _linear_vector(
        "ties meet old values",
        [1, 0, 0, 0, 0, 0, 0, 0],
        2,
        [[5] + [0] * 7, [-5] + [0] * 7, [7] + [0] * 7, [-7] + [0] * 7],
        [2**23] * 4,
        26,
        old=[-1, 1, -4, 4],
    )
    yield _linear_vector("mantissas 0 and 1", codes(rng, 8), 0, signs, [0, 1, 1, 0], 3)


def _linear_extremes() -> Iterator[Vector]:
    for size in (1, 2, 64, 200, 640):
        for sign in (1, -1):
            c = [CODE_MAX] * size
            weights = [[127 * sign] * size, [127 if k % 2 else -127 for k in range(size)]]
            yield _linear_vector(
                f"all codes 32639, weights 127, K={size}, sign {sign}",
                c,
                0,
                weights,
                [MANTISSA_MAX, 2**23],
                25,
            )
    c = [CODE_MAX if k % 3 else -CODE_MAX for k in range(200)]
    weights = [[127 if k % 3 else -127 for k in range(200)]]
    weights += [[-w for w in weights[0]], [127] * 200]
    yield _linear_vector(
        "mixed extreme codes, the sum is the largest", c, 3, weights, [MANTISSA_MAX] * 3, 26
    )
    yield _linear_vector(
        "codes and weights at minus",
        [-CODE_MAX] * 64,
        3,
        [[-127] * 64] * 17,
        [MANTISSA_MAX] * 17,
        27,
        old=[-INT32_MAX + k for k in range(17)],
    )


def _linear_left_shifts() -> Iterator[Vector]:
    """Sums that take more than 64 bits once they are shifted, and those around the clamp."""
    # Times a mantissa of 2^23, these are 2^40 and 2^39, which shifted by 24 wrap to 0 and to -2^63
    # in 64 bits; 2^36, where they may be clamped; and the next smaller and larger ones.
    sums = (2**17, 2**16, 2**13, 2**13 - 1, 2**13 + 1, 64, 63, 1)
    signed_sums = [sign * size for size in sums for sign in (1, -1)]
    # A row of codes 2048 and 1, so that weights up to 64 make every one of these sums.
    weights = [_two_weights(size) for size in signed_sums]
    ends = [INT32_MAX if size < 0 else -INT32_MAX for size in signed_sums]
    for shift in (24, 23, 12, 2, 1, 0):
        for what, bias, old in (("alone", None, None), ("against both ends", ends, ends)):
            yield _linear_vector(
                f"left shift {shift}, {what}",
                [2048, 1],
                17,
                weights,
                [2**23] * len(weights),
                17 - shift,
                bias=bias,
                old=old,
            )
    # A mantissa without trailing zeros: shifted, these wrap to the other sign.
    for exponent, exponent_max in ((17, 17), (48, 48)):
        yield _linear_vector(
            f"left shift 24 of odd products, exponent {exponent}",
            [CODE_MAX] * 8,
            exponent,
            [[64] * 8, [-64] * 8, [127] * 8, [-127] * 8, [1] * 8, [-1] * 8],
            [MANTISSA_MAX] * 6,
            exponent - 24,
            exponent_max=exponent_max,
        )


def _two_weights(size: int) -> list[int]:
    high = round(size / 2048)
    low = size - 2048 * high
    assert abs(high) <= 127 >= abs(low)
    return [high, low]


def linear_vectors() -> Iterator[Vector]:
    rng = Random("linear")
    yield from _linear_edges(rng)
    yield from _linear_extremes()
    yield from _linear_left_shifts()
    shapes = (
        (1, 1),
        (1, 3),
        (2, 16),
        (15, 17),
        (16, 16),
        (17, 32),
        (20, 72),
        (33, 24),
        (5, 63),
        (5, 64),
        (5, 65),
        (4, 127),
        (4, 200),
        (48, 7),
    )
    for n, k in shapes:
        m = mantissas(rng, n)
        s = rng.randint(0, 17)
        bias = uniform_row(rng, n, 24) if rng.random() < 0.6 else None
        old = uniform_row(rng, n, 28) if rng.random() < 0.6 else None
        yield _linear_vector(
            f"N={n} K={k}, random",
            codes(rng, k),
            s,
            matrix(rng, n, k),
            m,
            s + rng.randint(18, 24),
            bias=bias,
            old=old,
        )
    c = codes(rng, 50)
    yield _linear_vector(
        "some rows saturate",
        c,
        17,
        matrix(rng, 19, 50),
        mantissas(rng, 19),
        34,
        bias=uniform_row(rng, 19),
        old=uniform_row(rng, 19),
    )


def logits_vectors() -> Iterator[Vector]:
    rng = Random("logits")
    cases = [("zeros", [0] * 8, matrix(rng, 3, 8), mantissas(rng, 3))]
    for k in (1, 64, 200, 640):
        weights = [[127] * k, [-127] * k, [127 if i % 2 else -127 for i in range(k)]]
        cases += [(f"all codes 32639, K={k}", [CODE_MAX] * k, weights, [MANTISSA_MAX] * 3)]
        cases += [(f"all codes -32639, K={k}", [-CODE_MAX] * k, weights, [MANTISSA_MAX, 1, 0])]
    cases += [("no rounding of small values", [1, -1], [[1, 0], [0, 1], [-1, 0]], [1, 3, 5])]
    shapes = (
        (1, 1),
        (2, 8),
        (3, 16),
        (15, 9),
        (16, 24),
        (17, 24),
        (33, 40),
        (49, 16),
        (5, 72),
        (7, 127),
        (7, 128),
        (4, 200),
    )
    for n, k in shapes:
        cases += [(f"vocabulary {n}, K={k}", codes(rng, k), matrix(rng, n, k), mantissas(rng, n))]
    for name, c, weights, m in cases:
        yield {
            "name": name,
            "codes": c,
            "weights": weights,
            "mantissas": m,
            "expected": exact.logits(c, weights, m),
        }


def plain_choice_vectors() -> Iterator[Vector]:
    rng = Random("argmax")
    top = 2**62 - 1
    rows = [[0], [-5], [0, 0], [3, 3, 3], [1, 2, 2, 1], [-1, -1, -2], [2, 1, 2], [-top, -top]]
    rows += [[top, top - 1], [top - 1, top], [-top, top, top], [1 - top, -top], [0] * 33]
    rows += [[2**53, 2**53 + 1], [2**53 + 1, 2**53, 2**53 + 1], [-(2**53) - 1, -(2**53)]]
    rows += [[2**32, 1, 2**32 + 1], [2**31 - 1, -(2**31)], [0] * 16 + [1], [0] * 15 + [1, 1]]
    for size in (17, 64, 100, 257):
        row = [signed(rng, 61) for _ in range(size)]
        rows += [row, [value >> 58 for value in row], [max(row) - value % 3 for value in row]]
    for index, row in enumerate(rows):
        name = f"row {index}, {len(row)} values"
        yield {"name": name, "logits": row, "expected": exact.choose_plain(row)}
