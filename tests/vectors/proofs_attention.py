"""Checks of section 3.7 of docs/arithmetic.md: its bounds, and its distance from exact softmax."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.vectors.exact import CODE_MAX, bfp16, dot, pow2neg
from tests.vectors.exact_attention import (
    Group,
    HeadState,
    Joined,
    attend,
    group_sums,
    join,
    outputs,
    scores,
)

_KEYS = 8192
_HEAD_DIM = 64
_ERROR_MAX = 1e-3
# F_q + F_k of the accuracy checks: with q one in its first element a score is k[0] / 2^10.
_FRACTION_BITS = 40


@dataclass(frozen=True)
class Finding:
    """One checked statement."""

    holds: bool
    text: str


# Bounds.


def _violations(groups: Sequence[Group], joined: Joined) -> list[str]:
    """Name the stated bounds that do not hold."""
    bounds = {
        "D_g <= 2^26": all(0 < group.d <= 2**26 for group in groups),
        "N_g < 2^41": all(abs(n) < 2**41 for group in groups for n in group.n),
        "2^27 <= D <= 2^47": 2**27 <= joined.d <= 2**47,
        "|N| < 2^62": all(abs(n) < 2**62 for n in joined.n),
        "2^30 <= D' <= 2^31": 2**30 <= joined.d_short <= 2**31,
        "2^29 <= R <= 2^30": 2**29 <= joined.reciprocal <= 2**30,
        "|N'| < 2^31": all(abs(n) < 2**31 for n in joined.n_short),
        "|o| < 2^30": all(abs(o) < 2**30 for o in joined.o),
    }
    return [name for name, holds in bounds.items() if not holds]


def _constant_group(
    t: int, count: int, rest: int = 0, step: int = 0, code: int = CODE_MAX
) -> Group:
    """Return a group of *count* keys at *rest* above T_g, all values *code*, *step* below e_g."""
    d = count * pow2neg(rest)
    n = count * pow2neg(rest + (step << 16)) * code
    return Group(t=t, exponent=17, d=d, n=[n, -n])


def _adversarial_groups(rng: Random) -> Iterator[tuple[str, list[Group]]]:
    full = _constant_group(0, 64)
    yield "one key", [_constant_group(0, 1)]
    yield "2^20 equal keys", [full] * 2**14
    middle = [_constant_group(0, 32), *[full] * (2**14 - 1), _constant_group(0, 32)]
    yield "2^20 equal keys from mid-block", middle
    for count in (2, 3, 64):
        almost = _constant_group(0, count, rest=1)
        first = Group(
            t=0,
            exponent=17,
            d=almost.d + 2**20 - almost.d // count,
            n=[(almost.d + 2**20 - almost.d // count) * CODE_MAX] * 2,
        )
        yield f"D just below a power of two, {count} keys", [first]
    # Groups that add nothing to D, and almost half a unit for each value code to N.
    for count, t in ((64, 34), (64, 33), (32, 33), (1, 28)):
        silent = _constant_group(t, count, rest=1)
        for keys in (1, 2, 4, 63):
            first = _constant_group(0, keys, rest=1)
            first = replace(first, d=first.d + 2**20 - pow2neg(1))
            yield (
                f"{keys} keys and 16383 groups of {count} at T_g = {t}",
                [
                    replace(first, n=[first.d * CODE_MAX, -first.d * CODE_MAX]),
                    *[silent] * (2**14 - 1),
                ],
            )
    for index in range(300):
        count = rng.choice((1, 2, 3, 100, 1000))
        some = [_constant_group(0, rng.choice((1, 2, 63, 64)))]
        some += [
            replace(
                _constant_group(
                    rng.choice((0, 1, 20, 33, 34, 41, 65535)),
                    rng.randint(1, 64),
                    rng.choice((0, 1, 32767, 65535)),
                    rng.choice((0, 0, 1, 17)),
                ),
                exponent=rng.choice((0, 1, 16, 17)),
            )
            for _ in range(count)
        ]
        yield f"random groups {index}", some


def _bounds() -> Iterator[Finding]:
    yield Finding(1024 * CODE_MAX * 64 < 2**31, "3.7: partial sums, 1024 * 32639 * 64 < 2^31")
    yield Finding(2**20 >> 10 == 1024, "3.7: the upper half of n_j reaches 1024, not only 1023")
    yield Finding(2**26 * CODE_MAX < 2**41, "3.7: N_gd < 2^41")
    yield Finding(2**47 * CODE_MAX < 2**62, "3.7: |N_d| < 2^62")
    failed: list[str] = []
    largest = {"N'": 0.0, "o": 0.0, "D": 0.0, "N": 0.0}
    count = 0
    for name, groups in _adversarial_groups(Random("bounds")):
        joined = join(groups)
        failed += [f"{bound} ({name})" for bound in _violations(groups, joined)]
        sizes = {"N'": joined.n_short, "o": joined.o, "D": [joined.d], "N": joined.n}
        for key, row in sizes.items():
            largest[key] = max(largest[key], math.log2(max(1, *map(abs, row), 1)))
        count += 1
    text = ", ".join(f"log2 |{key}| <= {value:.4f}" for key, value in largest.items())
    yield Finding(not failed, f"3.7: bounds on {count} adversarial sets: {text} {failed or ''}")
    rng = Random("real bounds")
    for t in ([0] * 64, [0, *[1] * 63], [65535] * 64, [(1 << 32) - 2] * 64):
        codes = [[CODE_MAX, -CODE_MAX] for _ in t]
        group = group_sums(t, codes, [rng.choice((0, 16, 17)) for _ in t])
        failed += _violations([group], join([replace(group, t=0, d=max(group.d, 2**20))]))
    yield Finding(not failed, "3.7: and on sums of real groups, t up to 2^32 - 2")


# Accuracy.


def _relative_error(query: Sequence[int], state: HeadState) -> tuple[float, float]:
    """Return the relative L2 error of one head and the first key's share of the weight.

    The exact softmax takes the same codes with unrounded scores. Its floats are good to 1e-13.
    """
    q, s_q = bfp16(query)
    exact = [dot(q, k) << s for k, s in zip(state.k_codes, state.k_exponents, strict=True)]
    largest = max(exact)
    unit = math.ldexp(1.0, s_q - _FRACTION_BITS)
    weights = [math.exp2((score - largest) * unit) for score in exact]
    total = math.fsum(weights)
    _, joined = attend(query, _FRACTION_BITS, state)
    wanted = [
        math.fsum(
            w * math.ldexp(float(codes[d]), s)
            for w, codes, s in zip(weights, state.v_codes, state.v_exponents, strict=True)
        )
        / total
        for d in range(len(state.v_codes[0]))
    ]
    # o is 14 bits finer than a code of exponent E; step 7 then rounds to units of the value rows.
    found = [math.ldexp(float(o), joined.exponent - 14) for o in joined.o]
    assert all(abs(y - f) <= 0.5 for y, f in zip(outputs(joined), found, strict=True))
    distance = math.dist(wanted, found)
    return distance / math.hypot(*wanted), weights[0] / total


@dataclass(frozen=True, kw_only=True)
class _Case:
    """What the keys of an accuracy check are like.

    share: Weight of key 0, or 0 for no sink.
    equal: All other keys have exactly the same score.
    silent_sink: The sink's value is zero.
    varied: The widths of the value rows spread over 17 bits.
    offset: Mean of each element of the values, relative to their spread.
    spread: Standard deviation of the scores, in powers of two.
    """

    keys: int = _KEYS
    share: float = 0.0
    equal: bool = False
    silent_sink: bool = True
    varied: bool = False
    offset: float = 0.0
    spread: float = 2.0


def _state(case: _Case, seed: str) -> tuple[list[int], HeadState]:
    """Draw a query and the state of one head; key 0 gets *share* of the weight."""
    rng = Random(seed)
    # The first 32 elements make the score; with equal scores only the others vary.
    query = [rng.randint(-(2**20), 2**20) for _ in range(_HEAD_DIM)]
    if case.equal:
        query[32:] = [0] * 32
    query[0] = 2**20
    scale = case.spread * 2**20 / math.sqrt(_HEAD_DIM / 3) / math.sqrt(1 / 3)
    fixed = [rng.randint(-int(scale), int(scale)) for _ in range(32)]
    keys = []
    for _ in range(case.keys):
        row = [rng.randint(-int(scale), int(scale)) for _ in range(_HEAD_DIM)]
        keys.append(fixed + row[32:] if case.equal else row)
    k = [bfp16(row) for row in keys]
    value_gits = [rng.uniform(15, 31) if case.varied else 20.0 for _ in keys]
    means = [rng.uniform(-case.offset, case.offset) for _ in range(_HEAD_DIM)]
    v = [
        bfp16([rng.randint(-limit, limit) + int(limit * mean) for mean in means])
        for limit in (int(2**bits) - 1 for bits in value_gits)
    ]
    if case.share:
        if case.silent_sink:
            v[0] = ([0] * _HEAD_DIM, 0)
        k[0] = _sink_key(query, k[1:], case.share)
    return query, HeadState(
        first_position=0,
        k_codes=[codes for codes, _ in k],
        k_exponents=[s for _, s in k],
        v_codes=[codes for codes, _ in v],
        v_exponents=[s for _, s in v],
    )


def _sink_key(
    query: list[int], others: list[tuple[list[int], int]], share: float
) -> tuple[list[int], int]:
    """Return a key whose weight is *share* of all, to within the step of a code."""
    q, s_q = bfp16(query)
    unit = math.ldexp(1.0, s_q - _FRACTION_BITS)
    rest = math.fsum(math.exp2((dot(q, codes) << s) * unit) for codes, s in others)
    score = math.log2(rest * share / (1 - share))
    return bfp16([round(score / (q[0] * unit)), *[0] * (_HEAD_DIM - 1)])


_TARGETS = (
    ("random scores", _Case()),
    ("random scores, spread of 6 powers of two", _Case(spread=6.0)),
    ("sink of 90 %, zero value, random others", _Case(share=0.9)),
    ("sink of 90 %, a value like the others", _Case(share=0.9, silent_sink=False)),
    ("sink of 90 %, zero value, others equal", _Case(share=0.9, equal=True)),
    ("sink of 90 %, zero value, others equal, mean 0.5", _Case(share=0.9, equal=True, offset=0.5)),
    ("value exponents vary over 17", _Case(varied=True)),
    ("sink of 90 %, value exponents vary", _Case(share=0.9, varied=True)),
    ("sink of 90 %, others equal, value exponents vary", _Case(share=0.9, equal=True, varied=True)),
)

# Not targets: one block that holds the sink itself, and sinks beyond 90 %.
_OBSERVED = (
    ("sink of 99.9 %, zero value, others equal", _Case(share=0.999, equal=True)),
    ("sink of 99.9999 %, zero value, random others", _Case(share=0.999999)),
    ("64 keys, sink of 90 %, zero value", _Case(keys=64, share=0.9)),
    ("64 keys, sink of 99 %, zero value", _Case(keys=64, share=0.99)),
    ("64 keys, sink of 99.9 %, zero value", _Case(keys=64, share=0.999)),
    ("64 keys, sink of 99.99 %, zero value", _Case(keys=64, share=0.9999)),
    (
        "64 keys, sink of 99.99 %, a value like the others",
        _Case(keys=64, share=0.9999, silent_sink=False),
    ),
    ("64 keys, value exponents vary", _Case(keys=64, varied=True)),
)


def _accuracy() -> Iterator[Finding]:
    for name, case in _TARGETS:
        error, share = _relative_error(*_state(case, name))
        of_sink = f", share {share:.4f}" if case.share else ""
        text = f"3.7: {case.keys} keys, {name}{of_sink}: relative L2 error {error:.2e} (limit 1e-3)"
        yield Finding(error <= _ERROR_MAX, text)
    # Equal scores round the weights of the sink's block all to one side: try many fractions.
    errors = []
    for index in range(12):
        case = _Case(share=0.85 + index / 120, equal=True)
        errors.append(_relative_error(*_state(case, f"equal {index}"))[0])
    text = f"3.7: sinks of 85 % to 94 %, others equal: relative L2 error up to {max(errors):.2e}"
    yield Finding(max(errors) <= _ERROR_MAX, text)
    for name, case in _OBSERVED:
        error, share = _relative_error(*_state(case, name))
        yield Finding(True, f"3.7: observed only: {name}, share {share:.6f}: {error:.2e}")


def findings() -> Iterator[Finding]:
    """Yield the findings of section 3.7."""
    assert scores(
        [0] * 8,
        26,
        HeadState(
            first_position=0, k_codes=[[0] * 8], k_exponents=[0], v_codes=[[0] * 8], v_exponents=[0]
        ),
    ) == [0]
    yield from _bounds()
    yield from _accuracy()
