"""A conversation answers as a cold chat does, computes what is new, and survives every failure."""

import asyncio
import datetime
import gc
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from sslm.answering.results import Completion
from sslm.conversation.session import Session, SessionStream
from sslm.engine.model import Model
from sslm.errors.base import ArgumentError, SslmError
from sslm.errors.runtime import (
    ContextLengthError,
    DeadlineExceededError,
    MemoryBudgetError,
    MemoryRefusedError,
    NestedCallError,
    NotCopyableError,
    ObjectClosedError,
    OptionRangeError,
    SequenceInUseError,
    StreamUnfinishedError,
)
from sslm.errors.sessions import (
    AnswerUnfinishedError,
    NothingToUndoError,
    SessionNotAcceptingError,
    StateBudgetError,
    StreamSupersededError,
)
from sslm.errors.text import TextTypeError
from sslm.opening.runner import Runner
from sslm.runtime.sequences.kv_pool import page_count_for
from sslm.runtime.sequences.options import SequenceOptions
from sslm.text.message import Message
from tests.converted import talking_artifact
from tests.held_runs import GUARD_S, held
from tests.interrupting import interrupted_at_line, is_code_of_package
from tests.unit.engine.test_interrupts import held_bytes

TEXTS = ("Hello there", "And who are you?", "Tell me a story")
MOST = 9


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(ends_with_a_line=True)) as opened:
        yield opened
        # What interrupts cut short goes with their tracebacks.
        gc.collect()
        assert held_bytes(opened) == opened._runner._lease.size_bytes


def cold(model: Model, messages: list[Message], **options: Any) -> Completion:
    return model.chat(messages, **({"max_tokens": MOST} | options))


def asked(session: Session, text: str) -> list[Message]:
    return [*session.messages, Message("user", text)]


def say(session: Session, text: str, **options: Any) -> Completion:
    return session.say(text, **({"max_tokens": MOST} | options))


def state(session: Session) -> tuple[object, ...]:
    """Return everything that rolling back has to restore."""
    committed = session._tokens.committed
    saved = [
        (tuple(one.token_ids), one.link, one.selected, one.counters)
        for one in committed.checkpoints.saved
    ]
    held = session._memory.pool.held_page_count
    return session.messages, committed.digest, saved, session.checkpoint_bytes, held


def talked(model: Model, **options: Any) -> Session:
    """Return a session after two turns."""
    session = model.session(**options)
    for text in TEXTS[:2]:
        say(session, text)
    return session


def interrupted(line: int, call: Callable[[], object]) -> bool:
    return interrupted_at_line(line, call, is_code_of_package)


def test_every_answer_is_that_of_a_cold_chat(model: Model) -> None:
    with model.session(system="Be brief.") as session:
        ends = 0
        for turn, text in enumerate((*TEXTS, "Why?", "No")):
            messages = asked(session, text)
            answer = say(session, text)
            expected = cold(model, messages)
            assert answer == expected
            assert session.messages == [*messages, Message("assistant", expected.text)]
            assert answer.usage.prompt_tokens == expected.usage.prompt_tokens
            # All that the turn before computed is there, and of text all but its last token or two.
            if turn:
                assert answer.usage.cached_tokens >= ends - 2
            ends = answer.usage.prompt_tokens + len(answer.token_ids) - 1
        assert repr(session) == "<sslm.Session, 11 messages, open>"


def test_an_edit_computes_from_the_message_on(model: Model) -> None:
    with model.session() as session:
        for text in TEXTS:
            say(session, text)
        before = session.messages
        prompt = model.tokenizer.encode("".join(f"{m.role}: {m.content}\n" for m in before[:2]))
        edited = [*before[:2], Message("user", "Something else")]
        answer = session.edit(2, "Something else", max_tokens=MOST)
        assert answer == cold(model, edited)
        assert session.messages == [*edited, Message("assistant", answer.text)]
        # The line's end may be part of a token that goes on in the next message.
        assert answer.usage.cached_tokens >= len(prompt) - 2
        # And what was said before the edit is still there to come back to.
        again = session.edit(2, TEXTS[1], max_tokens=MOST)
        assert again == cold(model, before[:3])
        assert again.usage.cached_tokens == again.usage.prompt_tokens


def test_undo_and_say_the_same_computes_nothing_of_the_prompt(model: Model) -> None:
    with talked(model) as session:
        first, *_ = before = session.messages
        assert session.undo() == Message("user", TEXTS[1])
        assert session.messages == before[:2]
        answer = say(session, TEXTS[1])
        assert session.messages == before
        assert answer.usage.cached_tokens == answer.usage.prompt_tokens
        assert session.undo() == Message("user", TEXTS[1])
        assert session.undo() == first
        with pytest.raises(NothingToUndoError):
            session.undo()


@pytest.mark.parametrize("index", [1, 4, -1, "0", True])
def test_only_messages_of_the_user_are_edited(model: Model, index: Any) -> None:
    with talked(model) as session:
        before = state(session)
        with pytest.raises(OptionRangeError):
            session.edit(index, "x")
        assert state(session) == before
    with model.session() as empty, pytest.raises(OptionRangeError, match="no message yet"):
        empty.edit(0, "x")


def test_what_is_refused_changes_nothing(model: Model) -> None:
    with talked(model) as session:
        before = state(session)
        refusals: tuple[tuple[Any, dict[str, Any], type[Exception]], ...] = (
            ("long " * 2000, {}, ContextLengthError),
            (b"bytes", {}, ArgumentError),
            ("x", {"max_tokens": 0}, OptionRangeError),
            ("x", {"stop": 5}, OptionRangeError),
            ("x", {"stop": b"5"}, TextTypeError),
            ("x", {"deadline_s": -1}, OptionRangeError),
            ("x", {"deadline_s": 0}, DeadlineExceededError),
        )
        for text, options, error in refusals:
            with pytest.raises(error):
                session.say(text, **options)
            with pytest.raises(error):
                session.edit(0, text, **options)
        with pytest.raises(OptionRangeError):
            session.stream("x", on_progress=1)  # type: ignore[arg-type]
        assert state(session) == before


class FailingRun:
    """Fails at its n-th call."""

    def __init__(self, fail_at: int, error: BaseException) -> None:
        self.left = fail_at
        self.error = error
        self.count = 0

    def __call__(self, run: Callable[..., None], *arguments: Any) -> None:
        self.count += 1
        self.left -= 1
        if self.left == -1:
            raise self.error
        run(*arguments)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ZeroDivisionError])
def test_a_run_that_fails_leaves_no_trace(
    model: Model, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Runner.run
    failing = FailingRun(1 << 30, error())

    def run(runner: Runner, *arguments: Any) -> None:
        failing(lambda *rest: original(runner, *rest), *arguments)

    monkeypatch.setattr(Runner, "run", run)
    with talked(model) as session:
        before = state(session)
        failing.count = 0
        expected = say(session, TEXTS[2])
        runs = failing.count
    assert runs > 5
    # The last run is behind the answer, which does not need it.
    for index in range(runs - (error is MemoryError)):
        with talked(model) as session:
            assert state(session) == before
            failing.left = index
            with pytest.raises(error):
                say(session, TEXTS[2])
            assert state(session) == before
            assert say(session, TEXTS[2]) == expected


def test_an_interrupt_at_any_line_leaves_all_or_nothing(model: Model) -> None:
    session = model.session()
    first = say(session, TEXTS[0], max_tokens=2)
    before = session.messages
    expected = say(session, TEXTS[1], max_tokens=2)
    after = session.messages
    kept = 0
    for line in count(1, 89):
        session.reset()
        assert say(session, TEXTS[0], max_tokens=2) == first, line
        if not interrupted(line, lambda: say(session, TEXTS[1], max_tokens=2)):
            break
        assert session.messages in (before, after), line
        if session.messages == after:
            kept += 1
            session.undo()
        if line % 5 == 1:
            assert say(session, TEXTS[1], max_tokens=2) == expected, line
    assert line > 5000
    # An answer is kept some lines before the call returns.
    assert kept < 20
    session.reset()
    gc.collect()
    assert session._memory.pool.held_page_count == 0
    session.close()


def test_who_handles_an_interrupt_may_keep_what_was_shown(model: Model) -> None:
    session = model.session()
    say(session, TEXTS[0], max_tokens=2)
    before = session.messages
    seen = set()
    for line in count(1, 131):
        session.reset(before)
        shown: list[str] = []

        def read(shown: list[str] = shown) -> None:
            with session.stream(TEXTS[1], max_tokens=4) as stream:
                shown.extend(piece.text for piece in stream)

        # The error holds whatever the interrupt left, while it is handled.
        errors: list[BaseException] = []
        if not interrupted_at_line(line, read, is_code_of_package, errors):
            break
        if session._source is not None:
            session.commit()
        if len(session.messages) > len(before):
            *kept, answer = session.messages
            assert kept == [*before, Message("user", TEXTS[1])]
            assert answer.content.startswith("".join(shown))
            seen.add(answer.content)
        else:
            assert session.messages == before
            assert not any(shown)
        if line % 5 == 1:
            again = asked(session, "Go on")
            assert say(session, "Go on") == cold(model, again), line
    assert len(seen) > 2
    session.close()


def test_a_reader_who_fails_rolls_back(model: Model) -> None:
    with talked(model) as session:
        before = state(session)
        messages = asked(session, TEXTS[2])
        expected = cold(model, messages)

        def full(piece: object) -> None:
            raise OSError(28, "no space left on device")

        def write() -> None:
            with session.stream(TEXTS[2]) as stream:
                for piece in stream:
                    full(piece)

        with pytest.raises(OSError, match="no space"):
            write()
        assert state(session) == before
        with session.stream(TEXTS[2], max_tokens=MOST) as stream:
            next(stream)
        assert state(session) == before
        with pytest.raises(StreamUnfinishedError):
            stream.result()

        def report(done: int, total: int) -> None:
            raise OSError("the progress cannot be shown")

        with pytest.raises(OSError, match="progress"):
            session.stream("x" * 50, on_progress=report).read()
        assert state(session) == before
        # And a stream that nobody closes, but nobody holds either.
        for _ in session.stream(TEXTS[2]):
            break
        assert state(session) == before
        assert say(session, TEXTS[2]) == expected


def test_a_deadline_rolls_back(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    with talked(model) as session:
        before = state(session)
        stream = session.stream(TEXTS[2], deadline_s=500)
        next(stream)
        now_s[0] += 501
        with pytest.raises(DeadlineExceededError) as late:
            list(stream)
        assert late.value.completion_tokens >= 1
        assert late.value.text.startswith(cold(model, asked(session, TEXTS[2])).text[:1])
        assert state(session) == before


def test_a_stream_is_read_piece_by_piece_and_then_kept(model: Model) -> None:
    with talked(model) as session:
        before, messages = state(session), asked(session, TEXTS[2])
        progress: list[tuple[int, int]] = []
        stream = session.stream(
            TEXTS[2], max_tokens=MOST, on_progress=lambda *facts: progress.append(facts)
        )
        text = next(stream).text
        # The reader pulls: nothing is computed, or kept, before it is asked for.
        assert session.messages == before[0]
        text += "".join(piece.text for piece in stream)
        assert stream.result() == cold(model, messages)
        assert session.messages == [*messages, Message("assistant", text)]
        stream.commit()
        session.commit()
        stream.close()
        assert session.messages == [*messages, Message("assistant", text)]
        total = stream.result().usage.prompt_tokens
        assert progress[-1] == (total, total)


def test_one_answer_at_a_time(model: Model) -> None:
    with talked(model) as session:
        stream, other = session.stream(TEXTS[2]), session.stream("Something else")
        next(stream)
        for call in (
            lambda: session.say("x"),
            lambda: session.edit(0, "x"),
            lambda: next(other),
            session.undo,
        ):
            with pytest.raises(AnswerUnfinishedError):
                call()
        stream.close()
        early = session.stream("Early")
        say(session, "Late")
        # It was asked of the conversation as it was before.
        calls: tuple[Callable[[], object], ...] = (early.__next__, early.read, early.commit)
        for superseded in calls:
            with pytest.raises(StreamSupersededError, match="make it again"):
                superseded()
        stream = session.stream("Long")
        next(stream)
        session.reset()
        session.say("Late")
        calls = (stream.__next__, stream.commit, stream.read)
        for superseded in calls:
            with pytest.raises(StreamSupersededError, match="make it again"):
                superseded()


@pytest.mark.parametrize(
    "change", [Session.undo, Session.reset, lambda session: session.stream("x").read()]
)
def test_an_unread_stream_is_superseded(model: Model, change: Callable[[Session], object]) -> None:
    with talked(model) as session:
        stream = session.stream("Early")
        change(session)
        before = state(session)
        for call in (stream.commit, stream.read):
            with pytest.raises(StreamSupersededError):
                call()
        assert state(session) == before
        assert say(session, "x") == cold(model, session.messages[:-1])


CALLS: dict[str, Callable[[Session], object]] = {
    "commit": Session.commit,
    "undo": Session.undo,
    "reset": Session.reset,
    "save": Session.save,
    "say": lambda session: session.say("x"),
    "stream": lambda session: session.stream("x"),
    "edit": lambda session: session.edit(0, "x"),
}


@pytest.mark.parametrize("from_a_thread", [True, False])
@pytest.mark.parametrize("between_pieces", [True, False])
@pytest.mark.parametrize("answer", ["say", "edit", "stream", "asay"])
def test_what_comes_into_an_answer_is_refused_and_changes_nothing(
    model: Model,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    between_pieces: bool,
    from_a_thread: bool,
) -> None:
    """A signal handler's call is one that comes from below in the same thread."""
    refused: list[tuple[str, type[BaseException]]] = []

    def call_all() -> None:
        for name, call in CALLS.items():
            try:
                call(session)
            except SslmError as error:
                refused.append((name, type(error)))

    def intrude() -> None:
        if from_a_thread:
            thread = threading.Thread(target=call_all)
            thread.start()
            thread.join()
        else:
            call_all()

    with talked(model) as session:
        messages = session.messages
        expected = cold(
            model, [Message("user", "Why?")] if answer == "edit" else asked(session, "Why?")
        )
        run, piece = session._tokens.advance, SessionStream._piece

        def advance(*facts: Any) -> object:
            intrude()
            return run(*facts)

        def next_piece(stream: SessionStream) -> Any:
            found = piece(stream)
            intrude()
            return found

        if between_pieces:
            monkeypatch.setattr(SessionStream, "_piece", next_piece)
        else:
            session._tokens.advance = advance
        answers: dict[str, Callable[[], Completion]] = {
            "say": lambda: say(session, "Why?"),
            "edit": lambda: session.edit(0, "Why?", max_tokens=MOST),
            "stream": lambda: session.stream("Why?", max_tokens=MOST).read(),
            "asay": lambda: asyncio.run(session.asay("Why?", max_tokens=MOST)),
        }
        assert answers[answer]() == expected
        error = SequenceInUseError if from_a_thread else NestedCallError
        assert refused
        assert refused == [(name, error) for name in CALLS] * (len(refused) // len(CALLS))
        kept = [] if answer == "edit" else messages
        assert session.messages == [
            *kept,
            Message("user", "Why?"),
            Message("assistant", expected.text),
        ]


def test_a_stream_that_is_read_is_not_kept_from_below(model: Model) -> None:
    with talked(model) as session:
        refused: list[type[BaseException]] = []

        def commit(_done: int, _total: int) -> None:
            for call in (stream.commit, stream.read, lambda: next(stream)):
                with pytest.raises(NestedCallError) as caught:
                    call()
                refused.append(caught.type)

        messages = asked(session, TEXTS[2])
        stream = session.stream(TEXTS[2], max_tokens=MOST, on_progress=commit)
        assert stream.read() == cold(model, messages)
        assert refused
        session.close()
        # What was read to its end can be asked for still.
        assert list(stream) == []
        assert stream.read() == cold(model, messages)


def test_commit_keeps_what_was_shown(model: Model) -> None:
    with talked(model) as session:
        messages = asked(session, TEXTS[2])
        with session.stream(TEXTS[2]) as stream:
            shown = "".join(next(stream).text for _ in range(4))
            stream.commit()
            assert list(stream) == []
        assert session.messages == [*messages, Message("assistant", shown)]
        answer = say(session, "Go on")
        assert answer == cold(model, [*session.messages[:-1]])
        # The answer's states were kept, too; text alone would leave the prompt's.
        kept = model.tokenizer.encode("".join(f"{m.role}: {m.content}\n" for m in messages))
        assert answer.usage.cached_tokens > len(kept)


def test_commit_after_an_interrupt_keeps_the_texts(model: Model) -> None:
    with talked(model) as session:
        messages = asked(session, TEXTS[2])
        stream = session.stream(TEXTS[2])
        shown = next(stream).text + next(stream).text
        assert interrupted(30, lambda: next(stream))
        assert session.messages == messages[:-1]
        session.commit()
        session.commit()
        assert session.messages == [*messages, Message("assistant", shown)]
        assert say(session, "Go on") == cold(model, session.messages[:-1])
        assert shown


def test_there_is_nothing_to_keep_where_nothing_was_shown(model: Model) -> None:
    with model.session() as session:
        with pytest.raises(NothingToUndoError):
            session.commit()
        stream = session.stream("Hello")
        stream.commit()
        assert session.messages == []
        stream = session.stream("Hello")
        shown = next(stream).text
        stream.close()
        say(session, "Another")
        assert shown
        with pytest.raises(StreamSupersededError):
            stream.commit()
        assert len(session.messages) == 2


def test_a_reset_takes_what_was_said_elsewhere(model: Model) -> None:
    with talked(model) as session:
        before = state(session)
        for odd in ("text", [{"role": "user"}], [{"role": "nobody", "content": "x"}], [1]):
            with pytest.raises(ArgumentError):
                session.reset(odd)  # type: ignore[arg-type]
        assert state(session) == before
        said = [{"role": one.role, "content": one.content} for one in session.messages]
        session.reset(said)
        assert session.messages == before[0]
        assert session.checkpoint_bytes == 0
        assert say(session, "x") == cold(model, session.messages[:-1])


def test_doubt_and_reset(model: Model) -> None:
    with talked(model) as session:
        messages = session.messages
        for one in session._tokens.committed.checkpoints.saved:
            one.release()
        with pytest.raises(ObjectClosedError):
            say(session, "x")
        assert not session.is_accepting
        calls: tuple[Callable[[], object], ...] = (
            lambda: session.say("x"),
            lambda: session.edit(0, "x"),
        )
        for call in calls:
            with pytest.raises(SessionNotAcceptingError):
                call()
        assert session.messages == messages
        session.reset(messages)
        assert session.is_accepting
        answer = say(session, "x")
        assert answer == cold(model, [*messages, Message("user", "x")])
        assert answer.usage.cached_tokens == 0


def test_times_are_told_on_request_and_no_clock_is_read_without(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with talked(model, timings=True) as session:
        usage = say(session, TEXTS[2]).usage
        assert usage.prefill_ms is not None
        assert usage.decode_ms is not None
        assert usage.total_ms is not None
        assert usage.cached_ms is not None
        assert 0 < usage.cached_ms < usage.prefill_ms < usage.total_ms
        assert usage.prefill_ms + usage.decode_ms <= usage.total_ms
    session = talked(model)

    def broken() -> float:
        raise AssertionError("a clock was read")

    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        for spelled in (name, f"{name}_ns"):
            monkeypatch.setattr(time, spelled, broken)
    usage = say(session, TEXTS[2]).usage
    assert (usage.prefill_ms, usage.decode_ms) == (None, None)
    assert (usage.cached_ms, usage.total_ms) == (None, None)
    assert usage.cached_tokens > 0
    with session.stream("x") as stream:
        next(stream)
        stream.commit()
    session.edit(0, "y", max_tokens=2)
    session.close()


def test_what_is_admitted(model: Model) -> None:
    footprint = model.session_footprint()
    plain = model.footprint(1)
    assert footprint.weights == plain.weights
    assert footprint.total == sum(
        (footprint.weights, footprint.scratch, footprint.states, footprint.checkpoints)
    )
    before = held_bytes(model)
    with model.session() as session:
        assert session.footprint() == footprint
        assert held_bytes(model) - before == footprint.states + footprint.checkpoints
        assert session._memory.pool.memory.nbytes <= footprint.states + footprint.checkpoints
        kv, buffers = model._runner.sequence_sizes_bytes(
            SequenceOptions(context_tokens=model.context_tokens)
        )
        assert footprint.states > kv + buffers
    assert held_bytes(model) == before
    small = model.session_footprint(context_tokens=64, checkpoint_bytes=5000)
    assert small.states < footprint.states
    assert small.checkpoints == 5000


def test_budgets_are_kept(model: Model) -> None:
    states = model.session_footprint().states
    with pytest.raises(StateBudgetError) as refused:
        model.session(state_bytes=states - 1)
    facts = refused.value.facts()
    assert facts == {
        "context_tokens": model.context_tokens,
        "needed_bytes": states,
        "limit_bytes": states - 1,
    }
    with model.session(state_bytes=states, checkpoint_bytes=100_000) as session:
        messages: list[Message] = []
        for turn in range(5):
            messages.append(Message("user", f"{turn} and some more of it"))
            answer = say(session, messages[-1].content)
            assert answer == cold(model, messages)
            messages.append(Message("assistant", answer.text))
            assert session.checkpoint_bytes <= 100_000
    with model.session(checkpoint_bytes=0) as session:
        for text in TEXTS:
            assert say(session, text).usage.cached_tokens == 0
            assert session._memory.pool.held_page_count == 0
    with model.session(checkpoint_count=2) as session:
        for text in TEXTS:
            assert say(session, text) == cold(model, session.messages[:-1])
            assert len(session._tokens.committed.checkpoints.saved) == 2
    # More than any machine has, and no doubt about which option it was.
    with pytest.raises(MemoryRefusedError, match=f"a checkpoint_bytes below {1 << 61}$"):
        model.session(checkpoint_bytes=1 << 61)
    odd_options: tuple[dict[str, Any], ...] = (
        {"checkpoint_count": 65},
        {"state_bytes": 0},
        {"checkpoint_bytes": -1},
        {"context_tokens": 513},
        {"date": "today"},
        {"timings": 1},
    )
    for odd in odd_options:
        with pytest.raises(OptionRangeError):
            model.session(**odd)


def test_a_bound_on_memory_bounds_checkpoints_too(model: Model) -> None:
    full = model.session_footprint()
    room = full.weights + full.scratch + full.states
    with Model(model.path, memory_bytes=room + 12_345) as bounded:
        assert bounded.session_footprint().checkpoints == 12_345
        with bounded.session() as session:
            assert session.footprint().total == room + 12_345
            for checkpoint_bytes in (None, 0):
                with pytest.raises(MemoryBudgetError):
                    bounded.session(checkpoint_bytes=checkpoint_bytes)
            with pytest.raises(MemoryBudgetError):
                bounded.generate("x", max_tokens=1)
            assert say(session, TEXTS[0]) == cold(model, [Message("user", TEXTS[0])])
        bounded.generate("x", max_tokens=1)


def test_a_shorter_context_holds_shorter_conversations(model: Model) -> None:
    with model.session(context_tokens=64) as session:
        assert session.context_tokens == 64
        assert session._memory.sizes.page_count >= page_count_for(64)
        answer = session.say("Hello", max_tokens=256)
        assert answer.usage.prompt_tokens + len(answer.token_ids) <= 64
        with pytest.raises(ContextLengthError):
            session.say("And on and on and on and on and on and on and on and on it goes forever")


def test_coroutines_talk_too(model: Model) -> None:
    async def main() -> None:
        with model.session() as session:
            expected = cold(model, [Message("user", TEXTS[0])])
            assert await session.asay(TEXTS[0], max_tokens=MOST) == expected
            before = state(session)
            async with session.astream(TEXTS[1], max_tokens=MOST) as stream:
                async for _ in stream:
                    break
            assert state(session) == before
            with held(model, after=1) as hold:
                task = asyncio.create_task(session.asay("x " * 150, max_tokens=200))
                await hold.reached()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert state(session) == before
            pieces = [piece.text async for piece in session.astream(TEXTS[1], max_tokens=MOST)]
            assert "".join(pieces) == cold(model, session.messages[:-1]).text

    asyncio.run(main())


def test_closing_ends_what_another_thread_computes(model: Model) -> None:
    ends: list[BaseException] = []
    for _ in range(3):
        session = talked(model)
        stream = session.stream("x " * 150, max_tokens=200)

        def read(stream: Any = stream) -> None:
            try:
                for _ in stream:
                    pass
            except BaseException as error:
                ends.append(error)

        thread = threading.Thread(target=read)
        with held(model, after=2) as hold:
            thread.start()
            hold.wait()
            session.close()
            hold.release()
            thread.join(GUARD_S)
            assert not thread.is_alive()
            # No slice begins after the one in progress.
            assert hold.count == 3
        session.close()
        assert session._memory.pool.held_page_count == 0
    assert all(isinstance(error, (ObjectClosedError, RuntimeError)) for error in ends)
    assert len(ends) == 3


def test_closing_a_stream_from_another_thread_rolls_back(model: Model) -> None:
    with talked(model) as session:
        before = state(session)
        stream = session.stream("x " * 150, max_tokens=200)
        thread = threading.Thread(target=lambda: list(stream))
        with held(model, after=2) as hold:
            thread.start()
            hold.wait()
            stream.close()
            thread.join(GUARD_S)
        assert state(session) == before


def test_a_closed_session_takes_nothing(model: Model) -> None:
    session = talked(model)
    messages = session.messages
    session.close()
    assert repr(session) == "<sslm.Session, 4 messages, closed>"
    assert session.messages == messages
    assert not session.is_accepting
    assert session.checkpoint_bytes == 0
    for call in CALLS.values():
        with pytest.raises(ObjectClosedError):
            call(session)
    with pytest.raises(NotCopyableError):
        pickle.dumps(session)


def test_a_closed_model_takes_its_sessions_along() -> None:
    model = Model(talking_artifact())
    session = talked(model)
    before = state(session)
    model.close()
    with pytest.raises(ObjectClosedError):
        say(session, "x")
    assert state(session) == before
    session.close()


def test_dropping_a_session_gives_its_memory_back(model: Model) -> None:
    gc.collect()
    gc.disable()
    try:
        before = held_bytes(model)
        session = talked(model)
        stream = session.stream("x")
        next(stream)
        seen, pool = weakref.ref(session), weakref.ref(session._memory.pool)
        del session, stream
        assert seen() is None
        assert pool() is None
        assert held_bytes(model) == before
    finally:
        gc.enable()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_many_sessions_leave_nothing_behind(model: Model) -> None:
    from tests.unit.engine.test_leaks import held, resident_kib

    def cycle(index: int) -> None:
        session = talked(model)
        stream = session.stream("x")
        next(stream)
        if index % 3 == 0:
            stream.commit()
        if index % 2:
            session.close()
        with pytest.raises((AnswerUnfinishedError, OptionRangeError, ObjectClosedError)):
            session.edit(1, "x")

    for index in range(10):
        cycle(index)
    before, before_kib = held(), resident_kib()
    for index in range(60):
        cycle(index)
    assert held() == before
    # One context's states are 340 KiB: a tenth of them kept each time would be 2 MiB.
    assert resident_kib() - before_kib < 2048


def test_a_date_is_part_of_the_conversation(model: Model) -> None:
    day = datetime.date(2024, 2, 29)
    with model.session(date=day) as session:
        assert say(session, "x") == cold(model, [Message("user", "x")], date=day)
