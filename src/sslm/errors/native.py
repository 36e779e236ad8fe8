"""What can go wrong between Python and the native library."""

from sslm.errors.base import ArgumentError, ResourceError, StateError
from sslm.errors.status import Status


class PlanBusyError(StateError):
    """A plan was asked to run or to close while another thread runs it."""

    status = Status.PLAN_BUSY
    message = "this plan is running in another thread; compile one plan for each thread"


class PlanClosedError(StateError):
    """A plan was asked to run after it was closed."""

    status = Status.PLAN_CLOSED
    message = "this plan is closed; compile the program again"


class ForkedPlanError(StateError):
    """A plan with threads came into this process by a fork, which copies no threads."""

    status = Status.PLAN_FORKED
    message = (
        "this plan's {threads} threads belong to process {owner}, this is process {process}: "
        "compile the program again after the fork"
    )
    threads: int
    owner: int
    process: int


class RunCancelledError(StateError):
    """A run stopped because its flag was set; no residual, fixed state or counter has changed."""

    status = Status.RUN_CANCELLED
    message = "the run was cancelled and has changed nothing; it may be run again"


class TaskCallError(ArgumentError, TypeError):
    """A parallel-for hook called its task with something else than one index; nothing has run."""

    status = Status.PARALLEL_FOR_TASK
    message = (
        "the parallel-for hook called its task with {found}, expected one integer from 0 to the "
        "task count less one; mend the hook"
    )
    found: str


class ParallelForBrokenError(StateError):
    """A parallel-for hook did not run every task of a loop exactly once.

    No residual, fixed state or counter has changed, and the model can be used with a hook that was
    mended; this one would do the same again. *fault* is the first that was seen: ``omitted``,
    ``repeated``, ``invented`` (there is no task of this index), or ``abandoned`` (the hook returned
    while the task was running, which was waited for).
    """

    status = Status.PARALLEL_FOR_BROKEN
    message = (
        "the parallel-for hook has {fault} task {index} of {task_count} in segment {segment}, "
        "expected is each from 0 on exactly once, before the hook returns; nothing has changed, "
        "and the hook has to be mended"
    )
    fault: str
    index: int
    task_count: int
    segment: int


class ParallelForStoppedError(StateError):
    """A parallel-for hook in C returned another number than 0; nothing has changed."""

    status = Status.PARALLEL_FOR_STOPPED
    message = (
        "the parallel-for hook returned {returned} in segment {segment}, expected 0 after all "
        "tasks; nothing has changed, and the call may be tried again once the hook can go on"
    )
    returned: int
    segment: int


class ParallelForRefusedError(ArgumentError):
    """A parallel-for hook cannot be installed in a plan."""

    status = Status.PARALLEL_FOR_REFUSED
    message = (
        "a parallel-for hook of {max_tasks} tasks cannot be installed: this plan was compiled for "
        "{task_count_max} tasks and {threads} threads of its own, expected are as many tasks at "
        "most and 1 thread; compile it again for this hook"
    )
    max_tasks: int
    task_count_max: int
    threads: int


class NativeLibraryMissingError(ResourceError):
    """The package was installed without its shared library."""

    status = Status.NATIVE_LIBRARY_MISSING
    message = "{name} is in none of {folders}; install the package with pip, which builds it"
    name: str
    folders: tuple[str, ...]


class NativeLibraryLoadError(ResourceError):
    """The system refused to load the shared library."""

    status = Status.NATIVE_LIBRARY_LOAD
    message = "{path} cannot be loaded: {reason}; was it built for another machine?"
    path: str
    reason: str


class NativeLibraryAbiError(ResourceError):
    """The shared library is of another version of the package."""

    status = Status.NATIVE_LIBRARY_ABI
    message = "{path} has interface {found}, expected {expected}; install the package again"
    path: str
    found: int
    expected: int


class ThreadStartError(ResourceError):
    """Threads were needed and did not start: too many, or the interpreter is ending."""

    status = Status.THREAD_START
    message = (
        "{threads} more threads cannot be started: the system refuses them, or the interpreter is "
        "ending; ask for fewer, or before the main thread ends"
    )
    threads: int


class PlanMemoryError(ResourceError):
    """There is no memory for what a plan holds."""

    status = Status.PLAN_MEMORY
    message = "no memory for a plan of {size_bytes} bytes; ask for fewer rows or a shorter context"
    size_bytes: int


class PlanMemoryUnusableError(ResourceError):
    """The library refused the memory that a plan was to lie in."""

    status = Status.PLAN_MEMORY_UNUSABLE
    message = (
        "the library refuses {size_bytes} bytes at address {address:#x} for a plan; expected are "
        "those that it asks for, at a multiple of 64"
    )
    size_bytes: int
    address: int
