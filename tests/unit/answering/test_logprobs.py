"""Log-probabilities of answers and prompts."""

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sslm
from sslm.engine.model import Model
from sslm.errors.choosing import ChoiceConflictError
from sslm.errors.runtime import MemoryBudgetError, OptionRangeError
from sslm.sampling.logprobs import Logprob, TokenLogprob, q20_decimal
from tests.converted import talking_artifact
from tests.unit.answering.test_answer_options import CONTEXT_TOKENS, FACES, HELLO, faces

ONE = 1 << 20
each_face = pytest.mark.parametrize("face", FACES)


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(), context_tokens=CONTEXT_TOKENS) as opened:
        yield opened


@each_face
def test_every_face_tells_the_same(model: Model, face: str) -> None:
    options = {"max_tokens": 9, "logprobs": 3, "temperature": 1, "seed": 2}
    answer = faces(model)[face](**options)
    is_chat = "chat" in face or "session" in face
    expected = model.chat(HELLO, **options) if is_chat else model.generate("Hello", **options)  # type: ignore[arg-type]
    assert answer == expected
    assert answer.logprobs is not None
    assert [one.token_id for one in answer.logprobs] == answer.token_ids
    assert {len(one.top) for one in answer.logprobs} == {3}
    plain = faces(model)[face](**options | {"logprobs": None})
    assert (plain.logprobs, plain.token_ids) == (None, answer.token_ids)


def test_probabilities_of_all_tokens_come_to_one(model: Model) -> None:
    size = model.tokenizer.vocab_size
    told = model.generate("Hello", max_tokens=3, logprobs=20).logprobs
    assert told is not None
    for one in told:
        top = [likely.q20 for likely in one.top]
        assert top == sorted(top, reverse=True)
        assert len({likely.token_id for likely in one.top}) == 20
        # Greedy: what is chosen is the most likely one.
        assert one.top[0] == Logprob(token_id=one.token_id, q20=one.q20)
        assert 0.5 < sum(math.exp(q20 / ONE) for q20 in top) <= 1 + size * 2**-20


def test_a_prompt_is_told_as_if_it_were_an_answer(model: Model) -> None:
    answer = model.generate("Hello", max_tokens=100, logprobs=2)
    ids = model.generate("Hello", max_tokens=1, prompt_logprobs=0)
    assert ids.prompt_logprobs is not None
    prompt = [*model.tokenizer.encode("Hello"), *answer.token_ids]
    told = model.generate(prompt, max_tokens=1, prompt_logprobs=2, logprobs=0)
    assert told.prompt_logprobs is not None
    assert told.prompt_logprobs[0] is None
    assert [one and one.token_id for one in told.prompt_logprobs[1:]] == prompt[1:]
    assert told.prompt_logprobs[-len(answer.token_ids) :] == answer.logprobs
    # Beyond one chunk of 64, and whatever it was computed with.
    assert len(prompt) > 100
    with Model(talking_artifact(), backend="reference", context_tokens=CONTEXT_TOKENS) as other:
        again = other.generate(prompt, max_tokens=1, prompt_logprobs=2, logprobs=0)
    assert again == told


def test_a_prompt_of_one_token_has_nothing_to_tell(model: Model) -> None:
    told = model.generate([5], max_tokens=1, prompt_logprobs=20)
    assert told.prompt_logprobs == [None]
    assert told.logprobs is None


def test_what_is_asked_does_not_change_what_is_chosen(model: Model) -> None:
    for way in ({}, {"temperature": 1, "seed": 3}, {"damping": 1}):
        plain = model.generate("Hello", max_tokens=8, **way)  # type: ignore[arg-type]
        told = model.generate("Hello", max_tokens=8, logprobs=5, prompt_logprobs=5, **way)  # type: ignore[arg-type]
        assert (told.token_ids, told.digest) == (plain.token_ids, plain.digest)
        # Neither do penalties and biases change what the model itself holds likely.
    biased = model.generate("Hello", max_tokens=1, logprobs=1, logit_bias={7: 100})
    exact = model.generate("Hello", max_tokens=1, logprobs=1)
    assert biased.logprobs
    assert exact.logprobs
    assert biased.token_ids == [7]
    assert biased.logprobs[0].q20 < 0
    assert biased.logprobs[0].top == exact.logprobs[0].top


def test_a_conversation_tells_them_of_what_it_had_computed_before(model: Model) -> None:
    with model.session() as session:
        first = session.say("Hello", max_tokens=5)
        session.undo()
        again = session.say("Hello", max_tokens=5, logprobs=2)
        assert again.usage.cached_tokens == again.usage.prompt_tokens
    assert again.logprobs == model.chat(HELLO, max_tokens=5, logprobs=2).logprobs
    assert (again.token_ids, again.digest) == (first.token_ids, first.digest)


@pytest.mark.parametrize("value", [-1, 21, True, 1.0, "5", 10**400], ids=repr)
@pytest.mark.parametrize("option", ["logprobs", "prompt_logprobs"])
def test_how_many_is_a_small_number(model: Model, option: str, value: Any) -> None:
    with pytest.raises(
        OptionRangeError, match=rf"{option} is .*, expected an integer from 0 to 20"
    ):
        model.generate("Hello", **{option: value})


@pytest.mark.parametrize("face", ["session.say", "session.edit", "sequence", "sequence.reset"])
def test_where_a_prompt_is_not_computed_anew_it_is_not_told(model: Model, face: str) -> None:
    with pytest.raises(ChoiceConflictError, match="prompt_logprobs"):
        faces(model)[face](max_tokens=2, prompt_logprobs=1)
    with pytest.raises(ChoiceConflictError, match="prompt_logprobs"):
        model.generate_n("Hello", 2, prompt_logprobs=1)


def test_the_memory_for_all_rows_of_a_prompt_is_admitted() -> None:
    with Model(talking_artifact(), context_tokens=CONTEXT_TOKENS) as free:
        limit = free.footprint().total
    with Model(talking_artifact(), context_tokens=CONTEXT_TOKENS, memory_bytes=limit) as model:
        assert model.generate("Hello", max_tokens=2, logprobs=1).logprobs
        with pytest.raises(MemoryBudgetError):
            model.generate("Hello", max_tokens=2, prompt_logprobs=1)


@given(q20=st.integers(-(2**40), 0))
def test_decimals_are_rounded_half_up(q20: int) -> None:
    exact = Fraction(q20 * 10**6, ONE)
    found = q20_decimal(q20)
    assert found == Decimal(math.floor(exact + Fraction(1, 2))).scaleb(-6)
    assert str(found).partition(".")[2].isdecimal()
    assert len(str(found).partition(".")[2]) == 6


def test_decimals_are_written_with_six_places() -> None:
    told = TokenLogprob(token_id=1, q20=-726817)
    assert str(told.decimal) == "-0.693147"
    assert str(q20_decimal(0)) == "0.000000"
    assert str(q20_decimal(-1)) == "-0.000001"


@pytest.mark.parametrize("size", [1, 2, 64, 65, 100])
@pytest.mark.parametrize("logprobs", [None, 2])
def test_those_of_a_prompt_do_not_depend_on_a_schema(
    tmp_path: Path, size: int, logprobs: int | None
) -> None:
    options: dict[str, Any] = {"schema": {"enum": ["left", "right"]}, "max_tokens": 12}
    prompt = [1, *(3 + index * 7 % 250 for index in range(size - 1))]
    with Model(talking_artifact(), context_tokens=128) as model:
        expected = model.generate(prompt, max_tokens=1, prompt_logprobs=2)
        alone = model.generate(prompt, **options, logprobs=logprobs)
        told = model.generate(
            prompt, **options, logprobs=logprobs, prompt_logprobs=2, record=tmp_path / "run.sslmr"
        )
        assert told == replace(alone, prompt_logprobs=expected.prompt_logprobs)
        assert told.forced_tokens == alone.forced_tokens
        assert told.usage.computed_tokens == alone.usage.computed_tokens
        assert sslm.replay(tmp_path / "run.sslmr", model, schema=options["schema"]).identical
        # Nothing of it is left behind.
        assert model.generate(prompt, max_tokens=1, prompt_logprobs=2) == expected
