"""Answers that are computed in slices are those of generate, whoever shares what with whom."""

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from sslm.answering.live_prefix import LivePrefix
from sslm.answering.live_scheduler import LiveScheduler
from sslm.answering.live_sequence import LiveSequence
from sslm.answering.results import Completion
from sslm.engine.model import Model
from sslm.errors.base import SslmError
from sslm.errors.runtime import (
    AlreadyScheduledError,
    BudgetMissingError,
    ContextLengthError,
    EmptyPromptError,
    KvPoolExhaustedError,
    MemoryBudgetError,
    MemoryTooSmallError,
    NotCopyableError,
    NotScheduledError,
    ObjectClosedError,
    OptionRangeError,
    PoolInUseError,
    PrefixNotFrozenError,
    SequenceInterruptedError,
    SequenceInUseError,
    SequenceUnfinishedError,
    TokenIdRangeError,
)
from sslm.errors.text import TextTypeError
from sslm.memory import anonymous_memory
from sslm.opening.shared_pool import SharedPool
from sslm.program.parallel_for import ParallelFor
from tests.converted import stories_artifact, talking_artifact
from tests.unit.engine.test_interrupts import InterruptAt

PROMPT = "Once upon a time, there was a little girl named Lily."
STORY = PROMPT + " She loved to play outside in the park." * 4


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(stories_artifact(), threads=1) as opened:
        yield opened


@pytest.fixture
def pool(model: Model) -> Iterator[SharedPool]:
    with model.kv_pool(1024) as made:
        yield made


def finish(work: LiveSequence | LivePrefix, **budget: Any) -> None:
    """Advance until it is done."""
    while not work.done:
        work.advance(**(budget or {"layers": 1000}))


def finished_prefix(model: Model, pool: SharedPool, text: str = STORY) -> LivePrefix:
    prefix = model.prefix(text, pool=pool)
    finish(prefix)
    return prefix


# The same answers.

REQUESTS: dict[str, dict[str, Any]] = {
    "long": {"prompt": STORY, "max_tokens": 40},
    "one token": {"prompt": PROMPT, "max_tokens": 1},
    "ids": {"prompt": [1, 403, 407], "max_tokens": 9},
    "stop": {"prompt": PROMPT, "max_tokens": 40, "stop": ["play", "."]},
    "stop within a token": {"prompt": PROMPT, "max_tokens": 40, "stop": "ay"},
    "end of the context": {"prompt": [5] * 500, "max_tokens": 100},
}


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize(
    "budget",
    [{"layers": 1}, {"layers": 7}, {"max_ms": 0}, {"max_ms": 0.3}, {"layers": 3, "max_ms": 50}],
    ids=str,
)
def test_an_answer_in_slices(model: Model, request_name: str, budget: dict[str, Any]) -> None:
    options = dict(REQUESTS[request_name])
    expected = model.generate(**options)
    pieces = []
    with model.sequence(**options) as sequence:
        assert sequence.text == ""
        while not sequence.done:
            sequence.advance(**budget)
            pieces.append(sequence.new_text())
        assert sequence.result() == expected
        assert sequence.token_ids == expected.token_ids
        assert sequence.text == "".join(pieces) == expected.text
        assert sequence.new_text() == ""
        before = sequence.stats()
        sequence.advance(**budget)
        assert sequence.stats() == before


def test_an_end_token_ends_it() -> None:
    with Model(talking_artifact(ends_with_a_line=True)) as talker:
        prompt = [1, *talker.tokenizer.encode("One day")]
        expected = talker.generate(prompt, max_tokens=200)
        assert expected.finish_reason == "stop"
        with talker.sequence(prompt, max_tokens=200) as sequence:
            finish(sequence, layers=3)
            assert sequence.result() == expected


def test_usage_tells_no_times(model: Model, pool: SharedPool) -> None:
    prefix = finished_prefix(model, pool)
    with prefix, model.sequence(" He", prefix=prefix, max_tokens=3) as sequence:
        finish(sequence)
        usage = sequence.result().usage
    assert usage.prompt_tokens == prefix.token_count + len(model.tokenizer.encode(" He")) - 1
    assert (usage.completion_tokens, usage.cached_tokens) == (3, prefix.token_count)
    assert usage.prefill_ms is None


# Prefixes.


@pytest.mark.parametrize("length", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("budget", [{"layers": 2}, {"max_ms": 0.2}], ids=str)
def test_several_on_one_prefix(
    model: Model, pool: SharedPool, length: int, budget: dict[str, Any]
) -> None:
    ids = [1, *([403, 407, 261, 378, 432, 383] * 50)][:length]
    with model.prefix(ids, pool=pool) as prefix:
        finish(prefix, **budget)
        sequences = [
            model.sequence(prompt, prefix=prefix, max_tokens=12)
            for prompt in (" She", " They all", [300])
        ]
    for sequence in sequences:
        assert sequence.prompt_token_ids[:length] == ids
        finish(sequence, **budget)
        assert sequence.result() == model.generate(sequence.prompt_token_ids, max_tokens=12)
        sequence.close()
    assert pool.free_tokens == pool.tokens


def test_full_pages_are_shared(model: Model, pool: SharedPool) -> None:
    with model.prefix([5] * 200, pool=pool) as prefix:
        finish(prefix)
        assert pool.free_tokens == 1024 - 3 * 64
        held = pool.tokens - pool.free_tokens
        with model.sequence([6], prefix=prefix, max_tokens=20) as sequence:
            # Of the fourth page, which is not full, the sequence has one of its own.
            assert pool.tokens - pool.free_tokens == held + 64
            assert sequence.stats().shared_pages == 3


def test_a_prefix_on_a_prefix(model: Model, pool: SharedPool) -> None:
    with finished_prefix(model, pool) as base:
        with model.prefix(" Her name was Ada.", prefix=base) as prefix:
            with pytest.raises(PrefixNotFrozenError, match="advance it until it is done"):
                model.sequence(" She", prefix=prefix)
            finish(prefix)
            assert prefix.token_ids[: base.token_count] == base.token_ids
            sequence = model.sequence(" She", prefix=prefix, max_tokens=9)
        with sequence:
            finish(sequence)
            assert sequence.result() == model.generate(sequence.prompt_token_ids, max_tokens=9)


def test_a_prefix_that_is_closed(model: Model, pool: SharedPool) -> None:
    prefix = finished_prefix(model, pool)
    prefix.close()
    prefix.close()
    with pytest.raises(ObjectClosedError, match="prefix"):
        model.sequence(" She", prefix=prefix)
    with pytest.raises(ObjectClosedError, match="prefix"):
        prefix.advance(layers=1)
    assert pool.free_tokens == pool.tokens


def test_a_prefix_needs_tokens(model: Model, pool: SharedPool) -> None:
    with pytest.raises(EmptyPromptError):
        model.prefix([], pool=pool)
    with pytest.raises(ContextLengthError):
        model.prefix([1] * 512, pool=pool)
    with pytest.raises(TokenIdRangeError):
        model.prefix([1, 512], pool=pool)
    with pytest.raises(OptionRangeError, match="pool is None"):
        model.prefix("Once")
    assert pool.free_tokens == pool.tokens


# Again and again.


def test_a_reset_in_any_state(model: Model, pool: SharedPool) -> None:
    prefix = finished_prefix(model, pool, PROMPT)
    sequence = model.sequence(" She was", prefix=prefix, max_tokens=100, context_tokens=200)
    prefix.close()
    held = pool.free_tokens
    for units in (0, 1, 4, 17, 60, 1000):
        if units:
            sequence.advance(layers=units)
        sequence.reset(" The dog", max_tokens=11, stop="x")
        assert (sequence.text, sequence.token_ids, sequence.done) == ("", [], False)
        assert pool.free_tokens == held
    finish(sequence, layers=5)
    expected = model.generate(sequence.prompt_token_ids, max_tokens=11, stop="x")
    assert sequence.result() == expected
    assert sequence.new_text() == expected.text
    sequence.close()
    assert pool.free_tokens == pool.tokens


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"prompt": [1] * 40}, ContextLengthError),
        ({"prompt": [1], "max_tokens": 31}, ContextLengthError),
        ({"prompt": []}, EmptyPromptError),
        ({"prompt": [1], "max_tokens": 0}, OptionRangeError),
        ({"prompt": [1, 512], "max_tokens": 3}, TokenIdRangeError),
        ({"prompt": b"One"}, TextTypeError),
    ],
)
def test_a_reset_that_is_refused_changes_nothing(
    model: Model, options: dict[str, Any], error: type[SslmError]
) -> None:
    with model.sequence([1, 403, 407], max_tokens=27, context_tokens=31) as sequence:
        sequence.advance(layers=30)
        before = (sequence.text, sequence.token_ids, sequence.stats())
        with pytest.raises(error):
            sequence.reset(**options)
        assert (sequence.text, sequence.token_ids, sequence.stats()) == before
        finish(sequence)
        assert sequence.result() == model.generate([1, 403, 407], max_tokens=27)


# What is refused.


def test_what_the_default_asks_for_is_named(model: Model) -> None:
    with pytest.raises(ContextLengthError, match="lower max_tokens"):
        model.sequence([1], context_tokens=2)
    with (
        model.sequence([1], max_tokens=1) as sequence,
        pytest.raises(ContextLengthError, match="lower max_tokens"),
    ):
        sequence.reset([1])


def test_a_result_before_the_end(model: Model) -> None:
    with model.sequence(PROMPT, max_tokens=5) as sequence:
        sequence.advance(layers=11)
        with pytest.raises(SequenceUnfinishedError) as caught:
            sequence.result()
    assert caught.value.completion_tokens == len(sequence.token_ids)


@pytest.mark.parametrize(
    ("budget", "error"),
    [
        ({}, BudgetMissingError),
        ({"layers": 0}, OptionRangeError),
        ({"layers": 1.5}, OptionRangeError),
        ({"layers": True}, OptionRangeError),
        ({"max_ms": -1}, OptionRangeError),
        ({"max_ms": "1"}, OptionRangeError),
        ({"layers": 1, "max_ms": float("nan")}, OptionRangeError),
    ],
)
def test_budgets(model: Model, budget: dict[str, Any], error: type[SslmError]) -> None:
    with model.sequence(PROMPT, max_tokens=5) as sequence:
        before = sequence.stats()
        with pytest.raises(error):
            sequence.advance(**budget)
        with pytest.raises(error):
            model.scheduler().run(**budget)
        assert sequence.stats() == before


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"prompt": [1] * 512}, ContextLengthError),
        ({"prompt": [1], "max_tokens": 20, "context_tokens": 20}, ContextLengthError),
        ({"prompt": [1], "context_tokens": 1}, OptionRangeError),
        ({"prompt": [1], "context_tokens": 513}, OptionRangeError),
        ({"prompt": [1], "pool": "one"}, OptionRangeError),
        ({"prompt": [1], "prefix": "Once"}, OptionRangeError),
        ({"prompt": ""}, None),
        ({"prompt": 1}, TextTypeError),
    ],
)
def test_requests(model: Model, options: dict[str, Any], error: type[SslmError] | None) -> None:
    if error is None:
        model.sequence(**options).close()
    else:
        with pytest.raises(error):
            model.sequence(**options)


def test_things_of_another_model(model: Model, pool: SharedPool) -> None:
    prefix = finished_prefix(model, pool, PROMPT)
    with prefix, model.sequence([1]) as sequence, Model(stories_artifact()) as other:
        choices: tuple[dict[str, Any], ...] = ({"pool": pool}, {"prefix": prefix})
        for options in choices:
            with pytest.raises(OptionRangeError, match="one of this model's"):
                other.sequence([1], **options)
        with pytest.raises(OptionRangeError, match="item"):
            other.scheduler().add(sequence)
        with model.kv_pool(64) as second, pytest.raises(OptionRangeError, match="the same"):
            model.sequence([1], prefix=prefix, pool=second)


def test_nothing_is_copied_elsewhere(model: Model, pool: SharedPool) -> None:
    sequence, prefix = model.sequence([1]), finished_prefix(model, pool)
    for thing in (sequence, prefix, model.scheduler(), pool):
        for call in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(NotCopyableError):
                call(thing)
    sequence.close()
    prefix.close()


# Memory.


def test_a_pool_that_is_full(model: Model) -> None:
    with model.kv_pool(100) as small:
        assert (small.tokens, small.free_tokens) == (128, 128)
        first = model.sequence([1], max_tokens=100, pool=small)
        with pytest.raises(KvPoolExhaustedError):
            model.sequence([1], max_tokens=5, pool=small)
        with pytest.raises(PoolInUseError):
            small.close()
        finish(first)
        assert first.result() == model.generate([1], max_tokens=100)
        first.close()
        assert small.free_tokens == 128
    with pytest.raises(ObjectClosedError, match="pool"):
        model.sequence([1], pool=small)


def test_memory_of_the_caller(model: Model) -> None:
    size = model.kv_pool_size_bytes(200)
    memory = anonymous_memory(size)
    with model.kv_pool(200, memory=memory) as pool:
        assert pool.size_bytes == size
        with model.sequence(PROMPT, max_tokens=9, pool=pool) as sequence:
            finish(sequence)
            assert sequence.result() == model.generate(PROMPT, max_tokens=9)
    assert any(memory)
    with pytest.raises(MemoryTooSmallError):
        model.kv_pool(200, memory=bytearray(size - 1))
    for wrong in (bytes(size), "memory", 7):
        with pytest.raises(OptionRangeError, match="memory"):
            model.kv_pool(200, memory=wrong)
    for tokens in (0, 1 << 40, 1.0):
        with pytest.raises(OptionRangeError, match="tokens"):
            model.kv_pool(tokens)  # type: ignore[arg-type]


def test_all_memory_is_admitted() -> None:
    with Model(stories_artifact()) as unbounded:
        base = unbounded.footprint(0).total
        kv = unbounded.kv_pool_size_bytes(256)
        one = unbounded.footprint(1)
    buffers = one.scratch - (base - one.weights)
    with Model(stories_artifact(), memory_bytes=base + kv + 3 * buffers) as model:
        pool = model.kv_pool(256)
        prefix = finished_prefix(model, pool, [1] * 70)  # type: ignore[arg-type]
        sequences = [model.sequence([3], prefix=prefix, max_tokens=9) for _ in range(2)]
        with pytest.raises(MemoryBudgetError):
            model.kv_pool(256)
        third = model.sequence([3], prefix=prefix, max_tokens=9)
        with pytest.raises(MemoryBudgetError):
            model.sequence([3], prefix=prefix, max_tokens=9)
        third.close()
        for sequence in sequences:
            sequence.close()
        sequences = [model.sequence([3], prefix=prefix, max_tokens=9) for _ in range(2)]
        del sequences
        prefix.close()
        pool.close()
        model.kv_pool(256).close()


def held_bytes(model: Model) -> int:
    """Return what is admitted, of the bound of a GB that *model* was opened with."""
    free = model._runner.free_bytes
    assert free is not None
    return 1_000_000_000 - free


@pytest.mark.parametrize("length", [1, 63, 64, 65, 127])
def test_a_prefix_never_takes_more_than_when_it_was_made(length: int) -> None:
    """And what it keeps is counted as long as anybody has it."""
    with Model(stories_artifact(), memory_bytes=1_000_000_000) as model:
        pool = model.kv_pool(512)
        before = held_bytes(model)
        base = model.prefix([1] * length, pool=pool)
        made = held_bytes(model)
        finish(base, layers=3)
        kept = base.snapshot.size_bytes
        assert held_bytes(model) == before + kept < made
        sequence = model.sequence([5], prefix=base, max_tokens=3)
        own = held_bytes(model) - before - kept
        base.close()
        assert held_bytes(model) == before + kept + own
        sequence.reset([7], max_tokens=3)
        sequence.close()
        assert held_bytes(model) == before


@pytest.mark.parametrize("on_base", [False, True])
def test_a_prefix_that_does_not_fit_takes_nothing(on_base: bool) -> None:
    with Model(stories_artifact(), memory_bytes=1_000_000_000) as roomy:
        pool = roomy.kv_pool(256)
        base = finished_prefix(roomy, pool, [1] * 70) if on_base else None  # type: ignore[arg-type]
        before = held_bytes(roomy)
        roomy.prefix([5] * 63, pool=pool, prefix=base).advance(layers=1)
        prefix = roomy.prefix([5] * 63, pool=pool, prefix=base)
        size = held_bytes(roomy) - before
    with Model(stories_artifact(), memory_bytes=before + size) as model:
        pool = model.kv_pool(256)
        base = finished_prefix(model, pool, [1] * 70) if on_base else None  # type: ignore[arg-type]
        free, held = pool.free_tokens, model._runner.free_bytes
        prefix = model.prefix([5] * 63, pool=pool, prefix=base)
        with pytest.raises(MemoryBudgetError) as caught:
            model.prefix([5], pool=pool, prefix=base)
        finish(prefix)
        prefix.close()
        assert (pool.free_tokens, model._runner.free_bytes) == (free, held)
        assert caught.value.limit_bytes == before + size


def test_what_is_closed_holds_no_buffers(model: Model, pool: SharedPool) -> None:
    """Also while somebody still has the object."""
    sequence = model.sequence(PROMPT, max_tokens=3, pool=pool)
    prefix = model.prefix(PROMPT, pool=pool)
    memories = [weakref.ref(one.sequence.state.data) for one in (sequence, prefix)]
    finish(sequence)
    finish(prefix)
    sequence.close()
    assert [memory() for memory in memories] == [None, None]
    assert sequence.result() == model.generate(PROMPT, max_tokens=3)
    prefix.close()
    assert prefix.done
    with model.sequence(PROMPT, max_tokens=3) as alone:
        pages = weakref.ref(alone.sequence.memory.pool)
    assert pages() is None
    assert not alone.done


# Several at once.


def answers(model: Model, sequences: list[LiveSequence]) -> list[Completion]:
    return [
        model.generate(sequence.prompt_token_ids, max_tokens=15 + index)
        for index, sequence in enumerate(sequences)
    ]


@pytest.mark.parametrize("budget", [{"layers": 1}, {"layers": 40}, {"max_ms": 0.4}], ids=str)
def test_turns(model: Model, pool: SharedPool, budget: dict[str, Any]) -> None:
    scheduler = model.scheduler()
    prefix = model.prefix(STORY, pool=pool)
    scheduler.add(prefix)
    while not prefix.done:
        assert scheduler.run(**budget) == []
    assert scheduler.items == []
    prompts: list[str | list[int]] = [" She", " They all", " The big dog", [300, 301]]
    sequences = [
        model.sequence(prompt, prefix=prefix, max_tokens=15 + index)
        for index, prompt in enumerate(prompts)
    ]
    for index, sequence in enumerate(sequences):
        scheduler.add(sequence, weight=1 + index)
    assert scheduler.items == sequences
    while not all(sequence.done for sequence in sequences):
        assert scheduler.run(**budget) == []
    assert [sequence.result() for sequence in sequences] == answers(model, sequences)
    sequences[1].reset(" A cat", max_tokens=8)
    while not sequences[1].done:
        assert scheduler.run(**budget) == []
    again = model.generate(sequences[1].prompt_token_ids, max_tokens=8)
    assert sequences[1].result() == again
    for work in (*sequences, prefix):
        work.close()


def test_who_has_turns(model: Model, pool: SharedPool) -> None:
    scheduler = model.scheduler()
    first, second = (model.sequence([1], max_tokens=9, pool=pool) for _ in range(2))
    scheduler.add(first)
    with pytest.raises(AlreadyScheduledError):
        scheduler.add(first)
    with pytest.raises(NotScheduledError):
        scheduler.remove(second)
    for weight in (0, 65, 1.5):
        with pytest.raises(OptionRangeError, match="weight"):
            scheduler.add(second, weight=weight)  # type: ignore[arg-type]
    for item in ("one", scheduler):
        with pytest.raises(OptionRangeError, match="item"):
            scheduler.add(item)  # type: ignore[arg-type]
    scheduler.add(second)
    scheduler.remove(first)
    assert scheduler.items == [second]
    scheduler.run(layers=1000)
    assert (first.done, second.done) == (False, True)
    finish(first)
    second.close()
    (failure,) = scheduler.run(layers=1)
    assert failure.item is second
    assert isinstance(failure.error, ObjectClosedError)
    assert scheduler.items == []
    first.close()


def test_one_in_use_keeps_nobody_waiting(model: Model, pool: SharedPool) -> None:
    scheduler = model.scheduler()
    first, second = (model.sequence(PROMPT, max_tokens=5, pool=pool) for _ in range(2))
    for sequence in (first, second):
        scheduler.add(sequence)
    scheduler.run(layers=1)
    with first._used():
        with pytest.raises(SequenceInUseError, match="sequence"):
            first.advance(layers=1)
        with pytest.raises(SequenceInUseError, match="sequence"):
            first.reset(PROMPT)
        (failure,) = scheduler.run(layers=10_000)
    assert failure.item is first
    assert isinstance(failure.error, SequenceInUseError)
    assert second.done
    assert scheduler.run(layers=10_000) == []
    assert first.result() == second.result() == model.generate(PROMPT, max_tokens=5)
    first.close()
    second.close()


def test_a_token_that_cannot_be_taken_now_is_taken_later(model: Model) -> None:
    expected = model.generate(PROMPT, max_tokens=5)
    with model.sequence(PROMPT, max_tokens=5) as sequence:
        while sequence.stats().pending_tokens:
            model._runner.advance([sequence.sequence])
        with sequence.sequence.begin_use(), pytest.raises(SequenceInUseError):
            sequence.advance(layers=1)
        finish(sequence)
        assert sequence.result() == expected


def test_who_has_turns_is_in_use_during_a_run(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever comes into a run is refused, also what is done; reading is not."""
    expected = [model.generate(PROMPT, max_tokens=count) for count in (1, 9)]
    scheduler = model.scheduler()
    first, second = (model.sequence(PROMPT, max_tokens=count) for count in (1, 9))
    for sequence in (first, second):
        scheduler.add(sequence)
    pieces: list[str] = []
    advance_each = model._runner.advance_each

    def meddle(sequences: Any, **options: Any) -> Any:
        for sequence in (first, second):
            for call in (
                partial(sequence.advance, layers=1),
                partial(sequence.reset, PROMPT),
                sequence.stats,
            ):
                with pytest.raises(SequenceInUseError, match="sequence"):
                    call()
        pieces.append(second.new_text())
        return advance_each(sequences, **options)

    with monkeypatch.context() as patch:
        patch.setattr(model._runner, "advance_each", meddle)
        while not (first.done and second.done):
            assert scheduler.run(layers=2) == []
    assert [first.result(), second.result()] == expected
    assert "".join(pieces) + second.new_text() == expected[1].text
    first.close()
    second.close()


def test_reading_beside_a_worker(model: Model) -> None:
    """Nothing is refused, nothing comes twice, and whoever sees it done sees all of it."""
    expected = model.generate(PROMPT, max_tokens=60)
    scheduler = model.scheduler()
    with model.sequence(PROMPT, max_tokens=60) as sequence:
        scheduler.add(sequence)
        failures: list[object] = []

        def work() -> None:
            while not sequence.done:
                failures.extend(scheduler.run(layers=2))

        worker = threading.Thread(target=work)
        worker.start()
        pieces = []
        while not sequence.done:
            pieces.append(sequence.new_text())
        pieces.append(sequence.new_text())
        result = sequence.result()
        worker.join()
        assert failures == []
        assert result == expected
        assert "".join(pieces) == expected.text
    assert sequence.new_text() == ""


def test_one_sequence_in_many_threads(model: Model) -> None:
    """One uses it, the others are refused by name, and the answer is as ever."""
    expected = model.generate(PROMPT, max_tokens=40)
    scheduler = model.scheduler()
    sequence = model.sequence(PROMPT, max_tokens=40)
    scheduler.add(sequence)
    errors: list[SslmError] = []

    def advance() -> None:
        try:
            sequence.advance(layers=5)
        except SslmError as error:
            errors.append(error)

    def run() -> None:
        errors.extend(failure.error for failure in scheduler.run(layers=7))

    def repeat(call: Callable[[], None]) -> None:
        while not sequence.done:
            call()

    for _ in range(5):
        sequence.reset(PROMPT, max_tokens=40)
        threads = [threading.Thread(target=repeat, args=(call,)) for call in (advance, run)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(240)
        assert sequence.result() == expected
    assert {type(error) for error in errors} <= {SequenceInUseError}
    sequence.close()


def test_who_has_turns_no_more_is_not_held(model: Model, pool: SharedPool) -> None:
    """Without a pass of the collector."""
    gc.collect()
    gc.disable()
    try:
        scheduler, free = model.scheduler(), pool.free_tokens
        removed, closed, finished = (
            model.sequence(PROMPT, max_tokens=2, pool=pool),
            model.sequence(PROMPT, max_tokens=2, pool=pool),
            model.prefix(PROMPT, pool=pool),
        )
        for item in (removed, closed, finished):
            scheduler.add(item)
        scheduler.remove(removed)
        closed.close()
        while not finished.done:
            scheduler.run(layers=100)
        gone = [weakref.ref(thing) for thing in (removed, closed, finished)]
        del removed, closed, finished, item
        assert [ref() for ref in gone] == [None] * 3
        assert pool.free_tokens == free
        # What nobody else holds has its turns, and comes back with its failure.
        scheduler.add(model.sequence(PROMPT, max_tokens=2, pool=pool))
        scheduler.items[0].close()
        (failure,) = scheduler.run(layers=1)
        assert failure.item.done is False
        assert scheduler.items == []
    finally:
        gc.enable()


def test_threads_of_their_own(model: Model) -> None:
    """Each thread its sequence, all at once; and one that another thread closes."""
    expected = model.generate(PROMPT, max_tokens=30)
    found: list[Completion] = []
    barrier = threading.Barrier(4)

    def speak() -> None:
        barrier.wait()
        with model.sequence(PROMPT, max_tokens=30) as sequence:
            finish(sequence, layers=3)
            found.append(sequence.result())

    threads = [threading.Thread(target=speak) for _ in range(3)]
    for thread in threads:
        thread.start()
    victim = model.sequence(PROMPT, max_tokens=400)
    closer = threading.Timer(0.02, victim.close)
    barrier.wait()
    closer.start()

    def go_on() -> None:
        # Again and again, as nobody knows how long the closer takes to come.
        while True:
            finish(victim, layers=3)
            victim.reset(PROMPT, max_tokens=400)

    with pytest.raises(SslmError, match="closed"):
        go_on()
    for thread in (*threads, closer):
        thread.join()
    assert found == [expected] * 3


def test_a_call_that_was_torn(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt between taking a token and going on is told, until a reset."""
    with model.sequence(PROMPT, max_tokens=9) as sequence:
        taken: Callable[[int], Any] = sequence._answer.take

        def interrupted(token_id: int, *_: object, **__: object) -> Any:
            taken(token_id)
            raise KeyboardInterrupt

        monkeypatch.setattr(sequence._answer, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            finish(sequence)
        with pytest.raises(SequenceInterruptedError, match="reset it"):
            sequence.advance(layers=1)
        sequence.reset(PROMPT, max_tokens=9)
        finish(sequence)
        assert sequence.result() == model.generate(PROMPT, max_tokens=9)


# The model's end.


def test_a_model_that_is_closed() -> None:
    model = Model(stories_artifact())
    pool = model.kv_pool(256)
    prefix = finished_prefix(model, pool, PROMPT)
    sequence = model.sequence(" She", prefix=prefix, max_tokens=5)
    scheduler: LiveScheduler = model.scheduler()
    scheduler.add(sequence)
    model.close()
    with pytest.raises(ObjectClosedError, match="model"):
        sequence.advance(layers=1)
    with pytest.raises(ObjectClosedError, match="model"):
        scheduler.run(max_ms=1)
    for make in (lambda: model.sequence([1]), lambda: model.kv_pool(1), model.scheduler):
        with pytest.raises(ObjectClosedError, match="model"):
            make()
    for thing in (sequence, prefix, pool):
        thing.close()


def run_backwards(task: Callable[[int], None], task_count: int) -> None:
    """Run a host's tasks one after the other, the last one first."""
    for index in reversed(range(task_count)):
        task(index)


@pytest.mark.parametrize(
    "options",
    [{"threads": 2}, {"parallel_for": ParallelFor(run_backwards, max_tasks=3, scope="all")}],
    ids=["threads", "hook"],
)
def test_shared_work(model: Model, options: dict[str, Any]) -> None:
    """Slices of a model that shares its work, in milliseconds and in layers."""
    with Model(stories_artifact(), **options) as sharing, sharing.kv_pool(1024) as pool:
        prefix = finished_prefix(sharing, pool)
        scheduler = sharing.scheduler()
        sequences = [sharing.sequence(text, prefix=prefix, max_tokens=9) for text in (" He", " A")]
        for sequence in sequences:
            scheduler.add(sequence)
        while not all(sequence.done for sequence in sequences):
            scheduler.run(max_ms=0.5)
            scheduler.run(layers=3)
        for sequence in sequences:
            expected = model.generate(sequence.prompt_token_ids, max_tokens=9)
            assert sequence.result() == expected
            sequence.close()
        prefix.close()


def test_the_reference_backend_agrees(model: Model) -> None:
    reference = Model(stories_artifact(), backend="reference")
    with reference, reference.sequence(PROMPT, max_tokens=6) as sequence:
        finish(sequence, layers=3)
        assert sequence.result() == model.generate(PROMPT, max_tokens=6)


def test_what_is_dropped_is_gone_at_once() -> None:
    """Without closing anything, and without a pass of the collector."""
    gc.collect()
    gc.disable()
    try:
        model = Model(stories_artifact())
        pool = model.kv_pool(512)
        prefix = finished_prefix(model, pool, PROMPT)
        sequence = model.sequence(" She", prefix=prefix, max_tokens=5)
        scheduler = model.scheduler()
        scheduler.add(sequence)
        scheduler.run(layers=7)
        sequence.advance(max_ms=1)
        gone = [weakref.ref(thing) for thing in (model, pool, prefix, sequence, scheduler)]
        del model, pool, prefix, sequence, scheduler
        assert [ref() for ref in gone] == [None] * 5
    finally:
        gc.enable()


def test_an_interrupt_at_any_line(model: Model) -> None:
    """The sequence goes on as if nothing had been, or says that it must be reset."""
    expected = model.generate(PROMPT, max_tokens=3)
    interrupted = torn = 0
    for line in range(1, 2000, 41):
        with model.sequence(PROMPT, max_tokens=3) as sequence:
            sequence.advance(layers=2)
            try:
                with InterruptAt(line):
                    finish(sequence, layers=3)
            except KeyboardInterrupt:
                interrupted += 1
            try:
                finish(sequence)
            except SequenceInterruptedError:
                torn += 1
                sequence.reset(PROMPT, max_tokens=3)
                finish(sequence)
            assert sequence.result() == expected
    assert interrupted > 20
    assert torn < interrupted
