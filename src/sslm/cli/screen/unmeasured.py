"""Progress of work that cannot always tell how far it is."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from sslm.progress import StageProgress
from sslm.threads import new_lock, start_thread

_REMINDER_S: Final = 1
_COMPILING: Final = "compiling the schema"


@contextmanager
def unmeasured(report: StageProgress, what: str) -> Iterator[StageProgress]:
    """Report again and again that a piece of work goes on, so that it is seen if it takes long.

    Args:
        report: What :func:`sslm.cli.screen.output.progress` gives.
        what: Is being done in the block, by the thread that is in it.

    Yields:
        What the block may tell of its parts, as far as it can; the latest is what is repeated.
    """
    is_over, has_ended, lock = new_lock(), new_lock(), new_lock()
    latest = what, 0, 0

    def tell(part: str, done: int, total: int) -> None:
        nonlocal latest
        with lock:
            latest = part, done, total
            report(part, done, total)

    def remind() -> None:
        while not is_over.acquire(timeout=_REMINDER_S):
            with lock:
                report(*latest)

    tell(what, 0, 0)
    # Only this thread's: work that never calls back leaves no other one to say anything.
    is_over.acquire()
    has_ended.acquire()
    start_thread(remind, has_ended.release)
    try:
        yield tell
    finally:
        is_over.release()
        has_ended.acquire()


def compiling(
    report: StageProgress, schema: object = True
) -> AbstractContextManager[StageProgress]:
    """Report that the schema of an answer is being compiled, if there is one."""
    return nullcontext(report) if schema is None else unmeasured(report, _COMPILING)
