"""Several prompts in one call: order, errors as values, and nothing half done."""

import time
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from sslm import limits
from sslm.answering.results import Completion
from sslm.engine.model import Model
from sslm.errors.base import SslmError
from sslm.errors.runtime import (
    ContextLengthError,
    DeadlineExceededError,
    EmptyPromptError,
    ObjectClosedError,
    OptionRangeError,
    TokenIdRangeError,
)
from sslm.errors.text import TextTypeError, TextUnicodeError
from sslm.sampling.seeds import row_seed
from tests.converted import stories_artifact
from tests.held_runs import acting
from tests.unit.engine.lone_runs import lone

PROMPTS: list[str | list[int]] = ["Once upon a time", [1, 300, 4], "Lily", ""]
BAD = [[1, 512], [], [1] * 512, 5, [1, -1]]
BAD_KINDS = [
    TokenIdRangeError,
    EmptyPromptError,
    ContextLengthError,
    TextTypeError,
    TokenIdRangeError,
]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(stories_artifact()) as opened:
        yield opened


def test_answers_come_in_the_order_of_the_prompts(model: Model) -> None:
    expected = lone(model, PROMPTS, max_tokens=6, stop="e")
    assert model.generate_many(PROMPTS, max_tokens=6, stop="e") == expected
    assert model.generate_many(iter(PROMPTS), max_tokens=6, stop=["e"]) == expected
    assert model.generate_many([]) == []


def test_errors_take_the_places_of_their_rows(model: Model) -> None:
    mixed: list[Any] = [prompt for pair in zip(PROMPTS, BAD, strict=False) for prompt in pair]
    answers = model.generate_many(mixed, max_tokens=4, return_errors=True)
    assert [type(one) for one in answers[1::2]] == BAD_KINDS[:4]
    places = range(0, len(mixed), 2)
    assert answers[::2] == [
        model.generate(mixed[place], max_tokens=4, seed=row_seed(0, str(place))) for place in places
    ]
    for index, one in enumerate(answers):
        if isinstance(one, SslmError):
            assert one.__notes__ == [f"in row {index} of the prompts"]
            # A traceback would keep whatever the call used.
            assert (one.__traceback__, one.__context__, one.__cause__) == (None, None, None)


@pytest.mark.parametrize(("bad", "kind"), list(zip(BAD, BAD_KINDS, strict=True)))
def test_the_first_error_is_raised_before_anything_is_computed(
    model: Model, bad: Any, kind: type[SslmError], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[object] = []
    monkeypatch.setattr(model._runner, "advance", runs.append)
    with pytest.raises(kind) as caught:
        model.generate_many([PROMPTS[0], bad, [1, 512]], max_tokens=2)
    assert "in row 1 of the prompts" in traceback.format_exception(caught.value)[-1]
    assert runs == []
    monkeypatch.undo()
    assert len(model.generate_many(PROMPTS, max_tokens=2)) == 4


@pytest.mark.parametrize("odd", ["abc", b"abc", {"a": 1}, {"a"}, None, 5])
def test_prompts_are_several(model: Model, odd: Any) -> None:
    with pytest.raises(OptionRangeError, match="prompts"):
        model.generate_many(odd)


def test_there_are_not_too_many(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROMPT_COUNT_MAX", 3)
    assert len(model.generate_many([[1]] * 3, max_tokens=1)) == 3

    def endless() -> Iterator[list[int]]:
        while True:
            yield [1]

    for return_errors in (False, True):
        with pytest.raises(OptionRangeError, match="at most 3"):
            model.generate_many(endless(), max_tokens=1, return_errors=return_errors)


def test_options_are_wrong_for_every_row(model: Model) -> None:
    with pytest.raises(OptionRangeError):
        model.generate_many(PROMPTS, max_tokens=0)
    unknown: dict[str, Any] = {"seeds": 7}
    with pytest.raises(TypeError):
        model.generate_many(PROMPTS, **unknown)


ODD_IDS: list[Any] = [
    "abcd", b"abcd", 5, ["a"], ["a"] * 5, ["a", "b", "c", "a"], ["a", "b", "c", ""],
    ["a", "b", "c", "x" * 513],
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_IDS)
def test_row_ids_name_each_row_once(model: Model, odd: Any) -> None:
    with pytest.raises(OptionRangeError, match="row_ids"):
        model.generate_many(PROMPTS, row_ids=odd, return_errors=True)


def test_row_ids_are_texts(model: Model) -> None:
    with pytest.raises(TextTypeError):
        model.generate_many(PROMPTS, row_ids=["a", "b", "c", 5])  # type: ignore[list-item]
    with pytest.raises(TextUnicodeError):
        model.generate_many(PROMPTS, row_ids=["a", "b", "c", "\ud800"])


def test_a_row_draws_by_its_id_wherever_it_stands(model: Model) -> None:
    options: dict[str, Any] = {"max_tokens": 9, "temperature": 1, "seed": 7}
    names = ["r1", "ä", "c", "d"]
    rows = model.generate_many(PROMPTS, row_ids=iter(names), **options)
    assert rows == lone(model, PROMPTS, row_ids=names, **options)
    assert [row.seed for row in rows] == [row_seed(7, name) for name in names]
    for row, prompt in zip(rows, PROMPTS, strict=True):
        assert model.generate(prompt, **options | {"seed": row.seed}) == row
    turned = model.generate_many(PROMPTS[::-1], row_ids=names[::-1], batch_size=2, **options)
    assert turned == rows[::-1]
    # Rows of one prompt draw apart, and numbers are the names where none are given.
    alike = model.generate_many(["Once"] * 3, **options)
    assert len({row.text for row in alike}) > 1
    assert alike == model.generate_many(["Once"] * 3, row_ids=["0", "1", "2"], **options)


def test_an_error_of_the_iterable_is_the_callers(model: Model) -> None:
    def broken() -> Iterator[str]:
        yield "a"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        model.generate_many(broken(), return_errors=True)


def test_what_a_deadline_leaves(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeadlineExceededError) as caught:
        model.generate_many(["Once", "Lily", "The"], deadline_s=0)
    assert caught.value.__notes__ == ["in row 0 of the prompts"]
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    with acting(model, lambda: now_s.insert(0, 501), after=150):
        answers = model.generate_many(
            [[1] * 20] + [[1] * 400] * 60, max_tokens=100, deadline_s=500, return_errors=True
        )
    kinds = [type(one) for one in answers]
    count = kinds.count(Completion)
    assert 1 <= count < 61
    assert kinds == [Completion] * count + [DeadlineExceededError] * (61 - count)
    last = answers[-1]
    assert isinstance(last, DeadlineExceededError)
    assert last.prompt_tokens == 0


def test_a_closed_model_is_no_rows_error() -> None:
    model = Model(stories_artifact())

    def prompts() -> Iterator[str]:
        yield "a"
        model.close()
        yield "b"

    with pytest.raises(ObjectClosedError):
        model.generate_many(prompts(), return_errors=True)


def test_types_say_whether_there_are_errors(model: Model) -> None:
    # Checked by mypy: without errors among them, answers need no isinstance.
    plain: list[Completion] = model.generate_many([[1]], max_tokens=1)
    mixed: list[Completion | SslmError] = model.generate_many(
        [[1]], max_tokens=1, return_errors=True
    )
    assert plain[0].token_ids
    assert [*plain] == mixed
