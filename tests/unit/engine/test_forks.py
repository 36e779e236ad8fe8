"""After a fork a model says whose it is, whatever the other threads were doing."""

import asyncio
import gc
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sslm.engine.model import Model
from sslm.errors.runtime import ForkedProcessError
from tests.converted import stories_artifact
from tests.forking import in_child

PROMPT = "Once upon a time"
FORKS = int(os.environ.get("SSLM_TEST_FORKS", "2"))
"""Forks at random moments; more of them by hand."""

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def refuse(model: Model) -> None:
    """Every call is refused, and closing harms nobody."""
    for call in (
        lambda: model.generate(PROMPT),
        lambda: model.stream(PROMPT),
        lambda: model.generate_many([PROMPT], return_errors=True),
        lambda: asyncio.run(model.agenerate(PROMPT)),
        lambda: asyncio.run(model.agenerate_many([PROMPT])),
        model.verify,
    ):
        with pytest.raises(ForkedProcessError):
            call()
    model.close()
    gc.collect()


@contextmanager
def busy(model: Model) -> Iterator[None]:
    """Keep other threads in the middle of requests, and so in each lock from time to time."""
    is_done = False

    def work() -> None:
        while not is_done:
            model.generate([1] * 200, max_tokens=3, deadline_s=60)
            with model.stream([1] * 70) as stream:
                next(stream)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(0.02)
        yield
    finally:
        is_done = True
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("options", [{}, {"threads": 2, "mmap": False}])
def test_a_fork_in_the_middle_of_requests(options: dict[str, int]) -> None:
    with Model(stories_artifact(), **options) as model:  # type: ignore[arg-type]
        expected = model.generate(PROMPT, max_tokens=8)
        asyncio.run(model.agenerate(PROMPT, max_tokens=2))
        with busy(model):
            for _ in range(FORKS):
                in_child(lambda: refuse(model))
                time.sleep(0.003)
        assert model.generate(PROMPT, max_tokens=8) == expected


def test_a_child_opens_the_model_again() -> None:
    with Model(stories_artifact(), threads=2) as model:
        expected, spec = model.generate(PROMPT, max_tokens=8), model.spec

        def work() -> None:
            with spec.load() as again:
                assert again.generate(PROMPT, max_tokens=8) == expected
                assert asyncio.run(again.agenerate(PROMPT, max_tokens=8)) == expected

        with busy(model):
            in_child(work)


def test_a_fork_in_the_middle_of_a_stream() -> None:
    with Model(stories_artifact(), threads=2) as model:
        expected = model.generate(PROMPT, max_tokens=20)
        stream = model.stream(PROMPT, max_tokens=20, deadline_s=60)
        texts = [next(stream).text for _ in range(3)]

        def work() -> None:
            with pytest.raises(ForkedProcessError):
                next(stream)
            stream.close()
            gc.collect()

        in_child(work)

        def reading() -> None:
            texts.extend(piece.text for piece in stream)

        reader = threading.Thread(target=reading)
        with stream._lock:  # As if it were computing.
            reader.start()
            in_child(work)
        reader.join()
        assert "".join(texts) == expected.text


def test_a_fork_in_another_thread() -> None:
    with Model(stories_artifact(), threads=2) as model:
        errors: list[BaseException] = []

        def fork() -> None:
            try:
                in_child(lambda: refuse(model))
            except BaseException as error:
                errors.append(error)

        with busy(model):
            thread = threading.Thread(target=fork)
            thread.start()
            thread.join()
        assert errors == []


def digest_of(spec: object) -> str:
    """Runs in a child of a pool."""
    with spec.load() as model:  # type: ignore[attr-defined]
        digest: str = model.generate(PROMPT, max_tokens=8).digest
        return digest


def test_a_pool_of_forked_children() -> None:
    with Model(stories_artifact(), threads=2) as model:
        expected = model.generate(PROMPT, max_tokens=8).digest
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(digest_of, [model.spec] * 4) == [expected] * 4
