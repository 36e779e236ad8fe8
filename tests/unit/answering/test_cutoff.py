"""Deadlines and cancellation: what ends a request early, and what is left of it."""

import _thread
import math
import pickle
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sslm import limits
from sslm.answering.cutoff import Cutoff
from sslm.engine.model import Model
from sslm.errors.base import ResourceError
from sslm.errors.native import RunCancelledError, ThreadStartError
from sslm.errors.runtime import DeadlineExceededError, OptionRangeError
from tests.converted import stories_artifact, talking_artifact

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(stories_artifact()) as opened:
        yield opened


@pytest.mark.parametrize(
    "odd",
    [math.nan, math.inf, -math.inf, -1, -0.001, "1", True, b"1", [1], limits.DEADLINE_S_MAX + 1],
)
def test_a_deadline_is_a_number_of_seconds(model: Model, odd: Any) -> None:
    calls: tuple[Callable[..., object], ...] = (
        model.generate,
        model.stream,
        model.astream,
        model.generate_many,
        model.chat,
        model.chat_stream,
        model.achat_stream,
    )
    for call in calls:
        with pytest.raises(OptionRangeError, match="deadline_s"):
            call(PROMPT, deadline_s=odd)


def test_a_deadline_far_away_changes_nothing(model: Model) -> None:
    plain = model.generate(PROMPT, max_tokens=8)
    for deadline_s in (60, 60.5, limits.DEADLINE_S_MAX, np.int64(60), np.float64(60.5)):
        assert model.generate(PROMPT, max_tokens=8, deadline_s=deadline_s) == plain  # type: ignore[arg-type]


def test_a_deadline_of_zero_computes_nothing(model: Model) -> None:
    with pytest.raises(DeadlineExceededError) as caught:
        model.generate(PROMPT, deadline_s=0)
    error = caught.value
    assert (error.deadline_s, error.prompt_tokens, error.completion_tokens) == (0, 0, 0)
    assert (error.token_ids, error.text) == ((), "")
    assert isinstance(error, ResourceError)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that deadlines are compared with, in seconds; timers have a clock of their own."""
    now_s = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    return now_s


def test_the_error_tells_how_far_the_answer_was(model: Model, clock: list[float]) -> None:
    plain = model.generate(PROMPT, max_tokens=40)
    stream = model.stream(PROMPT, max_tokens=40, deadline_s=500)
    pieces = [next(stream) for _ in range(5)]
    clock[0] += 500.5
    with pytest.raises(DeadlineExceededError) as caught:
        next(stream)
    error = pickle.loads(pickle.dumps(caught.value))
    assert list(error.token_ids) == plain.token_ids[:5]
    assert error.text == "".join(piece.text for piece in pieces)
    assert error.prompt_tokens == plain.usage.prompt_tokens
    assert error.completion_tokens == 5
    assert error.elapsed_s == 500.5
    # The stream is over, and the model is as it was.
    assert list(stream) == []
    assert model.generate(PROMPT, max_tokens=40) == plain


def test_a_timer_sets_the_flag_in_a_watched_block(clock: list[float]) -> None:
    cutoff = Cutoff(0.02)
    with cutoff.watched():
        # The clock stands still: nothing else would end it.
        while not cutoff.cancellation.is_set:
            time.sleep(0.001)
    assert cutoff.elapsed_s == 0
    assert not cutoff.is_cancelled
    with pytest.raises(RunCancelledError):
        cutoff.begin()


def test_a_timer_ends_with_its_block() -> None:
    before = _thread._count()
    cutoff = Cutoff(3600)
    with cutoff.watched():
        # It may take a while until a thread counts.
        while _thread._count() == before:
            time.sleep(0.001)
    while _thread._count() > before:
        time.sleep(0.001)
    assert not cutoff.cancellation.is_set


def test_a_deadline_that_nobody_can_watch_ends_the_call(
    monkeypatch: pytest.MonkeyPatch, model: Model
) -> None:
    # As where the new thread has no memory for its first step: it ends, and has run nothing.
    monkeypatch.setattr(_thread, "start_new_thread", lambda run, facts: 0)
    with pytest.raises(ThreadStartError):
        model.generate(PROMPT, max_tokens=100, deadline_s=1000)


def test_no_thread_without_a_deadline(model: Model) -> None:
    before = _thread._count()
    with model.stream(PROMPT, max_tokens=3) as stream:
        next(stream)
        assert _thread._count() <= before


def test_a_refused_thread_is_named(monkeypatch: pytest.MonkeyPatch, model: Model) -> None:
    def refuse(run: object, facts: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    with pytest.raises(ThreadStartError):
        model.generate(PROMPT, max_tokens=3, deadline_s=10)
    assert len(model.generate(PROMPT, max_tokens=3).token_ids) == 3


class StandingClock:
    """A clock that stands still until it has been asked so often, and then is an hour further."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
        self._looks_left = looks
        monkeypatch.setattr("sslm.answering.cutoff.time.monotonic", self.read)

    def read(self) -> float:
        self._looks_left -= 1
        return 0.0 if self._looks_left >= 0 else 3600.0


def modules_of(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    return [Path(frame.filename).stem for frame in frames]


def test_a_deadline_may_pass_while_a_prompt_is_tokenized(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert model.tokenizer.vocab_size == 512
    StandingClock(monkeypatch, looks=2)
    with pytest.raises(DeadlineExceededError) as caught:
        model.generate("word " * 90, deadline_s=60)
    assert "sentencepiece" in modules_of(caught.value)


@pytest.mark.parametrize(("looks", "module"), [(2, "allowance"), (4, "sentencepiece")])
def test_a_deadline_may_pass_while_a_conversation_is_rendered(
    monkeypatch: pytest.MonkeyPatch, looks: int, module: str
) -> None:
    with Model(talking_artifact()) as talker:
        StandingClock(monkeypatch, looks)
        with pytest.raises(DeadlineExceededError) as caught:
            talker.chat([{"role": "user", "content": "word"}], deadline_s=60)
        assert module in modules_of(caught.value)
        monkeypatch.undo()
        with talker.session() as session:
            StandingClock(monkeypatch, looks)
            with pytest.raises(DeadlineExceededError) as caught:
                session.say("word", deadline_s=60)
            assert module in modules_of(caught.value)
            assert session.messages == []
