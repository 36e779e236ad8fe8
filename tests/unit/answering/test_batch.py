"""Rows that are computed together: the answers of lone runs, within memory and time."""

import asyncio
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest

import sslm
from sslm.answering.batch import Batch
from sslm.answering.cutoff import Cutoff
from sslm.answering.request import Request
from sslm.answering.results import Completion
from sslm.answering.rows import RowRequest
from sslm.engine.model import Model
from sslm.errors.base import SslmError
from sslm.errors.engine import NoChatTemplateError
from sslm.errors.runtime import (
    ContextLengthError,
    DeadlineExceededError,
    EmptyPromptError,
    MemoryBudgetError,
    MemoryRefusedError,
    ObjectClosedError,
    OptionRangeError,
)
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.slices.stepper import Outcome
from tests.converted import stories_artifact
from tests.held_runs import GUARD_S, acting, held
from tests.unit.engine.lone_runs import lone

SHORT, LONG = [1] * 3, [1] * 400


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(stories_artifact()) as opened:
        yield opened


def held_bytes(model: Model) -> int:
    return sum(lease.size_bytes for lease in model._runner.admission._leases)


def request(ids: list[int], max_tokens: int) -> Request:
    return Request(
        prompt_ids=tuple(ids), max_tokens=max_tokens, stop=(), stop_token_ids=frozenset()
    )


def batch_of(model: Model, rows: Iterator[Request | SslmError], **options: Any) -> Batch:
    given: dict[str, Any] = {"batch_size": 4, "window": 8, "cutoff": Cutoff()} | options
    return Batch(model._runner, model._maker(), rows, **given)


def spied_runs(model: Model, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Note of each run how many sequences it has, and how many tokens."""
    runs: list[tuple[int, int]] = []
    runner = model._runner
    advance = runner.advance_each

    def spy(sequences: list[Any], **options: Any) -> list[Outcome]:
        pending = [one.pending_count for one in sequences]
        runs.append((len(pending), sum(min(options["chunk_rows"], one) for one in pending)))
        return advance(sequences, **options)

    monkeypatch.setattr(runner, "advance_each", spy)
    return runs


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_rows_are_answered_as_if_each_were_alone(backend: str) -> None:
    order = random.Random(6)
    with Model(stories_artifact(), backend=backend) as model:
        count = 40 if backend == "native" else 3
        prompts = [
            [1, *(order.randrange(3, 512) for _ in range(order.choice([0, 1, 5, 62, 63, 64, 130])))]
            for _ in range(count)
        ]
        expected = lone(model, prompts, max_tokens=9, stop="e")
        for size in (1, 2, 3, 8, 64) if backend == "native" else (3,):
            assert model.generate_many(prompts, max_tokens=9, stop="e", batch_size=size) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": "0.9", "top_p": 0.9, "top_k": 40, "seed": 5},
        {"repetition_penalty": 1.3, "frequency_penalty": 0.5, "logit_bias": {300: 2}},
        {"damping": 1, "damping_order": 3},
    ],
    ids=["sampled", "penalized", "damped"],
)
def test_neighbours_change_no_choice(model: Model, options: dict[str, Any]) -> None:
    prompts: list[str | list[int]] = [
        SHORT,
        "Once upon a time",
        LONG,
        "Lily",
        [1, 300],
        LONG[:70],
        "The",
    ]
    expected = lone(model, prompts, max_tokens=25, **options)
    for size in (1, 3, 64):
        many = model.generate_many(prompts, max_tokens=25, batch_size=size, **options)
        assert many == expected


def test_usage_is_told_as_for_lone_runs(model: Model) -> None:
    lone = [model.generate(prompt, max_tokens=5) for prompt in (SHORT, LONG)]
    for one, row in zip(lone, model.generate_many([SHORT, LONG], max_tokens=5), strict=True):
        for name in ("prompt_tokens", "completion_tokens", "computed_tokens", "cached_tokens"):
            assert getattr(one.usage, name) == getattr(row.usage, name), name
        assert row.usage.prefill_ms is not None
        assert row.usage.decode_ms is not None
        assert row.usage.total_ms == pytest.approx(row.usage.prefill_ms + row.usage.decode_ms)


def test_a_free_place_is_taken_at_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = spied_runs(model, monkeypatch)
    rows = iter([request(SHORT, count) for count in (1, 5, 9, 2, 2, 2)])
    answers = list(batch_of(model, rows, batch_size=2).results())
    lengths = [len(one.token_ids) for one in answers if isinstance(one, Completion)]
    assert lengths == [1, 5, 9, 2, 2, 2]
    # 21 tokens in two places: never fewer than two rows until the last one is alone.
    assert [count for count, _ in runs] == [2] * 10 + [1]


def test_runs_have_no_more_tokens_than_others_turns(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = spied_runs(model, monkeypatch)
    model.generate_many([LONG] * 12, max_tokens=110, batch_size=12)
    assert max(tokens for _, tokens in runs) == model._runner.row_count_max
    assert max(count for count, _ in runs) == 12


def test_results_wait_in_a_window(model: Model) -> None:
    begun = []

    def rows() -> Iterator[Request]:
        for index in range(40):
            begun.append(index)
            yield request(SHORT, 90 if index == 0 else 1)

    results = batch_of(model, rows(), window=10).results()
    next(results)
    # The first row took longest; of the others no more than nine could begin before it was given.
    assert begun == list(range(10))
    assert len(list(results)) == 39


def sizes(model: Model, *lengths: int) -> int:
    """Return the bytes of the model and of sequences of so many tokens."""
    own = [
        sum(model._runner.sequence_sizes_bytes(SequenceOptions(context_tokens=n))) for n in lengths
    ]
    return held_bytes(model) + sum(own)


def test_a_row_waits_for_the_memory_of_another(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = sizes(model, 405, 405)
    prompts = [LONG, SHORT, LONG, LONG]
    expected = model.generate_many(prompts, max_tokens=5)
    with Model(stories_artifact(), memory_bytes=two) as bounded:
        runs = spied_runs(bounded, monkeypatch)
        assert bounded.generate_many(prompts, max_tokens=5) == expected
        assert max(count for count, _ in runs) == 2
        assert held_bytes(bounded) == held_bytes(model)


def test_a_row_that_does_not_fit_alone_is_refused(model: Model) -> None:
    prompts = [SHORT, SHORT, LONG, SHORT]
    expected = model.generate_many(prompts, max_tokens=5)
    with Model(stories_artifact(), memory_bytes=sizes(model, 7, 7)) as bounded:
        rows = bounded.generate_many(prompts, max_tokens=5, return_errors=True)
        assert isinstance(rows[2], MemoryBudgetError)
        assert rows[2].__notes__ == ["in row 2 of the prompts"]
        assert rows[:2] + rows[3:] == expected[:2] + expected[3:]
        with pytest.raises(MemoryBudgetError):
            bounded.generate_many(prompts, max_tokens=5)
        assert held_bytes(bounded) == held_bytes(model)


def test_a_row_that_fails_half_way_is_alone_in_that(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = model.generate_many([SHORT, LONG, SHORT], max_tokens=6)
    runner = model._runner
    advance = runner.advance_each
    left = iter([True, False, False])

    def failing(sequences: list[Any], **options: Any) -> list[Outcome]:
        outcomes = advance(sequences, **options)
        if next(left, True) is False:
            outcomes[0] = Outcome(sequences[0], error=MemoryRefusedError("rows", 1, "less"))
        return outcomes

    monkeypatch.setattr(runner, "advance_each", failing)
    rows = model.generate_many([SHORT, LONG, SHORT], max_tokens=6, return_errors=True)
    assert isinstance(rows[0], MemoryRefusedError)
    assert rows[1] == expected[1]
    assert isinstance(rows[2], MemoryRefusedError)
    before = held_bytes(model)
    left = iter([False])
    with pytest.raises(MemoryRefusedError):
        model.generate_many([SHORT, LONG], max_tokens=6)
    assert held_bytes(model) == before


def test_errors_come_in_the_order_of_rows(model: Model) -> None:
    rows: list[Request | SslmError] = [request(LONG, 20), EmptyPromptError(), request(SHORT, 1)]
    found = list(batch_of(model, iter(rows)).results())
    assert [type(one) for one in found] == [Completion, EmptyPromptError, Completion]
    empty = list(batch_of(model, iter([EmptyPromptError()] * 30), window=4).results())[29]
    assert isinstance(empty, EmptyPromptError)
    assert empty.args == ()
    assert list(batch_of(model, iter(())).results()) == []


def test_progress_counts_rows_that_are_done(model: Model) -> None:
    told: list[tuple[int, int]] = []
    model.generate_many(
        [SHORT, [], LONG],
        max_tokens=4,
        return_errors=True,
        on_progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(1, 3), (2, 3), (3, 3)]

    def stop(done: int, total: int) -> None:
        raise KeyError(done)

    before = held_bytes(model)
    with pytest.raises(KeyError):
        model.generate_many([SHORT, LONG], max_tokens=4, on_progress=stop)
    assert held_bytes(model) == before


@pytest.mark.parametrize("size", [0, 65, True, "8", None])
def test_sizes_are_checked(model: Model, size: Any) -> None:
    with pytest.raises(OptionRangeError, match="batch_size"):
        model.generate_many([SHORT], batch_size=size)
    odd: Any = size or 1
    with pytest.raises(OptionRangeError, match="on_progress"):
        model.generate_many([SHORT], on_progress=odd)


def test_a_deadline_tells_of_each_row_how_far_it_came(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]

    def let_time_pass() -> None:
        now_s[0] += 501.5

    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    prompts = [SHORT, *[LONG] * 40]
    with acting(model, let_time_pass, after=8):
        rows = model.generate_many(prompts, max_tokens=100, deadline_s=500, return_errors=True)
    assert [type(one) for one in rows] == [DeadlineExceededError] * 41
    late = [one for one in rows if isinstance(one, DeadlineExceededError)]
    # The first run took in the short prompt, seven more chose its tokens beside the others' chunks.
    assert (late[0].prompt_tokens, late[0].completion_tokens) == (3, 8)
    assert late[0].token_ids == tuple(lone(model, [SHORT], max_tokens=8)[0].token_ids)
    assert 0 < late[1].prompt_tokens <= 400
    assert (late[-1].prompt_tokens, late[-1].token_ids, late[-1].text) == (0, (), "")
    for one in late:
        assert one.completion_tokens == len(one.token_ids)
        assert one.elapsed_s in (501.5, 0)
    with (
        acting(model, let_time_pass, after=1),
        pytest.raises(DeadlineExceededError),
    ):
        model.generate_many([LONG] * 40, max_tokens=100, deadline_s=500)


def test_a_cancelled_call_ends_with_its_slice_and_holds_nothing(model: Model) -> None:
    before = held_bytes(model)

    async def main() -> None:
        with held(model, after=5) as hold:
            task = asyncio.create_task(
                model.agenerate_many([LONG] * 100, max_tokens=100, return_errors=True)
            )
            await hold.reached()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert hold.count == 6

    asyncio.run(main())
    assert held_bytes(model) == before


def test_other_threads_have_their_turns(model: Model) -> None:
    """Slice by slice: where each waits until another thread wants one, none has two in a row."""
    expected = model.generate(SHORT, max_tokens=20)
    answers: list[Completion] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            answers.append(model.generate(SHORT, max_tokens=20))

    thread = threading.Thread(target=ask)
    with held(model, lets_pass=True) as hold:
        thread.start()
        rows = model.generate_many([LONG] * 12, max_tokens=50)
        slice_count = hold.count
        is_over.set()
        hold.release()
        thread.join(GUARD_S)
    assert rows == lone(model, [LONG] * 12, max_tokens=50)
    assert answers == [expected] * len(answers)
    assert len(answers) > 3
    turns = hold.threads[:slice_count]
    assert all(one != other for one, other in pairwise(turns))


def test_closing_the_model_meanwhile_is_no_rows_error() -> None:
    with Model(stories_artifact()) as model:
        told: Iterator[Callable[[], None]] = iter([lambda: None, model.close])
        with pytest.raises(ObjectClosedError):
            model.generate_many(
                [SHORT, LONG, LONG],
                max_tokens=9,
                return_errors=True,
                batch_size=1,
                on_progress=lambda done, total: next(told)(),
            )


def test_an_interrupt_at_any_line_leaves_nothing(model: Model) -> None:
    prompts = [SHORT, [], SHORT, SHORT]
    ask = partial(model.generate_many, prompts, max_tokens=2, return_errors=True, batch_size=2)
    expected = ask()[2]
    before = held_bytes(model)
    package = os.path.dirname(sslm.__file__)  # noqa: PTH120
    left = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(package):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    def traced() -> None:
        sys.settrace(trace)
        try:
            ask()
        finally:
            sys.settrace(None)

    traced()
    line_count = -left
    for line in range(1, line_count + 1, 29):
        left = line
        with pytest.raises(KeyboardInterrupt):
            traced()
        assert held_bytes(model) == before, line
    assert ask()[2] == expected


def test_rows_may_have_options_of_their_own(model: Model) -> None:
    rows: list[RowRequest | SslmError] = [
        RowRequest(prompt="Once upon a time", options={"max_tokens": 20, "stop": "e"}),
        EmptyPromptError(),
        RowRequest(prompt=SHORT, options={"max_tokens": 3, "temperature": 2, "seed": 9}),
        RowRequest(prompt=[], options={}),
        RowRequest(prompt=[1] * 512, options={}),
        RowRequest(prompt=SHORT, options={"max_tokens": 0}),
        RowRequest(messages=[{"role": "user", "content": "a"}], options={}),
    ]
    first, second, third, *others = model.answer_rows(iter(rows), batch_size=3)
    assert first == model.generate("Once upon a time", max_tokens=20, stop="e")
    assert second is rows[1]
    assert third == model.generate(SHORT, max_tokens=3, temperature=2, seed=9)
    kinds = [EmptyPromptError, ContextLengthError, OptionRangeError, NoChatTemplateError]
    assert [type(one) for one in others] == kinds
    with pytest.raises(OptionRangeError, match="batch_size"):
        model.answer_rows([], batch_size=0)


def test_rows_are_taken_as_places_come_free(model: Model) -> None:
    taken = []

    def rows() -> Iterator[RowRequest]:
        for index in range(1000):
            taken.append(index)
            yield RowRequest(prompt=SHORT, options={"max_tokens": 2})

    before = held_bytes(model)
    results = model.answer_rows(rows(), batch_size=4)
    assert taken == []
    assert isinstance(next(results), Completion)
    assert len(taken) <= 8
    results.close()
    assert held_bytes(model) == before


@pytest.mark.parametrize("odd", ["x", None, 3, RowRequest(options=3)], ids=repr)  # type: ignore[arg-type]
def test_what_is_no_request_takes_the_place_of_its_row(model: Model, odd: Any) -> None:
    good = RowRequest(prompt=SHORT, options={"max_tokens": 2})
    refused, answered = model.answer_rows([odd, good])
    assert isinstance(refused, OptionRangeError)
    assert answered == model.generate(SHORT, max_tokens=2)
