"""A host's parallel-for hook as the C library calls it."""

import operator
from typing import Any, Final

from sslm.errors.native import TaskCallError
from sslm.errors.runtime import ObjectClosedError
from sslm.errors.showing import briefly
from sslm.native_library import NativeLibrary
from sslm.program.parallel_for import SCOPES, ParallelFor, TaskRunner

FAULTS: Final = {1: "omitted", 2: "repeated", 3: "invented", 4: "abandoned"}
"""Ways to break the contract, by the library's numbers."""

_INT32_MIN: Final = -(1 << 31)
_INT32_MAX: Final = (1 << 31) - 1


class Hook:
    """The struct of a hook, with what it points to.

    Args:
        library: The loaded library.
        parallel_for: What to call.
        memory: What must outlive every call of a task: the plan's memory.
    """

    def __init__(self, library: NativeLibrary, parallel_for: ParallelFor, memory: Any) -> None:
        ffi = library.ffi
        self.struct = ffi.new("sslm_parallel_for *")
        self.struct.max_tasks = parallel_for.max_tasks
        self.struct.scope = SCOPES.index(parallel_for.scope)
        self._calls: _PythonCalls | None = None
        kind = "int32_t(void *, sslm_task, void *, int32_t)"
        if callable(parallel_for.run):
            # The callback does not know this object: a cycle would keep the plan's memory.
            self._calls = _PythonCalls(parallel_for.run, memory)
            self._callback = ffi.callback(kind, self._calls.run)
            self.struct.run = self._callback
        else:
            self.struct.run = ffi.cast(
                f"int32_t(*){kind.removeprefix('int32_t')}", parallel_for.run
            )
            self.struct.user = ffi.cast("void *", parallel_for.user)

    def take_raised(self) -> BaseException | None:
        """Return what a Python function raised in the last run, once, or None."""
        if self._calls is None:
            return None
        raised, self._calls.raised = self._calls.raised, None
        return raised


class _PythonCalls:
    """Calls a Python function for each loop, and keeps what it raises."""

    def __init__(self, run: TaskRunner, memory: Any) -> None:
        self._run = run
        self._memory = memory
        self.raised: BaseException | None = None

    def run(self, user: Any, task: Any, argument: Any, task_count: int) -> int:
        tasks = _Tasks(task, argument, self._memory)
        try:
            self._run(tasks, task_count)
        except BaseException as error:  # Nothing may pass through C; the run raises it.
            self.raised = error
            return 1
        finally:
            tasks.is_over = True
        return 0


class _Tasks:
    """Runs the tasks of one loop, by their indices."""

    __slots__ = ("_argument", "_memory", "_task", "is_over")

    def __init__(self, task: Any, argument: Any, memory: Any) -> None:
        self._task, self._argument, self._memory = task, argument, memory
        self.is_over = False

    def __call__(self, *arguments: object, **named: object) -> None:
        """Run the task of one index; other threads may compute meanwhile.

        Raises:
            TaskCallError: If it is called with anything else than one integer.
            ObjectClosedError: If the hook has returned already.
        """
        index = _index_of(arguments, named)
        if self.is_over:
            raise ObjectClosedError("loop of this task")
        # Which tasks there are is for the library to say.
        self._task(self._argument, max(_INT32_MIN, min(index, _INT32_MAX)))


def _index_of(arguments: tuple[object, ...], named: dict[str, object]) -> int:
    """Return the index that a task is called with; integers of other libraries are welcome."""
    if named:
        raise TaskCallError(f"the keyword {next(iter(named))}")
    if len(arguments) != 1:
        raise TaskCallError(f"{len(arguments)} arguments")
    (value,) = arguments
    # Python counts a truth value as an integer, and a hook hardly means it.
    if isinstance(value, bool):
        raise TaskCallError(briefly(value))
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TaskCallError(briefly(value)) from None
