"""An interrupt at any line, and calls in the wrong order, leave a model that can be used."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

import sslm
from sslm.engine.model import Model
from sslm.errors.runtime import NestedCallError, ObjectClosedError, StreamUnfinishedError
from tests.converted import stories_artifact
from tests.held_runs import GUARD_S, acting, held

PROMPT = "Once upon a time"


@pytest.fixture
def model() -> Iterator[Model]:
    with Model(stories_artifact()) as opened:
        yield opened


class InterruptAt:
    """Raises KeyboardInterrupt before the n-th line of the package that runs; a context manager."""

    def __init__(self, line: int) -> None:
        self._left = line
        self._package = os.path.dirname(sslm.__file__)  # noqa: PTH120

    @property
    def lines_left(self) -> int:
        return self._left

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(self._package):
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt
        return self._trace

    def __enter__(self) -> "InterruptAt":
        sys.settrace(self._trace)
        return self

    def __exit__(self, *facts: object) -> None:
        sys.settrace(None)


def held_bytes(model: Model) -> int:
    return sum(lease.size_bytes for lease in model._runner.admission._leases)


def test_an_interrupt_at_any_line_leaves_the_model_usable(model: Model) -> None:
    expected = model.generate(PROMPT, max_tokens=2)
    before = held_bytes(model)
    with InterruptAt(0) as counting:
        model.generate(PROMPT, max_tokens=2)
    line_count = -counting.lines_left
    assert line_count > 300
    for line in range(1, line_count + 1, 3):
        with InterruptAt(line), pytest.raises(KeyboardInterrupt):
            model.generate(PROMPT, max_tokens=2)
        assert held_bytes(model) == before, line
        if line % 10 == 1:
            assert model.generate(PROMPT, max_tokens=2) == expected
    assert model.generate(PROMPT, max_tokens=2) == expected
    # And from another thread, which would wait for ever if a turn had been lost.
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(model.generate(PROMPT, max_tokens=2)))
    thread.start()
    thread.join(GUARD_S)
    assert answers == [expected]


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals that a thread can send")
def test_a_real_interrupt_in_a_long_prefill(model: Model) -> None:
    expected = model.generate(PROMPT, max_tokens=5)

    def work(delay_s: float) -> None:
        timer = threading.Timer(delay_s, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        while True:
            model.generate([1] * 500, max_tokens=10)

    for delay_s in (0.001, 0.003, 0.01, 0.02):
        with pytest.raises(KeyboardInterrupt):
            work(delay_s)
        assert model.generate(PROMPT, max_tokens=5) == expected


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals that a thread can send")
def test_a_signal_handler_may_close_the_stream_that_it_interrupts(model: Model) -> None:
    errors: list[Exception] = []

    def handle(number: int, frame: object) -> None:
        for call in (lambda: next(stream), lambda: model.generate(PROMPT, max_tokens=1)):
            try:
                call()
            except NestedCallError as error:
                errors.append(error)
        stream.close()

    def interrupt() -> None:
        # As if it had come while C was computing: Python runs the handler when C has returned.
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        for after in (1, 3, 7):
            errors.clear()
            with (
                acting(model, interrupt, after=after),
                model.stream([1] * 500, max_tokens=2) as stream,
            ):
                assert list(stream) == []
            assert len(errors) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert held_bytes(model) == model._runner._lease.size_bytes
    assert len(model.generate(PROMPT, max_tokens=2).token_ids) == 2


def test_closing_inside_the_loop_of_a_stream() -> None:
    model = Model(stories_artifact())
    texts = []
    stream = model.stream(PROMPT, max_tokens=20)

    def read() -> None:
        for piece in stream:
            texts.append(piece.text)
            model.close()

    with pytest.raises(ObjectClosedError):
        read()
    assert len(texts) == 1
    with pytest.raises(StreamUnfinishedError):
        stream.result()
    stream.close()
    model.close()


def test_closing_while_another_thread_generates() -> None:
    model = Model(stories_artifact(), threads=2)
    errors: list[Exception] = []

    def work() -> None:
        try:
            while True:
                model.generate([1] * 300, max_tokens=100)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    with held(model, after=4, lets_pass=True) as hold:
        for thread in threads:
            thread.start()
        hold.wait()
        model.close()
        for thread in threads:
            thread.join(GUARD_S)
    assert [type(error) for error in errors] == [ObjectClosedError] * 3


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "import gc; del stream, model; gc.collect()",
        "threading.Thread(target=lambda: [0 for _ in model.stream('b', max_tokens=9)]).start()",
    ],
)
def test_an_interpreter_ends_quietly_with_streams_left_open(ending: str) -> None:
    program = f"""
import asyncio, threading, sslm
model = sslm.load({str(stories_artifact())!r}, threads=2)
stream = model.stream("a", deadline_s=1000)
next(stream)
async def main():
    global left
    left = model.astream("a")
    await anext(left)
    task = asyncio.create_task(model.agenerate([1] * 400, max_tokens=100))
    await asyncio.sleep(0.01)
asyncio.run(main())
{ending}
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, timeout=240, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
