"""A host's way to run the tasks of a loop: what a caller gives, checked."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import briefly, int_range
from sslm.limits import TASK_COUNT_MAX

SCOPES: Final = ("finish", "one_row", "all")
"""What may be shared: the head's rows; also the projections of a run of one row; also all other
ops of every run. Each includes those before it."""

ADDRESS_MAX: Final = (1 << 64) - 1

TaskRunner = Callable[[Callable[[int], None], int], object]
"""Called with ``task`` and ``task_count``; calls ``task(i)`` for each i below ``task_count``."""


@dataclass(frozen=True, slots=True)
class ParallelFor:
    """A hook that runs the tasks of a loop on threads of the host's own.

    *run* calls ``task(i)`` exactly once for every ``i`` in ``range(task_count)``, in any order, on
    any threads, side by side or not, and returns after all of these calls have. A *run* that leaves
    one out, repeats one or makes one up fails the request with ``ParallelForBrokenError``; what it
    raises is raised from the request. Neither changes anything: the model goes on with its next
    run. What a task computes depends on the model's shapes and *max_tasks* only, and no result
    depends on any of these. What is too small to be shared is computed without *run*.

    A *run* in Python takes about 50 µs each time it is called; a C function takes what it takes.

    Args:
        run: A function as described; or the address of a C one, ``int32_t (*)(void *user, void
            (*task)(void *argument, int32_t index), void *argument, int32_t task_count)``, which
            returns 0 if it has run all tasks, and holds no lock of Python's. Any positive number
            counts as one: a wrong address ends the process.
        max_tasks: Most tasks of one loop, 0 … 256; below 2 *run* is never called. The model has
            scratch memory for so many.
        scope: One of :data:`SCOPES`.
        user: What a C function gets as ``user``: an address that stays valid as long as the model.

    Raises:
        OptionRangeError: If one of these is of another type, or out of range.
    """

    run: TaskRunner | int
    max_tasks: int
    scope: str = "finish"
    user: int = 0

    def __post_init__(self) -> None:
        is_python = callable(self.run)
        if callable(self.run):
            _require_two_arguments(self.run)
        else:
            self._check("run", 1, ADDRESS_MAX, "a function, or the address of a C function")
        self._check("max_tasks", 0, TASK_COUNT_MAX, int_range(0, TASK_COUNT_MAX))
        if self.scope not in SCOPES:
            raise OptionRangeError("parallel_for.scope", briefly(self.scope), " or ".join(SCOPES))
        expected = "0: a Python function keeps what it needs" if is_python else "an address or 0"
        self._check("user", 0, 0 if is_python else ADDRESS_MAX, expected)

    def _check(self, name: str, lowest: int, highest: int, expected: str) -> None:
        """Make a field a plain integer in its range; those of other libraries are welcome."""
        value = getattr(self, name)
        try:
            number = None if isinstance(value, bool) else operator.index(value)
        except TypeError:
            number = None
        if number is None or not lowest <= number <= highest:
            raise OptionRangeError(f"parallel_for.{name}", briefly(value), expected)
        object.__setattr__(self, name, number)


def _require_two_arguments(run: TaskRunner) -> None:
    """Raise unless a function can be called with a task and a task count, where Python can tell."""
    # Takes a while to import, and is needed for hooks alone.
    from inspect import iscoroutinefunction, signature

    expected = "a function of two arguments, task and task_count"
    if iscoroutinefunction(run):
        raise OptionRangeError("parallel_for.run", "a coroutine function", expected)
    try:
        found = signature(run)
    except (TypeError, ValueError):  # Some functions written in C do not say.
        return
    try:
        found.bind(None, 1)
    except TypeError:
        raise OptionRangeError("parallel_for.run", f"called as {found}", expected) from None
