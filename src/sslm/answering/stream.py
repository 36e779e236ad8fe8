"""An answer that is read while it is made."""

import inspect
from collections.abc import Iterator
from typing import Any, NoReturn, Self

from sslm.answering.generation import Generation
from sslm.answering.results import Completion, StreamChunk
from sslm.arguments import require_callback
from sslm.closing import Closing
from sslm.errors.runtime import NestedCallError, NotCopyableError, StreamUnfinishedError
from sslm.progress import Progress
from sslm.threads import new_reentrant_lock


class Stream(Closing):
    """Iterate for pieces of text; a context manager that rolls back when left early.

    Joined, the pieces are byte for byte the text of ``generate``. Leaving the ``with`` block, or
    :meth:`close`, drops the sequence; the model is as it was. So does dropping the stream itself.
    """

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._pieces = generation.pieces()
        # Of one thread at a time, which a signal handler may interrupt and call again.
        self._lock = new_reentrant_lock()

    def __iter__(self) -> Iterator[StreamChunk]:
        return self

    def __next__(self) -> StreamChunk:
        piece = self._piece()
        if piece is None:
            raise StopIteration
        return piece

    def _piece(self) -> StreamChunk | None:
        """Compute the next piece, or None behind the last; reading all comes by here, too."""
        # Before the lock, which a fork may have copied while another thread held it.
        self._generation.require_owner()
        with self._lock:
            if self._is_running:
                raise NestedCallError
            return next(self._pieces, None)

    def telling(self, on_progress: Progress | None) -> Self:
        """Have a callback told how far the prompt is while it is taken in; return this stream.

        Raises:
            OptionRangeError: If it cannot be called.
        """
        require_callback("on_progress", on_progress)
        self._generation.on_progress = on_progress
        return self

    @property
    def partial(self) -> Any:
        """What the answer says so far, with a schema: of plain lists, dicts, texts and numbers.

        Lists, objects and texts that have begun are there as far as they go; numbers, true, false
        and null once they are certain; keys once they have a value. None before anything is, and
        without a schema. Any thread may ask, at any time; what was returned does not change later,
        and parts of it that are complete are the same objects the next time.
        """
        return self._generation.partial

    def result(self) -> Completion:
        """Return the whole answer after the last piece.

        Raises:
            StreamUnfinishedError: If the stream was left or closed before its end.
        """
        if not self._generation.is_complete:
            raise StreamUnfinishedError
        return self._generation.result()

    def read(self) -> Completion:
        """Compute whatever is left, and return the whole answer.

        Raises:
            StreamUnfinishedError: If another thread closed the stream meanwhile.
            SslmError: As iterating does.
        """
        # Without cancelling: several answers of one call share what may end them.
        try:
            while self._piece() is not None:
                pass
        finally:
            self._drop()
        return self.result()

    def close(self) -> None:
        """Stop computing and free the sequence's memory; any thread may call this, and again.

        A thread that waits for the next piece gets the end of the stream instead. From a signal
        handler that interrupted just this, the memory is freed as soon as it has returned.
        """
        self._generation.cancel()
        self._drop()

    @property
    def _is_running(self) -> bool:
        return inspect.getgeneratorstate(self._pieces) == inspect.GEN_RUNNING

    @property
    def _is_over(self) -> bool:
        return inspect.getgeneratorstate(self._pieces) == inspect.GEN_CLOSED

    def _drop(self) -> None:
        if self._generation.is_owner:
            with self._lock:
                if not self._is_running:
                    self._pieces.close()

    def __repr__(self) -> str:
        state = "complete" if self._generation.is_complete else "not complete"
        return f"<sslm.Stream, {state}>"

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("stream", "pass on its prompt and the model")
