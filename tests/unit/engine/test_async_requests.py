"""Coroutines: the same answers, cancelled at once, and nothing left behind."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from sslm import limits
from sslm.engine.model import Model
from sslm.errors.runtime import (
    ContextLengthError,
    DeadlineExceededError,
    NotCopyableError,
    ObjectClosedError,
    StreamUnfinishedError,
)
from tests.converted import stories_artifact
from tests.held_runs import GUARD_S, held

PROMPT = "Once upon a time"
T = TypeVar("T")


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(stories_artifact()) as opened:
        yield opened


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(asyncio.wait_for(main(), GUARD_S))


def test_no_thread_before_the_first_coroutine() -> None:
    before = threading.active_count()
    with Model(stories_artifact()) as model:
        model.astream(PROMPT)
        assert threading.active_count() == before
        run(lambda: model.agenerate(PROMPT, max_tokens=2))
        assert threading.active_count() > before
    assert threading.active_count() == before


def test_coroutines_give_the_same_answers(model: Model) -> None:
    expected = model.generate(PROMPT, max_tokens=20)

    async def main() -> None:
        assert await model.agenerate(PROMPT, max_tokens=20) == expected
        async with model.astream(PROMPT, max_tokens=20) as stream:
            pieces = [piece async for piece in stream]
            assert stream.result() == expected
        assert "".join(piece.text for piece in pieces) == expected.text
        many = await model.agenerate_many([PROMPT, [1]], max_tokens=20)
        assert many == model.generate_many([PROMPT, [1]], max_tokens=20)

    run(main)


def test_errors_reach_the_coroutine(model: Model) -> None:
    async def main() -> None:
        with pytest.raises(ContextLengthError):
            await model.agenerate([1] * 512)
        stream = model.astream([1] * 512)
        with pytest.raises(ContextLengthError):
            await anext(stream)
        with pytest.raises(StreamUnfinishedError):
            stream.result()
        with pytest.raises(ContextLengthError):
            await model.agenerate_many([PROMPT, [1] * 512], max_tokens=2)

    run(main)


def test_many_tasks_share_a_model(model: Model) -> None:
    count = 3 * limits.ASYNC_THREAD_COUNT_MAX
    expected = [model.generate([1, 300 + n], max_tokens=4) for n in range(count)]

    async def read(n: int) -> str:
        return "".join([piece.text async for piece in model.astream([1, 300 + n], max_tokens=4)])

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(model.agenerate([1, 300 + n], max_tokens=4)) for n in range(count)
            ]
            streamed = [group.create_task(read(n)) for n in range(count)]
        assert [task.result() for task in asked] == expected
        assert [task.result() for task in streamed] == [one.text for one in expected]

    run(main)


def test_more_open_streams_than_threads(model: Model) -> None:
    async def main() -> None:
        count = limits.ASYNC_THREAD_COUNT_MAX + 8
        streams = [model.astream([1, 300 + n], max_tokens=4) for n in range(count)]
        for _ in range(3):
            for stream in streams:
                assert (await anext(stream)).token_ids
        for stream in streams:
            await stream.aclose()
            await stream.aclose()

    run(main)


def held_bytes(model: Model) -> int:
    return sum(lease.size_bytes for lease in model._runner.admission._leases)


def test_a_cancelled_task_has_rolled_back_before_it_goes_on(model: Model) -> None:
    """What a person waits for, with a large model, is in docs/verification.md."""
    before, expected = held_bytes(model), model.generate(PROMPT, max_tokens=5)

    async def main() -> None:
        for after in (0, 1, 3, 8, 12):
            with held(model, after=after) as hold:
                task = asyncio.create_task(model.agenerate([1] * 500, max_tokens=10))
                await hold.reached()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert hold.count == after + 1
            assert held_bytes(model) == before
        assert await model.agenerate(PROMPT, max_tokens=5) == expected

    run(main)


def test_a_task_that_is_cancelled_before_it_begins_computes_nothing(model: Model) -> None:
    before = held_bytes(model)

    async def main() -> None:
        with held(model) as hold:
            task = asyncio.create_task(model.agenerate([1] * 500, max_tokens=10))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert hold.count == 0
        assert held_bytes(model) == before

    run(main)


def test_timeouts_and_second_cancellations(model: Model) -> None:
    before = held_bytes(model)

    async def main() -> None:
        with held(model), pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await model.agenerate([1] * 400, max_tokens=100)
        assert held_bytes(model) == before
        with held(model) as hold:
            task = asyncio.create_task(model.agenerate([1] * 400, max_tokens=100))
            await hold.reached()
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert held_bytes(model) == before
        with pytest.raises(ExceptionGroup) as caught:
            await in_group(model.agenerate([1] * 400, max_tokens=100), model.agenerate([1] * 512))
        assert isinstance(caught.value.exceptions[0], ContextLengthError)
        assert held_bytes(model) == before

    run(main)


async def in_group(*coroutines: Coroutine[Any, Any, Any]) -> None:
    async with asyncio.TaskGroup() as group:
        for coroutine in coroutines:
            group.create_task(coroutine)


def test_a_stream_that_is_left_gives_its_memory_back(model: Model) -> None:
    before = held_bytes(model)

    async def main() -> None:
        async with model.astream(PROMPT, max_tokens=50) as stream:
            await anext(stream)
        assert held_bytes(model) == before
        with pytest.raises(StreamUnfinishedError):
            stream.result()
        assert [piece async for piece in stream] == []
        async for _ in model.astream(PROMPT, max_tokens=50):
            break
        # The thread may hold the last piece's stream for a moment longer.
        while held_bytes(model) > before:
            await asyncio.sleep(0.001)
        with held(model) as hold:
            reader = asyncio.create_task(read_all(model.astream([1] * 400, max_tokens=50)))
            await hold.reached()
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
        del reader
        assert held_bytes(model) == before

    run(main)


async def read_all(stream: AsyncIterator[Any]) -> list[Any]:
    return [piece async for piece in stream]


def test_deadlines_hold_for_coroutines(model: Model) -> None:
    async def main() -> None:
        with pytest.raises(DeadlineExceededError):
            await model.agenerate(PROMPT, deadline_s=0)
        with held(model), pytest.raises(DeadlineExceededError):
            await model.agenerate([1] * 400, max_tokens=100, deadline_s=0.01)
        many = await model.agenerate_many([PROMPT, PROMPT], deadline_s=0, return_errors=True)
        assert [type(one) for one in many] == [DeadlineExceededError] * 2

    run(main)


def test_a_deadline_counts_while_no_thread_is_free(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ASYNC_THREAD_COUNT_MAX", 1)
    released = threading.Event()

    async def main(single: Model) -> None:
        loop = asyncio.get_running_loop()
        begun = single.astream(PROMPT, deadline_s=3600)
        await anext(begun)
        blocker = loop.create_task(read_all(single.astream(slow_prompt(), max_tokens=1)))
        await asyncio.sleep(0.01)
        with pytest.raises(DeadlineExceededError):
            await single.agenerate(PROMPT, deadline_s=0.05)
        begun._cutoff.deadline_s = 0.05
        with pytest.raises(DeadlineExceededError) as caught:
            await anext(begun)
        assert caught.value.completion_tokens == 1
        assert not released.is_set()
        waiting = loop.create_task(single.agenerate(PROMPT))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        released.set()
        assert len(await blocker) == 1

    class slow_prompt(list[int]):  # noqa: N801
        def __iter__(self) -> Iterator[int]:
            assert released.wait(GUARD_S)
            return iter([1])

    with Model(stories_artifact()) as single:
        run(lambda: main(single))


def test_the_loop_is_not_held_up(model: Model) -> None:
    expected = model.generate([1] * 400, max_tokens=60)

    async def main() -> None:
        with held(model, after=5) as hold:
            task = asyncio.create_task(model.agenerate([1] * 400, max_tokens=60))
            await hold.reached()
            # As often as it likes, while a slice takes its time.
            for _ in range(1000):
                await asyncio.sleep(0)
            assert (task.done(), hold.count) == (False, 6)
            hold.release()
            assert await task == expected

    run(main)


def test_a_closed_model_refuses_coroutines() -> None:
    model = Model(stories_artifact())
    run(lambda: model.agenerate(PROMPT, max_tokens=2))

    async def main() -> None:
        stream = model.astream(PROMPT, max_tokens=50)
        await anext(stream)
        # The slice ends once the closing waits for it.
        with held(model, lets_pass=True) as hold:
            task = asyncio.create_task(model.agenerate([1] * 400, max_tokens=100))
            await hold.reached()
            model.close()
            with pytest.raises(ObjectClosedError):
                await task
        with pytest.raises(ObjectClosedError):
            await anext(stream)
        await stream.aclose()
        with pytest.raises(ObjectClosedError):
            await model.agenerate(PROMPT)

    run(main)


def test_an_iterator_of_prompts_may_close_the_model() -> None:
    model = Model(stories_artifact())

    def prompts() -> Iterator[str]:
        yield PROMPT
        model.close()
        yield PROMPT

    async def main() -> None:
        with pytest.raises(ObjectClosedError):
            await model.agenerate_many(prompts(), max_tokens=2)

    run(main)


def test_an_asynchronous_stream_stays_in_its_process(model: Model) -> None:
    import pickle

    with pytest.raises(NotCopyableError):
        pickle.dumps(model.astream(PROMPT))


LATE = """
import asyncio, sys, threading, time
import sslm
from sslm.errors import ThreadStartError

model = sslm.Model(sys.argv[1])
if sys.argv[2] == "warm":
    asyncio.run(model.agenerate("a", max_tokens=1))

def late():
    threading.main_thread().join()
    time.sleep(0.05)
    try:
        asyncio.run(model.agenerate("a", max_tokens=1))
    except ThreadStartError as error:
        print("named", "ending" in str(error), len(model.generate("a", max_tokens=2).token_ids))

threading.Thread(target=late).start()
"""


@pytest.mark.parametrize("state", ["warm", "cold"])
def test_after_the_main_thread_a_coroutine_is_refused_by_name(state: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE, str(stories_artifact()), state],
        capture_output=True,
        text=True,
        check=True,
        timeout=GUARD_S,
    )
    assert done.stdout == "named True 2\n", done.stderr
