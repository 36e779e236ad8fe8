"""Several answers to one prompt, which share its computation."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from sslm import limits
from sslm.engine.model import Model
from sslm.errors.choosing import UnknownOptionError
from sslm.errors.runtime import (
    ContextLengthError,
    DeadlineExceededError,
    EmptyPromptError,
    MemoryBudgetError,
    OptionRangeError,
)
from sslm.sampling.seeds import answer_seed
from tests.converted import talking_artifact

LONG = [1 + n % 60 for n in range(128)]
PROMPTS: list[str | list[int]] = ["Once upon a time", [5], LONG[:64], LONG[:65]]
WAYS: list[dict[str, Any]] = [
    {"temperature": 1, "seed": 7, "logprobs": 2},
    {"temperature": 0.8, "repetition_penalty": 1.2, "stop": "a"},
    {"damping": 1},
    {},
]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(), context_tokens=128) as opened:
        yield opened


@pytest.mark.parametrize("way", WAYS, ids=repr)
@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: str(len(prompt)))
def test_eight_answers_are_eight_lone_ones(model: Model, prompt: Any, way: dict[str, Any]) -> None:
    answers = model.generate_n(prompt, 8, max_tokens=10, **way)
    seeds = [answer_seed(way.get("seed", 0), index) for index in range(8)]
    assert [one.seed for one in answers] == seeds
    alone = [model.generate(prompt, max_tokens=10, **way | {"seed": seed}) for seed in seeds]
    assert answers == alone
    if "temperature" in way:
        assert len({tuple(one.token_ids) for one in answers}) > 1


def test_the_prompt_is_computed_once(model: Model) -> None:
    for answer in model.generate_n(PROMPTS[3], n=3, max_tokens=5, temperature=1):
        usage = answer.usage
        assert (usage.prompt_tokens, usage.cached_tokens) == (65, 64)
        # The last token of the prompt, and all of the answer but its last one.
        assert usage.computed_tokens == len(answer.token_ids)


def test_answers_end_with_the_context(model: Model) -> None:
    prompt = LONG[:120]
    answers = model.generate_n(prompt, 3, max_tokens=50, temperature=2)
    assert answers == [
        model.generate(prompt, max_tokens=50, temperature=2, seed=one.seed) for one in answers
    ]
    assert "context" in {one.length_reason for one in answers}


def test_coroutines_and_progress(model: Model) -> None:
    told: list[tuple[int, int]] = []
    options: dict[str, Any] = {"max_tokens": 3, "temperature": 1}
    found = asyncio.run(
        model.agenerate_n("Hi", 12, on_progress=lambda *how: told.append(how), **options)
    )
    assert found == model.generate_n("Hi", 12, **options)
    assert told == [(done, 12) for done in range(1, 13)]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("Hi", 0), OptionRangeError),
        (("Hi", limits.ANSWER_COUNT_MAX + 1), OptionRangeError),
        (("Hi", True), OptionRangeError),
        (([], 2), EmptyPromptError),
        (([1] * 128, 2), ContextLengthError),
    ],
)
def test_what_cannot_be_is_refused(
    model: Model, arguments: tuple[Any, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        model.generate_n(*arguments)


def test_options_of_other_calls_are_unknown(model: Model) -> None:
    with pytest.raises(UnknownOptionError):
        model.generate_n("Hi", 2, record="x.sslmr")  # type: ignore[call-arg]
    with pytest.raises(OptionRangeError, match="on_progress"):
        model.generate_n("Hi", 2, on_progress=5)  # type: ignore[arg-type]


def test_a_deadline_ends_all_of_them(model: Model) -> None:
    free = model._runner.free_bytes
    with pytest.raises(DeadlineExceededError):
        model.generate_n("Hi", 4, deadline_s=0)
    assert model._runner.free_bytes == free


def test_as_many_are_computed_together_as_fit() -> None:
    with Model(talking_artifact(), context_tokens=128) as free:
        total = free.footprint(sequences=2).total
        expected = free.generate_n(PROMPTS[3], 6, max_tokens=60, temperature=1)
    with Model(talking_artifact(), context_tokens=128, memory_bytes=total) as model:
        before = model._runner.free_bytes
        assert model.generate_n(PROMPTS[3], 6, max_tokens=60, temperature=1) == expected
        assert model._runner.free_bytes == before
    with Model(talking_artifact(), context_tokens=128) as free:
        nothing = free.footprint(sequences=0).total
    with Model(talking_artifact(), context_tokens=128, memory_bytes=nothing + 1000) as model:
        with pytest.raises(MemoryBudgetError):
            model.generate_n(PROMPTS[3], 6, max_tokens=60, temperature=1)
        assert model._runner.free_bytes == 1000
