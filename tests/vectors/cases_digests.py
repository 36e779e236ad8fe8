"""Vectors of the digests: section 4 of docs/arithmetic.md."""

from collections.abc import Iterator
from random import Random

from tests.vectors import exact_digests as digests
from tests.vectors.cases_primitives import Vector, signed
from tests.vectors.cases_rows import uniform_row
from tests.vectors.exact import CODE_MAX, INT32_MAX


def _codes(rng: Random, heads: int, head_dim: int) -> list[list[int]]:
    return [[rng.randint(-CODE_MAX, CODE_MAX) for _ in range(head_dim)] for _ in range(heads)]


def _paged(rng: Random, heads: int, head_dim: int) -> dict[str, object]:
    return {
        "kind": "paged",
        "codes": _codes(rng, heads, head_dim),
        "exponents": [rng.randint(0, 17) for _ in range(heads)],
    }


def _state_bytes(state: dict[str, object]) -> bytes:
    if state["kind"] == "paged":
        codes, exponents = state["codes"], state["exponents"]
        assert isinstance(codes, list)
        assert isinstance(exponents, list)
        return digests.paged_bytes(codes, exponents)
    values = state["values"]
    assert isinstance(values, list)
    return digests.int32_bytes(values)


def segment_digest_vectors() -> Iterator[Vector]:
    rng = Random("segment_digest")
    cases: list[tuple[str, int, int, list[int], list[dict[str, object]]]] = []
    limits = [INT32_MAX, -INT32_MAX, 0, 1, -1]
    for position in (0, 1, 255, 256, 2**20, 2**32, 2**63):
        cases.append((f"embed, position {position}", 0, position, limits, []))
    for segment in (0, 1, 30, 256):
        cases.append((f"segment {segment}, no states", segment, 7, uniform_row(rng, 9), []))
    for heads, head_dim in ((1, 8), (3, 8), (2, 24), (3, 64), (1, 2)):
        states = [_paged(rng, heads, head_dim), _paged(rng, heads, head_dim)]
        name = f"K and V of {heads} heads of {head_dim}"
        cases.append((name, rng.randint(1, 30), rng.randint(0, 999), uniform_row(rng, 72), states))
    zeros: dict[str, object] = {"kind": "paged", "codes": [[0] * 8], "exponents": [0]}
    cases.append(("K and V of zeros", 1, 0, [0] * 16, [zeros, zeros]))
    for width in (1, 16, 72):
        fixed: dict[str, object] = {"kind": "fixed", "values": uniform_row(rng, width)}
        cases.append((f"a fixed state of {width}", 2, 5, uniform_row(rng, width), [fixed]))
        mixed = [_paged(rng, 2, 8), _paged(rng, 2, 8), fixed]
        cases.append((f"K, V, then a fixed state of {width}", 3, 6, uniform_row(rng, 8), mixed))
    for name, segment, position, residual, states in cases:
        text = b"".join(_state_bytes(state) for state in states)
        expected = digests.segment_digest(
            segment=segment, position=position, residual=residual, states=text
        )
        yield {
            "name": name,
            "segment": segment,
            "position": position,
            "residual": residual,
            "states": states,
            "expected": expected,
        }


def head_digest_vectors() -> Iterator[Vector]:
    rng = Random("head_digest")
    top = 2**62 - 1
    cases = [(0, [0]), (0, [1, -1]), (1, [top, -top, 0]), (2**32, [5] * 16), (2**63, [-5] * 17)]
    cases += [
        (rng.randint(0, 9999), [signed(rng, 62) for _ in range(size)])
        for size in (1, 2, 3, 15, 16, 17, 33, 49, 64, 100, 127, 128, 129, 200, 257, 300)
    ]
    for position, row in cases:
        yield {
            "name": f"position {position}, {len(row)} logits",
            "position": position,
            "logits": row,
            "expected": digests.head_digest(position=position, logits=row),
        }


def chain_vectors() -> Iterator[Vector]:
    rng = Random("chain")
    cases = [(bytes(32), 0), (bytes(range(32)), 0), (bytes(32), 1), (b"\xff" * 32, 1)]
    cases += [(rng.randbytes(32), rng.randint(1, 24)) for _ in range(18)]
    for index, (model_id, count) in enumerate(cases):
        token_ids = [
            rng.choice((0, 1, 255, 256, 65536, 2**32 - 1, rng.getrandbits(18)))
            for _ in range(count)
        ]
        segment_digests = [rng.randbytes(32).hex() for _ in range(count)]
        links = digests.chain(model_id=model_id, token_ids=token_ids, digests=segment_digests)
        yield {
            "name": f"chain {index}, {count} positions",
            "model_id": model_id.hex(),
            "token_ids": token_ids,
            "digests": segment_digests,
            "expected": links,
        }


def answer_digest_vectors() -> Iterator[Vector]:
    rng = Random("answer_digest")
    cases = [(bytes(32), []), (bytes(range(32)), [0]), (b"\xff" * 32, [2**32 - 1, 0, 1])]
    cases += [
        (rng.randbytes(32), [rng.getrandbits(17) for _ in range(rng.randint(0, 40))])
        for _ in range(20)
    ]
    for index, (link, token_ids) in enumerate(cases):
        expected = digests.answer_digest(last_link=link.hex(), token_ids=token_ids)
        yield {
            "name": f"answer {index}, {len(token_ids)} ids",
            "last_link": link.hex(),
            "token_ids": token_ids,
            "expected": expected,
        }
