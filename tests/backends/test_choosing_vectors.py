"""Every backend and tier chooses as the vectors say that were computed from the page alone."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sslm.backends.reference.choosing import ABSENT, scores_of
from sslm.numerics.philox import philox
from sslm.numerics.weights import weights
from sslm.program.choice import Choice, Decoder, Scale
from tests.backends.backends import open_named
from tests.backends.choices import Chooser, compile_choosing, select
from tests.backends.test_vectors import VECTORS
from tests.vectors import cases_choosing

Vector = dict[str, Any]

NAMES = {"alpha": "damping", "order": "damping_order"}
"""Options of the vectors that a choice calls otherwise."""


def read(file: str) -> list[Vector]:
    found: list[Vector] = json.loads((VECTORS / f"{file}.json").read_text())["vectors"]
    return found


def choice_of(options: Vector) -> Choice:
    named = {NAMES.get(name, name): value for name, value in options.items()}
    named["decoder"] = Decoder[named["decoder"].upper()]
    named["bias"] = tuple((token_id, micro) for token_id, micro in named.get("bias", ()))
    return Choice(**named)


@pytest.mark.parametrize("file", ["choose", "choose_damped"])
def test_choose(backend_name: str, file: str) -> None:
    found: dict[str, int] = {}
    every = read(file)
    for vocab_size in {len(vector["logits"]) for vector in every}:
        some = [vector for vector in every if len(vector["logits"]) == vocab_size]
        choosers = [
            Chooser(
                logits=np.array([vector["logits"]]),
                exponents=[vector["exponent"]],
                choice=choice_of(vector["options"]),
                token_ids=vector["token_ids"],
                answer_start=vector["answer_start"],
            )
            for vector in some
        ]
        plan = compile_choosing(open_named(backend_name), vocab_size)
        select(plan, choosers)
        plan.close()
        found |= {v["name"]: one.outcome()[0] for v, one in zip(some, choosers, strict=True)}
    assert found == {vector["name"]: vector["expected"] for vector in every}


def test_logprobs(backend_name: str) -> None:
    backend = open_named(backend_name)
    for vector in read("logprobs"):
        logits, expected = np.array(vector["logits"]), vector["expected"]
        plan = compile_choosing(backend, len(logits))
        ids = list(range(len(logits)))
        told = plan.logprobs(logits.data, vector["exponent"], ids, top_count=3)
        plan.close()
        assert list(told.values) == expected
        there = [i for i in ids if expected[i] is not None]
        top = sorted(there, key=lambda i: -vector["logits"][i])[:3]
        assert told.top == tuple((i, expected[i]) for i in top)


def test_scores() -> None:
    for vector in read("score"):
        found = scores_of(np.array([vector["logit"]]), vector["exponent"]).tolist()
        assert found == [ABSENT if vector["expected"] is None else vector["expected"]]


def test_weights() -> None:
    for vector in read("weight"):
        choice = Choice(decoder=Decoder.SAMPLING, temperature=vector["temperature"])
        scale = Scale(mantissa=vector["mantissa"], shift=vector["shift"])
        assert choice.exponent_scale() == scale
        found = weights(np.array([vector["gap"]]), scale.mantissa, scale.shift)
        assert found.tolist() == [vector["expected"]]


def _philox(counter: Sequence[int], key: Sequence[int]) -> Sequence[int]:
    (c0, c1, c2, c3), (k0, k1) = counter, key
    return philox((c0, c1, c2, c3), (k0, k1))


def test_philox() -> None:
    for vector in read("philox"):
        assert list(_philox(vector["counter"], vector["key"])) == vector["expected"]


def test_philox_is_the_published_generator() -> None:
    for counter, key, expected in cases_choosing.PUBLISHED:
        assert list(_philox(counter, key)) == expected
