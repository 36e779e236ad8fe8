"""Vectors of attention: section 3.7 of docs/arithmetic.md."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from tests.vectors import exact
from tests.vectors.cases_primitives import Vector
from tests.vectors.cases_rows import uniform_row
from tests.vectors.exact import CODE_MAX, INT32_MAX, Rows
from tests.vectors.exact_attention import attention, first_visible

# The values of a key or value row are at most this large and have exponent 16.
_WIDE_MAX = CODE_MAX << 16

# Makes the int32 values of one head of one position; its argument counts the listed positions.
RowOf = Callable[[int], list[int]]


def _vector(
    name: str,
    q: Rows,
    k_rows: Sequence[Rows],
    v_rows: Sequence[Rows],
    *,
    position: int,
    window: int | None = None,
    f_q: int = 20,
    f_k: int = 20,
) -> Vector:
    """Build one vector from int32 rows [keys][num_key_value_heads][head_dim]."""
    first = first_visible(position, window)
    assert len(k_rows) == len(v_rows) == position - first + 1
    k = [[exact.bfp16(row) for row in heads] for heads in k_rows]
    v = [[exact.bfp16(row) for row in heads] for heads in v_rows]
    k_codes = [[codes for codes, _ in heads] for heads in k]
    v_codes = [[codes for codes, _ in heads] for heads in v]
    k_exponents = [[s for _, s in heads] for heads in k]
    v_exponents = [[s for _, s in heads] for heads in v]
    expected = attention(
        q=q,
        fraction_bits=f_q + f_k,
        first_position=first,
        k_codes=k_codes,
        k_exponents=k_exponents,
        v_codes=v_codes,
        v_exponents=v_exponents,
    )
    return {
        "name": name,
        "position": position,
        "window": window,
        "first_position": first,
        "f_q": f_q,
        "f_k": f_k,
        "q": q,
        "k_codes": k_codes,
        "k_exponents": k_exponents,
        "v_codes": v_codes,
        "v_exponents": v_exponents,
        "expected": expected,
    }


def _one_head(
    name: str,
    q: Sequence[int],
    k_of: RowOf,
    v_of: RowOf,
    *,
    position: int,
    window: int | None = None,
    f_q: int = 20,
    f_k: int = 20,
) -> Vector:
    """Build a vector of one head from functions of the index of the listed key."""
    count = position - first_visible(position, window) + 1
    return _vector(
        name,
        [q],
        [[k_of(j)] for j in range(count)],
        [[v_of(j)] for j in range(count)],
        position=position,
        window=window,
        f_q=f_q,
        f_k=f_k,
    )


def _random_of(rng: Random, head_dim: int, bits: int) -> RowOf:
    return lambda _: uniform_row(rng, head_dim, bits)


def _short(rng: Random) -> Iterator[Vector]:
    k, v = _random_of(rng, 8, 20), _random_of(rng, 8, 20)
    q = uniform_row(rng, 8, 20)
    yield _one_head("one key", q, k, v, position=0)
    yield _one_head(
        "one key, value at the limits",
        q,
        k,
        lambda _: [_WIDE_MAX, -_WIDE_MAX, 1, -1, 0, 65536, -65536, 32768],
        position=0,
    )
    same = uniform_row(rng, 8, 20)
    yield _one_head("two equal keys", q, lambda _: same, v, position=1)
    yield _one_head("three equal keys and values", q, lambda _: same, lambda _: same, position=2)
    yield _one_head("all values zero", q, k, lambda _: [0] * 8, position=5)
    yield _one_head("zero query", [0] * 8, k, v, position=6)
    yield _one_head("zero keys", q, lambda _: [0] * 8, v, position=6)
    yield _one_head("everything zero", [0] * 8, lambda _: [0] * 8, lambda _: [0] * 8, position=2)


def _lengths(rng: Random) -> Iterator[Vector]:
    for count in (2, 63, 64, 65, 128, 129, 200):
        yield _one_head(
            f"{count} keys",
            uniform_row(rng, 8, 21),
            _random_of(rng, 8, 20),
            _random_of(rng, 8, 22),
            position=count - 1,
        )
    for head_dim, count in ((16, 20), (24, 9), (64, 8), (80, 4), (128, 3)):
        yield _one_head(
            f"head_dim {head_dim}, {count} keys",
            uniform_row(rng, head_dim, 19),
            _random_of(rng, head_dim, 20),
            _random_of(rng, head_dim, 18),
            position=count - 1,
        )


def _windows(rng: Random) -> Iterator[Vector]:
    for position, window in (
        (40, 1),
        (40, 8),
        (5, 40),
        (130, 64),
        (127, 64),
        (1000, 100),
        (63, 64),
        (64, 64),
        (191, 128),
        (300, 3),
    ):
        yield _one_head(
            f"position {position}, window {window}",
            uniform_row(rng, 8, 21),
            _random_of(rng, 8, 20),
            _random_of(rng, 8, 20),
            position=position,
            window=window,
        )


def _groups(rng: Random) -> Iterator[Vector]:
    for heads, kv_heads, count, head_dim in (
        (3, 1, 70, 8),
        (8, 2, 20, 8),
        (9, 3, 12, 16),
        (4, 4, 10, 8),
        (16, 2, 5, 24),
    ):
        q = [uniform_row(rng, head_dim, rng.randint(16, 22)) for _ in range(heads)]
        k, v = (
            [
                [uniform_row(rng, head_dim, rng.randint(18, 22)) for _ in range(kv_heads)]
                for _ in range(count)
            ]
            for _ in range(2)
        )
        yield _vector(f"{heads} heads over {kv_heads}, {count} keys", q, k, v, position=count - 1)


def _exponents(rng: Random) -> Iterator[Vector]:
    q = uniform_row(rng, 8, 20)
    fixed = _random_of(rng, 8, 20)

    def varied(_: int) -> list[int]:
        return uniform_row(rng, 8, rng.randint(1, 31))

    def rising(j: int) -> list[int]:
        return uniform_row(rng, 8, min(31, 14 + j // 4))

    yield _one_head("key exponents differ", uniform_row(rng, 8, 14), varied, fixed, position=40)
    yield _one_head("value exponents differ", q, fixed, varied, position=40)
    yield _one_head("value exponents differ, two blocks", q, fixed, varied, position=90)
    yield _one_head("value exponents rise", q, fixed, rising, position=75)
    yield _one_head("value exponents fall", q, fixed, lambda j: rising(75 - j), position=75)
    yield _one_head("both exponents differ", uniform_row(rng, 8, 13), varied, varied, position=70)
    yield _one_head(
        "one wide value among narrow",
        q,
        fixed,
        lambda j: uniform_row(rng, 8, 31 if j == 20 else 10),
        position=66,
    )
    yield _one_head(
        "one wide value that has no weight",
        [1 << 20] + [0] * 7,
        lambda j: [-(1 << 26) if j == 20 else 0] + [0] * 7,
        lambda j: uniform_row(rng, 8, 31 if j == 20 else 10),
        position=66,
    )


def _sinks(rng: Random) -> Iterator[Vector]:
    # A score in powers of two is k[0] * 2^20 / 2^40; the sink stands out by log2(9 * others).
    def sink(height: float, spread_bits: int) -> RowOf:
        top = int(height * 2**20)
        return lambda j: [
            top if j == 0 else (rng.getrandbits(spread_bits) if spread_bits else 0),
            *uniform_row(rng, 7, 20),
        ]

    q = [1 << 20] + [0] * 7
    v = _random_of(rng, 8, 20)
    yield _one_head("a sink takes 90 %", q, sink(10.82, 20), v, position=139)
    yield _one_head("a sink takes 90 %, others equal", q, sink(10.29, 0), v, position=139)
    yield _one_head(
        "a sink of zero value, others equal",
        q,
        sink(10.29, 0),
        lambda j: [0] * 8 if j == 0 else uniform_row(rng, 8, 20),
        position=139,
    )
    yield _one_head("a sink in the last block", q, lambda j: sink(10.2, 20)(69 - j), v, position=69)
    yield _one_head("a sink takes all but 2^-18", q, sink(24.5, 0), v, position=99)


def _beyond(rng: Random) -> Iterator[Vector]:
    q = [1 << 20] + [0] * 7
    v = _random_of(rng, 8, 24)

    def steps(step: int) -> RowOf:
        return lambda j: [-(j * step << 16), *uniform_row(rng, 7, 20)]

    # The step is in sixteenths of a power of two.
    yield _one_head("scores fall by 1 a key", q, steps(16), v, position=29)
    yield _one_head("scores rise by 1 a key", q, lambda j: steps(16)(29 - j), v, position=29)
    yield _one_head("scores fall by 5/16, three blocks", q, steps(5), v, position=140)
    yield _one_head(
        "scores rise by 7/16, two blocks", q, lambda j: steps(7)(99 - j), v, position=99
    )
    # With these codes a score is k[0] * 64 + k[1] / 256, so t passes 22 in halves of its last bit.
    yield _one_head(
        "t around 22",
        [1 << 20, 1 << 6] + [0] * 6,
        lambda j: [-22528 if j else 0, (j - 8) * 128 if j else 0, *[0] * 6],
        v,
        position=16,
        f_q=15,
        f_k=15,
    )

    def block_below(height: int) -> RowOf:
        return lambda j: [-height << 20 if j < 64 else 0, *[0] * 7]

    for height in (33, 34, 35, 41, 60, 1000):
        yield _one_head(
            f"a block {height} powers of two below",
            q,
            block_below(height),
            v,
            position=65,
        )


def _limits(rng: Random) -> Iterator[Vector]:
    def of_signs(value: int) -> RowOf:
        return lambda _: [value * rng.choice((-1, 1)) for _ in range(8)]

    v = _random_of(rng, 8, 20)
    extreme = of_signs(CODE_MAX)
    yield _one_head("extreme codes", extreme(0), extreme, extreme, position=69, f_q=10, f_k=18)
    yield _one_head(
        "extreme codes, one sign",
        [CODE_MAX] * 8,
        lambda _: [CODE_MAX] * 8,
        lambda _: [CODE_MAX, -CODE_MAX] * 4,
        position=129,
    )
    yield _one_head(
        "wide extreme codes",
        of_signs(_WIDE_MAX)(0),
        of_signs(_WIDE_MAX),
        of_signs(_WIDE_MAX),
        position=66,
        f_q=39,
        f_k=39,
    )
    yield _one_head(
        "outputs saturate",
        [0] * 8,
        lambda _: [0] * 8,
        lambda _: [INT32_MAX, -INT32_MAX, INT32_MAX, 5, -_WIDE_MAX, 0, 1, -INT32_MAX],
        position=3,
    )
    yield _one_head(
        "outputs near the limit",
        [0] * 8,
        lambda _: [0] * 8,
        lambda j: [INT32_MAX - j * 5000, -INT32_MAX + j, *uniform_row(rng, 6, 31)],
        position=3,
    )
    yield _one_head(
        "scores clamp on both sides",
        of_signs(INT32_MAX)(0),
        of_signs(INT32_MAX),
        v,
        position=11,
        f_q=13,
        f_k=13,
    )
    yield _one_head(
        "all scores clamp",
        [INT32_MAX] * 8,
        lambda j: [INT32_MAX - j] * 8,
        v,
        position=11,
        f_q=13,
        f_k=13,
    )
    yield _one_head(
        "largest right shift of scores",
        [CODE_MAX] * 8,
        lambda _: [CODE_MAX] * 8,
        v,
        position=9,
        f_q=39,
        f_k=39,
    )
    yield _one_head(
        "scores at ties", [1] + [0] * 7, lambda j: [j - 6] + [0] * 7, v, position=12, f_q=8, f_k=18
    )
    yield _one_head(
        "scores tie after one bit",
        [1] + [0] * 7,
        lambda j: [(j - 6) << 13] + [0] * 7,
        v,
        position=12,
        f_q=15,
        f_k=15,
    )


def attention_vectors() -> Iterator[Vector]:
    rng = Random("attention")
    for part in (_groups, _exponents, _limits):
        yield from part(rng)


def attention_length_vectors() -> Iterator[Vector]:
    rng = Random("attention_lengths")
    for part in (_lengths, _windows):
        yield from part(rng)


def attention_score_vectors() -> Iterator[Vector]:
    rng = Random("attention_scores")
    for part in (_short, _sinks, _beyond):
        yield from part(rng)
