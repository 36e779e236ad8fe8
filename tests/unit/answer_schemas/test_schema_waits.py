"""What happens while a schema is compiled for a request: others run, and time and ends count."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from sslm.engine.model import Model
from sslm.errors.choosing import UnknownOptionError
from sslm.errors.runtime import DeadlineExceededError, ObjectClosedError, OptionRangeError
from sslm.errors.schema_documents import MalformedSchemaError
from tests.converted import talking_artifact

HELLO = [{"role": "user", "content": "Hello"}]
SCHEMA = {"type": "string", "maxLength": 300}
"""Whoever compiles it is told so dozens of times."""
Options = dict[str, Any]


@pytest.fixture
def model() -> Iterator[Model]:
    with Model(talking_artifact(), context_tokens=128) as opened:
        yield opened


async def read(stream: Any) -> Any:
    return await stream.read()


HOLDING = ("asay", "session.astream")
"""Calls that end by themselves, as they hold a session."""


def coroutines(model: Model) -> dict[str, Callable[..., Coroutine[Any, Any, Any]]]:
    session = model.session(checkpoint_bytes=0)
    return {
        "agenerate": lambda **options: model.agenerate("a", **options),
        "astream": lambda **options: read(model.astream("a", **options)),
        "achat": lambda **options: model.achat(HELLO, **options),
        "achat_stream": lambda **options: read(model.achat_stream(HELLO, **options)),
        "agenerate_n": lambda **options: model.agenerate_n("a", 1, **options),
        "agenerate_many": lambda **options: model.agenerate_many(["a"], **options),
        "asay": lambda **options: session.asay("a", **options),
        "session.astream": lambda **options: read(session.astream("a", **options)),
    }


COROUTINES = (
    *("agenerate", "astream", "achat", "achat_stream", "agenerate_n", "agenerate_many"),
    *("asay", "session.astream"),
)


def calls(model: Model) -> dict[str, Callable[..., Any]]:
    session = model.session(checkpoint_bytes=0)
    return {
        "generate": lambda **options: model.generate("a", **options),
        "stream": lambda **options: model.stream("a", **options),
        "chat": lambda **options: model.chat(HELLO, **options),
        "chat_stream": lambda **options: model.chat_stream(HELLO, **options),
        "generate_n": lambda **options: model.generate_n("a", 2, **options),
        "generate_many": lambda **options: model.generate_many(["a"], **options),
        "say": lambda **options: session.say("a", **options),
        "edit": lambda **options: session.stream("a", **options),
    }


CALLS = ("generate", "stream", "chat", "chat_stream", "generate_n", "generate_many", "say", "edit")


@pytest.mark.parametrize("name", COROUTINES)
def test_other_coroutines_run_while_a_schema_is_compiled(model: Model, name: str) -> None:
    ran = threading.Event()

    class Patient:
        """What a schema is made of; describing it waits for another coroutine."""

        @staticmethod
        def model_json_schema() -> Options:
            assert ran.wait(240), "no other coroutine ran meanwhile"
            return {"enum": [1]}

        @staticmethod
        def model_validate_json(text: str) -> str:
            return text

    async def other() -> None:
        ran.set()

    async def main() -> None:
        asked = coroutines(model)[name](schema=Patient, max_tokens=9)
        found, _ = await asyncio.gather(asked, other())
        answer = found[0] if isinstance(found, list) else found
        assert answer.parsed == "1"

    asyncio.run(main())


@pytest.mark.parametrize("name", COROUTINES)
def test_what_is_wrong_with_a_schema_reaches_the_coroutine(model: Model, name: str) -> None:
    async def main() -> None:
        with pytest.raises(MalformedSchemaError):
            await coroutines(model)[name](schema={"type": "int"})
        with pytest.raises(OptionRangeError, match="finish"):
            await coroutines(model)[name](schema=SCHEMA, finish="fits")

    asyncio.run(main())


def test_options_are_refused_at_the_call(model: Model) -> None:
    with pytest.raises(UnknownOptionError):
        model.astream("a", schema=SCHEMA, top_q=1)  # type: ignore[call-arg]
    with pytest.raises(OptionRangeError):
        model.astream("a", schema=SCHEMA, end_of_text="maybe")  # type: ignore[arg-type]
    with pytest.raises(OptionRangeError):
        model.astream("a", on_schema_progress=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CALLS)
def test_a_deadline_ends_compiling(
    model: Model, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    # At the third report time is over, so there is no fourth one.
    monkeypatch.setattr(time, "monotonic", lambda: 500.0 if len(told) >= 3 else 0.0)

    def late(what: str, done: int, total: int) -> None:
        told.append(what)

    call = calls(model)[name]
    with pytest.raises(DeadlineExceededError) as caught:
        call(schema=SCHEMA, deadline_s=400, on_schema_progress=late)
    assert (caught.value.completion_tokens, len(told)) == (0, 3)


@pytest.mark.parametrize("name", ["agenerate", "agenerate_many", "asay"])
def test_a_deadline_of_a_coroutine_does_not_wait_for_a_schema(model: Model, name: str) -> None:
    is_over = threading.Event()

    class Patient:
        """What a schema is made of; describing it waits for the end of the call."""

        @staticmethod
        def model_json_schema() -> Options:
            is_over.wait(240)
            return {"enum": [1]}

    async def main() -> None:
        call = coroutines(model)[name](schema=Patient, deadline_s=0.05)
        if name in HOLDING:
            threading.Timer(0.2, is_over.set).start()
        with pytest.raises(DeadlineExceededError):
            await call
        is_over.set()

    asyncio.run(main())


@pytest.mark.parametrize("name", COROUTINES)
def test_a_cancelled_task_stops_compiling_and_breaks_nothing(model: Model, name: str) -> None:
    told: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        is_compiling = asyncio.Event()
        is_cancelled = threading.Event()

        def note(what: str, done: int, total: int) -> None:
            told.append(what)
            loop.call_soon_threadsafe(is_compiling.set)
            assert is_cancelled.wait(240)

        every = coroutines(model)
        task = asyncio.create_task(every[name](schema=SCHEMA, on_schema_progress=note))
        await is_compiling.wait()
        task.cancel()
        is_cancelled_at_once = name not in HOLDING
        if is_cancelled_at_once:
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            await asyncio.sleep(0)
        is_cancelled.set()
        if not is_cancelled_at_once:
            with pytest.raises(asyncio.CancelledError):
                await task
        found = await every[name](schema=SCHEMA, max_tokens=12)
        answer = found[0] if isinstance(found, list) else found
        assert isinstance(answer.parsed, str)

    asyncio.run(main())
    # At most one more, which the thread had begun to tell.
    assert len(told) <= 2


def test_a_model_that_is_closed_does_not_wait_for_a_schema() -> None:
    opened = Model(talking_artifact())
    told: list[str] = []

    async def main() -> None:
        is_compiling = asyncio.Event()
        loop = asyncio.get_running_loop()
        may_go_on = threading.Event()

        def note(what: str, done: int, total: int) -> None:
            told.append(what)
            loop.call_soon_threadsafe(is_compiling.set)
            assert may_go_on.wait(240)

        task = asyncio.create_task(opened.agenerate("a", schema=SCHEMA, on_schema_progress=note))
        await is_compiling.wait()
        closing = loop.run_in_executor(None, opened.close)
        while not opened._is_closed:
            await asyncio.sleep(0.001)
        may_go_on.set()
        with pytest.raises(ObjectClosedError):
            await task
        await closing

    asyncio.run(main())
    assert len(told) == 1


def test_a_session_that_is_closed_does_not_wait_for_a_schema(model: Model) -> None:
    session = model.session(checkpoint_bytes=0)
    told: list[str] = []

    def close(what: str, done: int, total: int) -> None:
        told.append(what)
        closer = threading.Thread(target=session.close)
        closer.start()
        closer.join(240)

    with pytest.raises(ObjectClosedError):
        session.say("a", schema=SCHEMA, on_schema_progress=close)
    assert len(told) == 1
    assert model.generate("a", schema=SCHEMA, max_tokens=12).parsed is not None


def test_progress_is_told_of_what_is_compiled(model: Model) -> None:
    told: list[tuple[str, int, int]] = []
    model.generate(
        "a", schema=SCHEMA, max_tokens=12, on_schema_progress=lambda *facts: told.append(facts)
    )
    assert list(dict.fromkeys(what for what, _, _ in told)) == [
        "vocabulary",
        "schema budget",
        "schema spans",
        "schema masks",
    ]
    assert all(0 <= done <= total for _, done, total in told)
    told.clear()
    model.generate(
        "a", schema=SCHEMA, max_tokens=12, on_schema_progress=lambda *facts: told.append(facts)
    )
    assert told == []
