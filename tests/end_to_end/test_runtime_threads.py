"""Threads, processes and signals on one model: refused by name or right, and nothing is left."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from sslm.answering.live_prefix import LivePrefix
from sslm.answering.live_sequence import LiveSequence
from sslm.conversation.session import Session
from sslm.engine.model import Model
from sslm.errors.runtime import ForkedProcessError, NotCopyableError, ObjectClosedError
from sslm.opening.shared_pool import SharedPool
from tests.converted import stories_artifact, talking_artifact
from tests.forking import in_child
from tests.stress import (
    Stand,
    different_sequences,
    interrupts,
    models_that_close,
    one_sequence,
    pages_alone,
    released_prefixes,
)

SECONDS = float(os.environ.get("SSLM_TEST_STRESS_SECONDS", "0.4"))
"""Of each kind of work; ``python -m benchmarks.thread_stress`` takes longer."""
PROMPT = "Once upon a time"
has_timers = pytest.mark.skipif(sys.platform == "win32", reason="needs timers that send signals")


@pytest.fixture(scope="module", params=["native", "reference"])
def stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    lengths = (3, 64, 70, 130) if request.param == "native" else (2, 5)
    stand = Stand(request.param, lengths=lengths)
    yield stand
    stand.pool.close()
    stand.runner.close()


def test_different_sequences_in_different_threads(stand: Stand) -> None:
    assert different_sequences(stand, SECONDS, 1) >= 4
    stand.require_rest()


def test_pages_in_different_threads() -> None:
    assert pages_alone(SECONDS, 6) >= 4


def test_one_sequence_in_several_threads(stand: Stand) -> None:
    assert one_sequence(stand, SECONDS, 2) >= 4
    stand.require_rest()


def test_prefixes_that_are_released_while_others_adopt_them(stand: Stand) -> None:
    assert released_prefixes(stand, SECONDS, 3) >= 4
    stand.require_rest()


# Its own signals come from the timer that would otherwise bound it.
@pytest.mark.timeout(method="thread")
@has_timers
def test_signals_at_random_moments(stand: Stand) -> None:
    assert interrupts(stand, SECONDS, 4) >= 4
    stand.require_rest()


def test_models_that_are_closed_while_others_use_them() -> None:
    assert models_that_close(2 * SECONDS, 5) >= 4


def test_models_that_several_threads_open_and_close() -> None:
    with Model(stories_artifact()) as model:
        expected = model.generate(PROMPT, max_tokens=3)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for threads in (1, 2, 1, 3):
                with Model(stories_artifact(), threads=threads) as model:
                    assert model.generate(PROMPT, max_tokens=3) == expected
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(240)
    assert errors == []


def test_a_hundred_of_each_leave_nothing(stand: Stand) -> None:
    def life() -> None:
        with stand.sequence() as sequence, stand.sequence() as other:
            sequence.push(stand.prompts[0])
            snapshot = sequence.snapshot()
            other.adopt(snapshot)
            snapshot.release()

    life()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(100):
        life()
    gc.collect()
    assert len(gc.get_objects()) - before < 100
    assert stand.pool.held_page_count == 0


def test_what_lives_on_a_model_that_is_closed() -> None:
    model = Model(talking_artifact())
    pool = model.kv_pool(512)
    prefix = model.prefix(PROMPT, pool=pool)
    while not prefix.done:
        prefix.advance(layers=9)
    sequence = model.sequence([5], prefix=prefix, max_tokens=9)
    sequence.advance(layers=3)
    session = model.session()
    session.say("Hi", max_tokens=2)
    model.close()
    for call in (
        lambda: sequence.advance(layers=1),
        lambda: session.say("Hi", max_tokens=2),
        lambda: model.sequence(PROMPT),
        lambda: model.kv_pool(64),
        model.session,
    ):
        with pytest.raises(ObjectClosedError):
            call()
    for one in (sequence, session, prefix, pool):
        one.close()


class Lives(NamedTuple):
    """One of each kind of object that lives on a model."""

    pool: SharedPool
    prefix: LivePrefix
    sequence: LiveSequence
    session: Session


def live_objects(model: Model) -> Lives:
    pool = model.kv_pool(1024)
    prefix = model.prefix(PROMPT, pool=pool)
    while not prefix.done:
        prefix.advance(layers=9)
    sequence = model.sequence([5], prefix=prefix, max_tokens=9)
    sequence.advance(layers=3)
    session = model.session()
    session.say("Hi", max_tokens=2)
    return Lives(pool=pool, prefix=prefix, sequence=sequence, session=session)


def test_what_lives_in_one_process_is_sent_to_no_other() -> None:
    with Model(talking_artifact()) as model:
        for one in live_objects(model):
            for send in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(NotCopyableError):
                    send(one)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_is_refused_by_name_whatever_the_parent_does() -> None:
    with Model(talking_artifact(), threads=2) as model:
        pool, prefix, sequence, session = live_objects(model)
        scheduler = model.scheduler()
        scheduler.add(sequence)
        calls: tuple[Callable[[], object], ...] = (
            lambda: pool.free_tokens,
            lambda: model.sequence([1], pool=pool),
            lambda: model.sequence([1], prefix=prefix),
            lambda: model.prefix([1], pool=pool),
            lambda: model.kv_pool(64),
            model.session,
            lambda: sequence.advance(layers=1),
            lambda: sequence.reset([1]),
            lambda: scheduler.items,
            lambda: scheduler.add(prefix),
            lambda: scheduler.remove(sequence),
            lambda: scheduler.run(layers=1),
            lambda: session.say("Hi"),
            session.save,
            session.reset,
        )

        def work() -> None:
            for call in calls:
                with pytest.raises(ForkedProcessError):
                    call()
            for one in (session, sequence, prefix, pool, model):
                one.close()
            gc.collect()

        is_done = False

        def busy() -> None:
            while not is_done:
                with model.sequence([1] * 70, max_tokens=2, pool=pool) as other:
                    while not other.done:
                        other.advance(layers=2)

        threads = [threading.Thread(target=busy) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(4):
                in_child(work)
        finally:
            is_done = True
            for thread in threads:
                thread.join()
        while not sequence.done:
            sequence.advance(layers=9)


ENDINGS = {
    "at rest": "",
    "in a cycle": "everything.append(everything)",
    "threads that compute": "[threading.Thread(target=compute).start() for _ in range(2)]",
    "threads that are left": (
        "[threading.Thread(target=compute, args=(9999,), daemon=True).start() for _ in range(2)]\n"
        "time.sleep(0.05)"
    ),
    "an error on its way": (
        "try:\n    sequence.reset([1] * 5000)\nexcept sslm.ContextLengthError:\n    sys.exit(0)"
    ),
    "used at the very end": "atexit.register(lambda: compute(2))",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_interpreter_ends_quietly_whatever_lives(ending: str) -> None:
    program = f"""
import atexit, os, sys, threading, time, sslm
model = sslm.load({str(talking_artifact())!r}, threads=2)
pool = model.kv_pool(2048)
prefix = model.prefix("Once upon a time", pool=pool)
while not prefix.done:
    prefix.advance(layers=2)
sequence = model.sequence([5], prefix=prefix, max_tokens=9)
sequence.advance(layers=1)
session = model.session()
stream = session.stream("Hi")
next(stream)
raw = sequence.sequence
snapshot = raw.snapshot()
everything = [model, pool, prefix, sequence, session, stream, raw, snapshot]
def compute(count=20):
    for _ in range(count):
        with model.sequence([1] * 70, max_tokens=2, pool=pool) as other:
            while not other.done:
                other.advance(layers=1)
{ENDINGS[ending]}
"""
    command = [sys.executable, "-X", "dev", "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, timeout=240, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
