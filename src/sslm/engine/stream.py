"""An answer that is read while it is made."""

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from sslm.engine.generation import Generation
from sslm.engine.results import Completion, StreamChunk
from sslm.errors.runtime import StreamUnfinishedError


class Stream:
    """Iterate for pieces of text; a context manager that rolls back when left early.

    Joined, the pieces are byte for byte the text of ``generate``. Leaving the ``with`` block, or
    :meth:`close`, drops the sequence; the model is as it was.
    """

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._pieces = generation.pieces()
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[StreamChunk]:
        return self

    def __next__(self) -> StreamChunk:
        with self._lock:
            return next(self._pieces)

    def result(self) -> Completion:
        """Return the whole answer after the last piece.

        Raises:
            StreamUnfinishedError: If the stream was left or closed before its end.
        """
        if not self._generation.is_complete:
            raise StreamUnfinishedError
        return self._generation.result()

    def close(self) -> None:
        """Stop computing and free the sequence's memory; any thread may call this, and again.

        A thread that waits for the next piece gets the end of the stream instead.
        """
        self._generation.cancel()
        with self._lock:
            self._pieces.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
