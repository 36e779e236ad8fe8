"""An answer that coroutines read while threads of the model make it."""

from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, NoReturn, Self

from sslm.answering.background import Background
from sslm.answering.cutoff import Cutoff
from sslm.answering.results import Completion, StreamChunk
from sslm.answering.stream import Stream
from sslm.errors.runtime import NotCopyableError, StreamUnfinishedError


class AsyncStream:
    """Iterate with ``async for``; an asynchronous context manager that rolls back when left early.

    Nothing happens before the first piece is awaited. Between two pieces no thread is held, so that
    any number of streams can be open. Cancelling a task that waits for a piece ends the stream.

    Args:
        background: Where it is computed.
        cutoff: Ends it early.
        start: Makes the stream, in a thread of *background*.
    """

    def __init__(self, background: Background, cutoff: Cutoff, start: Callable[[], Stream]) -> None:
        self._background = background
        self._cutoff = cutoff
        self._start = start
        self._stream: Stream | None = None

    def __aiter__(self) -> AsyncIterator[StreamChunk]:
        return self

    async def __anext__(self) -> StreamChunk:
        piece = await self._background.run(self._next, self._cutoff)
        if piece is None:
            raise StopAsyncIteration
        return piece

    @property
    def partial(self) -> Any:
        """What the answer says so far, with a schema; see :attr:`Stream.partial`."""
        return None if self._stream is None else self._stream.partial

    def result(self) -> Completion:
        """Return the whole answer after the last piece.

        Raises:
            StreamUnfinishedError: If the stream was left or closed before its end.
        """
        if self._stream is None:
            raise StreamUnfinishedError
        return self._stream.result()

    async def read(self) -> Completion:
        """Compute whatever is left, and return the whole answer; see :meth:`Stream.read`."""
        return await self._background.run(lambda: self._opened().read(), self._cutoff)

    async def aclose(self) -> None:
        """Stop computing and free the sequence's memory; may be called again."""
        self._cutoff.cancel()
        if self._stream is not None:
            # At once: if a thread computes for another task, the flag ends it in a moment.
            self._stream.close()

    def __repr__(self) -> str:
        is_begun = self._stream is not None
        return f"<sslm.AsyncStream, {'begun' if is_begun else 'not begun'}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("stream", "pass on its prompt and the model")

    def _opened(self) -> Stream:
        if self._stream is None:
            self._stream = self._start()
        return self._stream

    def _next(self) -> StreamChunk | None:
        # A future cannot carry StopIteration.
        return next(self._opened(), None)
