"""What keeps apart the calls of several threads, of signals, and of forked processes."""

import os
import sys
import threading
import weakref
from array import array
from collections import deque
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Final, Self

from sslm.errors.native import RunCancelledError
from sslm.errors.runtime import ForkedProcessError, NestedCallError
from sslm.threads import new_lock

POLL_S: Final = 0.01
"""How long a waiting thread sleeps between two looks at its flag."""


class Cancellation:
    """Set once, by any thread; a plan polls it while it runs.

    Attributes:
        flag: One int32, nonzero once the flag is set; its bytes stay where they are.
    """

    def __init__(self) -> None:
        self.flag = memoryview(array("i", [0]))

    @property
    def is_set(self) -> bool:
        """Whether runs are to stop."""
        return bool(self.flag[0])

    def set(self) -> None:
        """Stop the run in progress, and every later one that polls this flag."""
        self.flag[0] = 1


class OwningProcess:
    """Remembers who made an object, which a fork may bring into another process.

    A fork copies every lock and turn as it is, but no thread: if another one held it, nobody is
    there to give it back.

    Args:
        kind: What the object is, for the error.
    """

    __slots__ = ("_kind", "_process")

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is the process."""
        return os.getpid() == self._process

    def require(self) -> None:
        """Raise in any other process.

        Raises:
            ForkedProcessError: If this is another one.
        """
        process = os.getpid()
        if process != self._process:
            raise ForkedProcessError(self._kind, self._process, process)


class Turn:
    """A thread's place in a queue; a context manager whose block runs while it is the first one.

    Args:
        queue: All places, held weakly: one that an interrupt loses between two steps vanishes,
            where a lock would stay locked. Each step on the queue is one call into C, hence atomic.
        cancellation: Ends the waiting, or None.
    """

    def __init__(
        self, queue: "deque[weakref.ref[Turn]]", cancellation: Cancellation | None = None
    ) -> None:
        self._queue = queue
        self._place = weakref.ref(self)
        self._cancellation = cancellation
        self._thread = threading.get_ident()
        self._frame_id: int | None = None
        self._wake = new_lock()
        self._wake.acquire()

    def __enter__(self) -> Self:
        """Wait until every earlier place is left.

        Raises:
            RunCancelledError: If the flag is set before.
            NestedCallError: If this thread holds the turn already and would wait for itself.
        """
        # Whose block it is: the number alone, as the frame itself would hold this object for ever.
        self._frame_id = id(sys._getframe(1))
        try:
            self._queue.append(self._place)
            while (first := self._first()) is not self:
                if first is not None and first._thread == self._thread:
                    if first._is_over():
                        self._remove(first._place)
                        continue
                    raise NestedCallError
                if self._cancellation is not None and self._cancellation.is_set:
                    raise RunCancelledError
                del first
                self._wake.acquire(timeout=POLL_S)
        except BaseException:
            self.leave()
            raise
        return self

    def enter_at_once(self) -> bool:
        """Begin the turn if nobody has one, and tell whether it has begun."""
        try:
            self._queue.append(self._place)
            while (first := self._first()) is not self:
                if first is None or first._thread != self._thread or not first._is_over():
                    self.leave()
                    return False
                self._remove(first._place)
        except BaseException:
            self.leave()
            raise
        return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    def _is_over(self) -> bool:
        """Tell whether an interrupt has come between the end of this thread's block and its turn's.

        The error in flight then keeps the turn alive, while whoever handles it needs one.
        """
        frame: FrameType | None = sys._getframe()
        while frame is not None and id(frame) != self._frame_id:
            frame = frame.f_back
        return self._frame_id is not None and frame is None

    def _first(self) -> "Turn | None":
        # Looked at first: an interrupt that comes while an error is caught keeps frames alive.
        while self._queue:
            # Another thread may have emptied it meanwhile.
            with suppress(IndexError):
                place = self._queue[0]
                turn = place()
                if turn is not None:
                    return turn
                self._remove(place)
        return None

    def _remove(self, place: "weakref.ref[Turn]") -> None:
        # Another thread may have removed it meanwhile.
        with suppress(ValueError):
            self._queue.remove(place)

    def leave(self) -> None:
        """End the turn, or the waiting for it."""
        self._remove(self._place)
        following = self._first()
        if following is not None:
            # It may have been woken before, or be the one that is running.
            with suppress(RuntimeError):
                following._wake.release()


class Turns:
    """Gives threads their turns in the order in which they asked.

    A lock would not do: who gives it back and asks again at once mostly gets it again.
    """

    def __init__(self) -> None:
        self._queue: deque[weakref.ref[Turn]] = deque()

    def turn(self, cancellation: Cancellation | None = None) -> Turn:
        """Return a context manager whose block runs alone; see :class:`Turn`."""
        return Turn(self._queue, cancellation)

    def is_this_threads(self) -> bool:
        """Tell whether this thread has the turn at the moment."""
        first = self.turn()._first()
        return first is not None and first._thread == threading.get_ident()

    def turn_at_once(self, block: FrameType | None = None) -> Turn | None:
        """Return a turn that has begun, to be left with :meth:`Turn.leave`, or None.

        There is none while anybody has one, this thread included.

        Args:
            block: The frame whose end is also the turn's, should an interrupt come before the turn
                is left; None if it may last longer.
        """
        turn = Turn(self._queue)
        turn._frame_id = None if block is None else id(block)
        return turn if turn.enter_at_once() else None
