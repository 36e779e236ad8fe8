"""An answer that is read while it is made."""

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from sslm.engine.generation import Generation
from sslm.engine.results import Completion, StreamChunk
from sslm.errors.runtime import SequenceBusyError


class Stream:
    """Iterate for pieces of text; a context manager that rolls back when left early.

    Joined, the pieces are byte for byte the text of ``generate``. Leaving the ``with`` block, or
    :meth:`close`, drops the sequence; the model is as it was.
    """

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._pieces = generation.pieces()

    def __iter__(self) -> Iterator[StreamChunk]:
        return self

    def __next__(self) -> StreamChunk:
        return next(self._pieces)

    def result(self) -> Completion:
        """Return the whole answer after the last piece.

        Raises:
            SequenceBusyError: If the stream was left or closed before its end.
        """
        if not self._generation.is_complete:
            raise SequenceBusyError(1, "a stream that was read to its end")
        return self._generation.result()

    def close(self) -> None:
        """Stop computing and free the sequence's memory; may be called again."""
        # A generator's close method unwinds its with blocks.
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
