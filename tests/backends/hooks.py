"""Parallel-for hooks: honest ones in Python and in C, and ones that break the contract."""

import ctypes
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

Task = Callable[[int], None]

C_HOOKS = r"""
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

typedef void (*sslm_task)(void *argument, int32_t index);

typedef struct {
    sslm_task task;
    void *argument;
    int32_t task_count;
    _Atomic int32_t next;
} loop;

static void *work(void *user)
{
    loop *one = user;
    for (int32_t i = one->next++; i < one->task_count; i = one->next++) one->task(one->argument, i);
    return NULL;
}

/* user points to how many threads help, at most 8, and to how often this was called. */
int32_t run_threads(void *user, sslm_task task, void *argument, int32_t task_count)
{
    int32_t *numbers = user;
    loop one = {.task = task, .argument = argument, .task_count = task_count, .next = 0};
    pthread_t threads[8];
    for (int32_t i = 0; i < numbers[0]; i++) pthread_create(&threads[i], NULL, work, &one);
    work(&one);
    for (int32_t i = 0; i < numbers[0]; i++) pthread_join(threads[i], NULL);
    numbers[1]++;
    return 0;
}

int32_t give_up(void *user, sslm_task task, void *argument, int32_t task_count)
{
    (void)user;
    for (int32_t i = 0; i < task_count; i++) task(argument, i);
    return 7;
}

static sslm_task kept_task;
static void *kept_argument;

/* Does all that is due, and keeps what it was called with. */
int32_t keep(void *user, sslm_task task, void *argument, int32_t task_count)
{
    (void)user;
    kept_task = task;
    kept_argument = argument;
    for (int32_t i = 0; i < task_count; i++) task(argument, i);
    return 0;
}

void call_late(int32_t index)
{
    kept_task(kept_argument, index);
}
"""


def compile_c(folder: Path, source: str) -> Path:
    """Compile a shared library, or skip the test where there is no compiler."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("needs Linux and a C compiler")
    path = folder / "library.so"
    (folder / "library.c").write_text(source)
    command = ["cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", str(path)]
    subprocess.run([*command, str(folder / "library.c")], check=True)
    return path


def address_of(library: ctypes.CDLL, name: str) -> int:
    """Return where a function of a library lies."""
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None
    return address


@dataclass
class Counting:
    """Runs tasks in this thread and remembers how many each loop had."""

    is_reversed: bool = False
    counts: list[int] = field(default_factory=list)

    def __call__(self, task: Task, task_count: int) -> None:
        self.counts.append(task_count)
        for index in sorted(range(task_count), reverse=self.is_reversed):
            task(index)


class Pooled:
    """Runs tasks in threads of Python's."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor = executor

    def __call__(self, task: Task, task_count: int) -> None:
        list(self._executor.map(task, range(task_count)))


INT32_MAX = (1 << 31) - 1


def omit_first(task: Task, task_count: int) -> None:
    for index in range(1, task_count):
        task(index)


def omit_last(task: Task, task_count: int) -> None:
    for index in range(task_count - 1):
        task(index)


def omit_all(task: Task, task_count: int) -> None:
    del task, task_count


def repeat(task: Task, task_count: int) -> None:
    for index in (*range(task_count), task_count - 1):
        task(index)


def repeat_side_by_side(task: Task, task_count: int) -> None:
    def run(index: int) -> None:
        barrier.wait()
        task(index % task_count)

    barrier = threading.Barrier(2 * task_count)
    with ThreadPoolExecutor(2 * task_count) as executor:
        list(executor.map(run, range(2 * task_count)))


def invent_below(task: Task, task_count: int) -> None:
    for index in (-1, *range(task_count)):
        task(index)


def invent_next(task: Task, task_count: int) -> None:
    for index in range(task_count + 1):
        task(index)


def invent_largest(task: Task, task_count: int) -> None:
    for index in (*range(task_count), INT32_MAX):
        task(index)


def invent_beyond_int32(task: Task, task_count: int) -> None:
    for index in (*range(task_count), 1 << 40):
        task(index)


def replace_one(task: Task, task_count: int) -> None:
    """Omits and repeats: the first fault that is seen counts."""
    for index in (0, 0, *range(2, task_count)):
        task(index)


LIES: dict[str, tuple[Callable[[Task, int], None], str, Callable[[int], int]]] = {
    "omit the first": (omit_first, "omitted", lambda count: 0),
    "omit the last": (omit_last, "omitted", lambda count: count - 1),
    "omit all": (omit_all, "omitted", lambda count: 0),
    "repeat": (repeat, "repeated", lambda count: count - 1),
    "invent -1": (invent_below, "invented", lambda count: -1),
    "invent task_count": (invent_next, "invented", lambda count: count),
    "invent 2^31 - 1": (invent_largest, "invented", lambda count: INT32_MAX),
    "invent 2^40": (invent_beyond_int32, "invented", lambda count: INT32_MAX),
    "one for another": (replace_one, "repeated", lambda count: 0),
}
"""Ways to lie, the fault that is seen first, and its index for a number of tasks."""


@dataclass
class LyingOnce:
    """Lies in one loop and is honest in all others."""

    lie: Callable[[Task, int], object]
    at_loop: int
    loop_count: int = 0
    task_count: int = 0

    def __call__(self, task: Task, task_count: int) -> None:
        self.loop_count += 1
        if self.loop_count - 1 == self.at_loop:
            self.task_count = task_count
            self.lie(task, task_count)
            return
        for index in range(task_count):
            task(index)
