"""The worker's side: one JSON object a line in, one out. Runs in any Python, with what that has."""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, Final

ANSWERS_VARIABLE: Final = "VERSUS_ANSWERS_FD"
"""Names the file descriptor that answers go to."""


def token_ids(count: int, first: int = 0) -> list[int]:
    """Return ids that are spread over a vocabulary of 40,100 or more, the same in all engines."""
    return [(7919 * (first + index) + 13) % 40_000 + 100 for index in range(count)]


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Return the seconds of a piece of work by the clock, and of this process on the CPUs."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    work()
    return {"wall_s": time.perf_counter() - wall_s, "cpu_s": time.process_time() - cpu_s}


def peak_memory() -> dict[str, int]:
    """Return the most memory that this process had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"peak_bytes": peak if sys.platform == "darwin" else 1024 * peak}


def serve(commands: dict[str, Callable[..., dict[str, Any]]]) -> None:
    """Do what is asked until there is nobody left who asks."""
    # Not stdout, which belongs to whatever a library prints.
    with os.fdopen(int(os.environ[ANSWERS_VARIABLE]), "w", encoding="utf-8") as answers:
        for line in sys.stdin:
            request = json.loads(line)
            answers.write(json.dumps(commands[request.pop("do")](**request)) + "\n")
            answers.flush()
