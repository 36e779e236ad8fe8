"""How soon a long prefill ends once it is to end; prints a table.

    python -m benchmarks.cancellation MODEL.sslm

Measured with one thread: cancelled coroutines, alone, while another thread prefills and in a
session, and deadlines. Exit 1 if the median of one is beyond 50 ms.
"""

import argparse
import asyncio
import statistics
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sslm.answering.results import Completion
from sslm.engine.model import Model
from sslm.errors.runtime import DeadlineExceededError

ROUNDS = 30
LIMIT_MS = 50


def cancelled_ms(ask: Callable[[], Coroutine[object, object, Completion]]) -> list[float]:
    """Cancel a coroutine at different points of its prefill; time until it goes on."""

    async def one(delay_s: float) -> float:
        task = asyncio.create_task(ask())
        await asyncio.sleep(delay_s)
        started_s = time.perf_counter()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return 1000 * (time.perf_counter() - started_s)
        raise AssertionError("the prompt is too short to be cancelled")

    async def main() -> list[float]:
        return [await one(0.02 + 0.007 * index) for index in range(ROUNDS)]

    return asyncio.run(main())


def late_ms(model: Model, prompt: list[int]) -> list[float]:
    """Let deadlines pass at different points of a prefill; time from there to the error."""
    found = []
    for index in range(ROUNDS):
        deadline_s = 0.02 + 0.007 * index
        try:
            model.generate(prompt, max_tokens=2, deadline_s=deadline_s)
        except DeadlineExceededError as error:
            found.append(1000 * (error.elapsed_s - deadline_s))
        else:
            raise AssertionError("the prompt is too short for a deadline")
    return found


@contextmanager
def _prefilling(model: Model, prompt: list[int]) -> Iterator[None]:
    is_done = threading.Event()

    def work() -> None:
        while not is_done.is_set():
            try:
                model.generate(prompt, max_tokens=1, deadline_s=0.5)
            except DeadlineExceededError:
                continue

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def main() -> int:
    """Print the table of one model."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cancellation")
    parser.add_argument("model", type=Path, help="a .sslm file")
    with Model(parser.parse_args().model) as model:
        prompt = [1 + n % 100 for n in range(model.context_tokens - 8)]
        model.generate([1], max_tokens=1)
        ask = partial(model.agenerate, prompt, max_tokens=2)
        rows = {"cancelled": cancelled_ms(ask)}
        with _prefilling(model, prompt):
            rows["cancelled, beside another request"] = cancelled_ms(ask)
        with model.session() as session:
            session.say("Hello", max_tokens=4)
            before = session.messages
            text = "of " * (model.context_tokens - 200)
            rows["cancelled, in a session"] = cancelled_ms(partial(session.asay, text))
            if session.messages != before:
                raise AssertionError("a cancelled request has left something")
        rows["deadline"] = late_ms(model, prompt)
    print(f"{'milliseconds':<36} {'median':>7} {'worst':>7}")
    for name, found in rows.items():
        print(f"{name:<36} {statistics.median(found):>7.1f} {max(found):>7.1f}")
    return 0 if max(statistics.median(found) for found in rows.values()) <= LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
