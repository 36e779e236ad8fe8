"""What may end a request before its answer does."""

import operator
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import SupportsIndex

from sslm import limits
from sslm.errors.native import RunCancelledError, ThreadStartError
from sslm.errors.runtime import DeadlineExceededError, OptionRangeError
from sslm.errors.showing import briefly
from sslm.log import LOGGER
from sslm.runtime.guards import Cancellation
from sslm.threads import new_lock, start_thread


class Cutoff:
    """A cancellation and a deadline, which one call on a model shares among all that it runs.

    Args:
        deadline_s: Seconds from now until the call fails, 0 or more, or None for no bound.

    Attributes:
        cancellation: What runs poll: set when the call is cancelled or its time is over.
        has_begun: Whether something was computed, which has to be rolled back, or is held.

    Raises:
        OptionRangeError: If *deadline_s* is no number in its range.
    """

    def __init__(self, deadline_s: float | None = None) -> None:
        if deadline_s is not None:
            deadline_s = _checked_seconds(deadline_s)
        self.deadline_s = deadline_s
        self.cancellation = Cancellation()
        # Without a deadline nobody asks what time it is.
        self._started_s: float = 0 if deadline_s is None else time.monotonic()
        self._is_cancelled = False
        self.has_begun = False

    @property
    def is_cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._is_cancelled

    @property
    def elapsed_s(self) -> float:
        """Seconds since the call began; of one with a deadline."""
        return time.monotonic() - self._started_s

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the deadline, 0 once it has passed, or None if there is none."""
        return None if self.deadline_s is None else max(0, self.deadline_s - self.elapsed_s)

    def cancel(self) -> None:
        """Let whatever computes stop; any thread may call this, and again."""
        self._is_cancelled = True
        self.cancellation.set()

    def begin(self) -> None:
        """Note that something will be computed.

        Raises:
            RunCancelledError: If the request has ended already.
        """
        # In this order: who cancels sets the flag first, then looks whether there is a beginning.
        self.has_begun = True
        self.require_time()

    def require_time(self) -> None:
        """Raise RunCancelledError if the request is to end, for either reason."""
        if self.cancellation.is_set or self.remaining_s == 0:
            raise RunCancelledError

    def exceeded(
        self, *, prompt_tokens: int = 0, token_ids: tuple[int, ...] = (), text: str = ""
    ) -> DeadlineExceededError:
        """Return the error that says how far the request came by its deadline."""
        if self.deadline_s is None:
            raise AssertionError("only a deadline or a cancellation ends a request early")
        return DeadlineExceededError(
            deadline_s=self.deadline_s,
            elapsed_s=self.elapsed_s,
            prompt_tokens=prompt_tokens,
            completion_tokens=len(token_ids),
            token_ids=token_ids,
            text=text,
        )

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Set the flag when the deadline passes during the block; only then there is a thread.

        Raises:
            ThreadStartError: If there is a deadline, and that thread cannot begin or go on.
        """
        remaining_s = self.remaining_s
        if remaining_s is None or remaining_s == 0:
            yield
            return
        alarm = _Alarm(remaining_s, self.cancellation)
        try:
            start_thread(alarm.wait, alarm.end)
            yield
        except RunCancelledError:
            if alarm.has_failed and not self._is_cancelled:
                raise ThreadStartError(1) from None
            raise
        finally:
            alarm.stop()


class _Alarm:
    """Sets a flag when time is over, unless it is stopped before.

    Args:
        remaining_s: How long to wait.
        cancellation: What to set; also if the thread that waits ends too early, as a deadline that
            nobody watches would never pass.

    Attributes:
        has_failed: Whether the thread ended too early.
    """

    def __init__(self, remaining_s: float, cancellation: Cancellation) -> None:
        self._remaining_s = remaining_s
        self._cancellation = cancellation
        self._stopped = new_lock()
        self._stopped.acquire()
        self._is_over = False
        self.has_failed = False

    def wait(self) -> None:
        """Wait in a thread of its own."""
        if not self._stopped.acquire(timeout=self._remaining_s):
            self._cancellation.set()
        self._is_over = True

    def stop(self) -> None:
        """End the waiting."""
        self._stopped.release()

    def end(self) -> None:
        """Note that the thread has ended."""
        if not self._is_over:
            self.has_failed = True
            self._cancellation.set()


def _checked_seconds(value: float) -> float:
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        # An array has an index if it is one integer; whatever has none is refused below.
        with suppress(TypeError):
            value = operator.index(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # Infinity is beyond the limit, and NaN compares with nothing.
    if not (is_number and 0 <= value <= limits.DEADLINE_S_MAX):
        expected = f"a number of seconds from 0 to {limits.DEADLINE_S_MAX}"
        raise OptionRangeError("deadline_s", briefly(value), expected)
    return value


def require_time(cutoff: Cutoff) -> None:
    """Raise if a request is to end before it has begun, so that its prompt need not be read."""
    if cutoff.is_cancelled:
        raise RunCancelledError
    if cutoff.remaining_s == 0:
        LOGGER.debug("ended early after 0 answer tokens")
        raise cutoff.exceeded()
