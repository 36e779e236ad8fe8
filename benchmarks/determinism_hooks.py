"""Ways to share a model's work that must not show, for ``benchmarks.determinism``."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sslm.program.parallel_for import SCOPES, ParallelFor, TaskRunner

TASK_COUNTS: Final = (1, 2, 3, 7)
HOOK_KINDS: Final = ("forwards", "backwards", "threads")
BATCH_SIZES: Final = (1, 2, 5)
HOOK_THREADS: Final = 4

Task = Callable[[int], None]


def open_hook(kind: str, *, max_tasks: int, scope: str) -> ParallelFor:
    """Return a hook of a kind of ``HOOK_KINDS`` and a scope of ``SCOPES``."""
    runners: dict[str, TaskRunner] = {
        "forwards": _run_forwards,
        "backwards": _run_backwards,
        "threads": _run_in_threads,
    }
    return ParallelFor(runners[kind], max_tasks=max_tasks, scope=scope)


def hook_choices(*, is_quick: bool) -> list[tuple[str, int, str]]:
    """Return kind, tasks and scope of every hook to try."""
    if is_quick:
        return list(zip(HOOK_KINDS, TASK_COUNTS[1:], SCOPES[::-1], strict=True))
    return [
        (kind, count, scope) for count in TASK_COUNTS for kind in HOOK_KINDS for scope in SCOPES
    ]


def _run_forwards(task: Task, task_count: int) -> None:
    for index in range(task_count):
        task(index)


def _run_backwards(task: Task, task_count: int) -> None:
    for index in reversed(range(task_count)):
        task(index)


def _run_in_threads(task: Task, task_count: int) -> None:
    with ThreadPoolExecutor(HOOK_THREADS) as executor:
        list(executor.map(task, range(task_count)))
