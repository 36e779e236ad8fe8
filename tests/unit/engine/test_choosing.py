"""Tokens chosen as callers ask, the same by every call."""

from collections.abc import Iterator
from typing import Any

import pytest

from sslm.engine.model import Model
from sslm.errors.choosing import ChoiceConflictError
from sslm.errors.runtime import OptionRangeError
from tests.converted import talking_artifact
from tests.unit.answering.test_answer_options import CONTEXT_TOKENS, FACES, HELLO, faces

WAYS: dict[str, dict[str, Any]] = {
    "sampled": {"temperature": 1, "seed": 5},
    "filtered": {"temperature": "1.5", "top_k": 30, "top_p": 0.9, "min_p": 0.001},
    "penalized": {"repetition_penalty": 1.2, "presence_penalty": 0.1, "frequency_penalty": 0.3},
    "biased": {"logit_bias": {286: -100, 261: 2.5}},
    "damped": {"damping": 2, "damping_order": 3},
}


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(), context_tokens=CONTEXT_TOKENS) as opened:
        yield opened


@pytest.mark.parametrize("way", WAYS)
def test_every_face_chooses_alike(model: Model, way: str) -> None:
    options = {"max_tokens": 12, **WAYS[way]}
    text, chat = model.generate("Hello", **options), model.chat(HELLO, **options)
    assert text.token_ids != model.generate("Hello", max_tokens=12).token_ids
    for face in FACES:
        is_chat = "chat" in face or "session" in face
        assert faces(model)[face](**options) == (chat if is_chat else text), face
    # Rows have seeds of their own.
    for row in model.generate_many(["Hello", "Hello"], **options):
        assert row == model.generate("Hello", **options | {"seed": row.seed})


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_tells_how_to_get_it_again(model: Model, way: str) -> None:
    answer = model.generate("Hello", max_tokens=12, **WAYS[way])
    assert answer.seed == WAYS[way].get("seed", 0)
    assert model.generate("Hello", max_tokens=12, **answer.choosing) == answer


def test_threads_slices_tiers_and_the_reference_choose_alike(model: Model) -> None:
    expected = [model.generate("Hello", max_tokens=10, **way) for way in WAYS.values()]
    for options in ({"threads": 2}, {"tier": "scalar"}, {"backend": "reference"}):
        with Model(talking_artifact(), context_tokens=CONTEXT_TOKENS, **options) as other:
            assert [
                other.generate("Hello", max_tokens=10, **way) for way in WAYS.values()
            ] == expected
    for way, answer in zip(WAYS.values(), expected, strict=True):
        with model.sequence("Hello", max_tokens=10, **way) as sequence:
            while not sequence.done:
                sequence.advance(layers=1)
            assert sequence.result() == answer


def test_a_seed_decides_what_is_drawn(model: Model) -> None:
    answers = [model.generate("Hello", temperature=1, seed=seed).token_ids for seed in range(8)]
    assert len({tuple(ids) for ids in answers}) == 8
    assert model.generate("Hello", temperature=1, seed=None).token_ids == answers[0]


def test_a_conversation_may_choose_otherwise_each_time(model: Model) -> None:
    with model.session() as session:
        for way in (*WAYS.values(), {}):
            expected = model.chat(HELLO, max_tokens=8, **way)
            answer = session.say("Hello", max_tokens=8, **way)
            assert answer == expected
            # Saved by another choice, so that only the last position is scored again.
            assert answer.usage.cached_tokens in (0, answer.usage.prompt_tokens)
            session.undo()


def test_a_sequence_that_is_reset_forgets_how_it_chose(model: Model) -> None:
    with model.sequence("Hello", max_tokens=8, temperature=1, seed=3) as sequence:
        for way in ({}, WAYS["damped"]):
            sequence.advance(layers=10**6)
            sequence.reset("Hello", max_tokens=8, **way)
            while not sequence.done:
                sequence.advance(layers=10**6)
            assert sequence.result() == model.generate("Hello", max_tokens=8, **way)


def test_what_cannot_be_is_refused_before_anything_is_computed(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model._runner, "advance", None)
    for face in ("generate", "stream", "agenerate", "chat", "session.say", "sequence"):
        ask = faces(model)[face]
        with pytest.raises(OptionRangeError, match="temperature is -1, expected 0"):
            ask(temperature=-1)
        with pytest.raises(OptionRangeError, match="logit_bias"):
            ask(logit_bias={model.tokenizer.vocab_size: 1})
        with pytest.raises(ChoiceConflictError, match="damping"):
            ask(temperature=1, damping=1)
