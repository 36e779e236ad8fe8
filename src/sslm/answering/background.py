"""Threads in which a model serves coroutines."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from sslm import limits
from sslm.answering.cutoff import Cutoff
from sslm.errors.native import ThreadStartError
from sslm.errors.runtime import ObjectClosedError
from sslm.threads import new_lock

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future, ThreadPoolExecutor

_T = TypeVar("_T")


class Background:
    """Runs calls in threads, which are started when they are first needed and end with the model.

    A call that is cancelled has rolled back before its coroutine goes on.

    Args:
        require_owner: Raises if the model was brought here by a fork, which may have copied the
            lock while another thread held it.
    """

    def __init__(self, require_owner: Callable[[], None]) -> None:
        self._require_owner = require_owner
        self._lock = new_lock()
        self._executor: ThreadPoolExecutor | None = None
        self._threads: set[int] = set()
        self._is_closed = False

    async def run(self, call: Callable[[], _T], cutoff: Cutoff) -> _T:
        """Run *call* in a thread and return what it returns.

        Args:
            call: Ends soon after the cutoff's flag is set.
            cutoff: Cancelled when the coroutine is; its deadline counts while *call* waits for a
                thread, too.

        Raises:
            ObjectClosedError, ForkedProcessError: If the model cannot be used here.
            ThreadStartError: If no thread can be started, or the main thread has ended.
            DeadlineExceededError: If the deadline passes before *call* begins to compute.
        """
        # Here, as most programs await nothing and need not wait for the import.
        import asyncio

        job = self._submit(call)
        future = asyncio.wrap_future(job)
        is_late = False
        try:
            await asyncio.wait([future], timeout=cutoff.remaining_s)
            if not future.done() and not cutoff.has_begun:
                future.cancel()
                raise cutoff.exceeded()
            if not future.done() and job.cancel():
                # It waits behind calls that may take their time, where it would end at once.
                is_late = True
                future = asyncio.ensure_future(asyncio.to_thread(call))
            # After its deadline the call ends by itself, and knows how far it came.
            await asyncio.wait([future])
        except asyncio.CancelledError:
            cutoff.cancel()
            if (is_late or not job.cancel()) and cutoff.has_begun:
                await _settled(future)
            # What waits for a thread, or reads its prompt, holds nothing, and will not begin.
            future.cancel()
            raise
        return future.result()

    def close(self) -> None:
        """End the threads, once the calls that they run have ended; may be called again.

        One of these threads, where a prompt's iterator closes the model, waits for nobody.
        """
        with self._lock:
            self._is_closed = True
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=threading.get_ident() not in self._threads)

    def _submit(self, call: Callable[[], _T]) -> "Future[_T]":
        self._require_owner()
        with self._lock:
            if self._is_closed:
                raise ObjectClosedError("model")
            try:
                self._executor = self._executor or _executor(self._threads)
                return self._executor.submit(call)
            except RuntimeError as error:
                # Once the main thread has ended, not even the import succeeds.
                raise ThreadStartError(1) from error


def _executor(threads: set[int]) -> "ThreadPoolExecutor":
    from concurrent.futures import ThreadPoolExecutor

    # Told of the set, not of its owner, which a cycle would keep alive.
    return ThreadPoolExecutor(
        limits.ASYNC_THREAD_COUNT_MAX,
        thread_name_prefix="sslm",
        initializer=_enrol,
        initargs=(threads,),
    )


def _enrol(threads: set[int]) -> None:
    threads.add(threading.get_ident())


async def _settled(future: "asyncio.Future[_T]") -> None:
    """Wait for the end of a call that was told to end, whoever cancels the wait."""
    import asyncio

    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future])
    if not future.cancelled():
        future.exception()  # Taken note of, so that nobody warns that it was not.
