"""Vectors of choosing tokens: section 5 of docs/arithmetic.md."""

from collections.abc import Iterator
from random import Random
from typing import Any

from tests.vectors import exact_choosing as exact
from tests.vectors.cases_primitives import Vector

ABSENT = exact.ABSENT
UNIT = 2**40
"""A logit of one, with the exponent -40."""

# Of Random123, the generator's authors' library: its known answers for philox4x32 with ten rounds.
PUBLISHED = (
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([2**32 - 1] * 4, [2**32 - 1] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
)

_GREEDY: list[dict[str, Any]] = [
    {},
    {"bias": [[3, 10**6]]},
    {"bias": [[0, -(10**8)], [4, 10**8]]},
    {"bias": [[0, 1999 * 10**6], [1, 1999 * 10**6]]},
    {"repetition": 1_300_000},
    {"repetition": 1},
    {"repetition": 2_000_000_000},
    {"presence": 500_000},
    {"presence": -2_000_000},
    {"frequency": 333_333},
    {"frequency": -2_000_000, "presence": 2_000_000},
    {"repetition": 1_100_000, "presence": 1, "frequency": 1, "bias": [[2, -1]]},
]
_SAMPLING: list[dict[str, Any]] = [
    {},
    {"seed": 2**64 - 1},
    {"seed": 2**32},
    {"temperature": 1},
    {"temperature": 700_000},
    {"temperature": 2_000_000_000},
    {"top_k": 1},
    {"top_k": 3},
    {"top_k": 1000},
    {"top_p": 1},
    {"top_p": 900_000},
    {"top_p": 999_999},
    {"min_p": 100_000},
    {"min_p": 1_000_000},
    {"temperature": 1_500_000, "top_k": 5, "top_p": 800_000, "min_p": 20_000, "seed": 7},
    {"presence": 1_000_000, "frequency": 500_000, "repetition": 1_200_000, "top_k": 4},
]


def _rows(rng: Random) -> list[tuple[str, list[int]]]:
    """Rows of logits with the exponent -40, and what they are."""
    spread = [round(rng.gauss(0, 3) * UNIT) for _ in range(12)]
    steps = [rng.randrange(-3, 3) * UNIT for _ in range(12)]
    return [
        ("spread", spread),
        ("ties", steps),
        ("equal", [5 * UNIT] * 7),
        ("some absent", [ABSENT if i % 3 == 0 else x for i, x in enumerate(spread)]),
    ]


def choose_vectors() -> Iterator[Vector]:
    rng = Random("choose")
    for decoder, choices in (("greedy", _GREEDY), ("sampling", _SAMPLING)):
        for options in choices:
            for kind, logits in _rows(rng):
                ids = [rng.randrange(len(logits)) for _ in range(rng.randrange(1, 20))]
                start = rng.randrange(len(ids) + 1)
                yield _choice(kind, logits, {"decoder": decoder} | options, ids, start)
    top = 2**31 - 1
    for row in ([top, 0], [top - 1, 0], [-top, -top], [1 - top, -top], [ABSENT] * 2, [-(2**40), 7]):
        yield _choice(f"end {row}", row, {"decoder": "sampling", "top_k": 1}, [0], 0, exponent=-20)
    for exponent in (-110, -83, -82, -20, -19, 0, 11, 24):
        logits = [2**61, 2**60, -(2**61)] if exponent < -60 else [3, 2, -2]
        yield _choice("exponent", logits, {"decoder": "sampling"}, [0, 0], 1, exponent=exponent)


def damped_vectors() -> Iterator[Vector]:
    rng = Random("choose damped")
    row = [0, 0, 0, 0, 0, 0, 0, 0, 0]
    row[8], row[7], row[5] = 9 * UNIT, 9 * UNIT - UNIT // 2, 8 * UNIT
    for alpha in (0, 8192, 16384, 65536):
        options = {"decoder": "damped", "alpha": alpha, "order": 2, "top_k": 3}
        yield _choice("by hand", row, options, [7, 8, 7], 0)
    for order in (1, 2, 3, 16):
        for kind, logits in _rows(rng):
            for length in (0, 1, 2, 5, 40):
                ids = [rng.randrange(3) for _ in range(length + 3)]
                options = {
                    "decoder": "damped",
                    "alpha": rng.choice([65536, 10_000, 2**20 - 1]),
                    "order": order,
                    "top_k": rng.choice([1, 6, 100]),
                }
                yield _choice(kind, logits, options, ids, 3)


def _choice(
    kind: str,
    logits: list[int],
    options: dict[str, Any],
    ids: list[int],
    start: int,
    *,
    exponent: int = -40,
) -> Vector:
    shown = ", ".join(f"{name} {value}" for name, value in options.items())
    return {
        "name": f"{kind}, exponent {exponent}, {len(ids)} ids from {start}, {shown}",
        "logits": logits,
        "exponent": exponent,
        "options": options,
        "token_ids": ids,
        "answer_start": start,
        "expected": exact.choose(logits, exponent, options, ids, start),
    }


def score_vectors() -> Iterator[Vector]:
    logits = (
        0,
        1,
        -1,
        3,
        2**19,
        -(2**19),
        2**31,
        2**50 + 2**19,
        2**61,
        -(2**61),
        2**62 - 1,
        ABSENT,
    )
    for exponent in (-110, -84, -83, -82, -60, -21, -20, -19, 0, 11, 12, 24, 43, 44, 45, 200):
        for logit in logits:
            yield {
                "name": f"{logit} at {exponent}",
                "logit": logit,
                "exponent": exponent,
                "expected": exact.score(logit, exponent),
            }


def weight_vectors() -> Iterator[Vector]:
    rng = Random("weight")
    for temperature in (1, 500_000, 10**6, 3_000_000, 2_000_000_000):
        mantissa, shift = exact.scale(temperature)
        one = (2**24 << shift) // mantissa
        gaps = [0, 1, 2, one, one + 1, 29 * one, 40 * one, 41 * one, 41 * one + 1, 2**32 - 1]
        gaps += [rng.randrange(2 * one + 9) for _ in range(8)]
        for gap in dict.fromkeys(min(gap, 2**32 - 1) for gap in gaps):
            yield {
                "name": f"gap {gap} at {temperature}",
                "gap": gap,
                "temperature": temperature,
                "mantissa": mantissa,
                "shift": shift,
                "expected": exact.weight(gap, mantissa, shift),
            }


def philox_vectors() -> Iterator[Vector]:
    rng = Random("philox")
    inputs = [(counter, key) for counter, key, _ in PUBLISHED]
    inputs += [
        ([rng.getrandbits(32), 0, 0, 0], [rng.getrandbits(32) for _ in "lh"]) for _ in range(20)
    ]
    for counter, key in inputs:
        yield {
            "name": f"counter {counter}, key {key}",
            "counter": counter,
            "key": key,
            "expected": exact.philox(counter, key),
        }


def logprob_vectors() -> Iterator[Vector]:
    rng = Random("logprobs")
    rows = [row for _ in range(5) for row in _rows(rng)]
    rows += [("one", [7 * UNIT]), ("far", [0, 30 * UNIT]), ("beyond", [0, 2000 * UNIT])]
    rows += [("many", [UNIT // 4096 * rng.randrange(9) for _ in range(500)])]
    for index, (kind, logits) in enumerate(rows):
        yield {
            "name": f"{index}: {kind}",
            "logits": logits,
            "exponent": -40,
            "expected": exact.logprobs(logits, -40),
        }
