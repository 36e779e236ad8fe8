"""An answer of a conversation that is read while it is made."""

from sslm.engine.generation import Generation
from sslm.engine.results import StreamChunk
from sslm.engine.session_source import SessionSource
from sslm.engine.stream import Stream
from sslm.errors.runtime import NestedCallError


class SessionStream(Stream):
    """A stream that :meth:`commit` can end, keeping what was shown.

    Args:
        generation: The answer in the making.
        source: Where its tokens come from and go to.
    """

    def __init__(self, generation: Generation, source: SessionSource) -> None:
        super().__init__(generation)
        self._source = source

    def __next__(self) -> StreamChunk:
        piece = super().__next__()
        self._source.shown += piece.text
        return piece

    def commit(self) -> None:
        """Keep the message and what was shown of its answer, and end the stream.

        If nothing was shown, nothing is kept. After an error or an interrupt the texts can still be
        kept so; after the whole answer there is nothing to do.

        Raises:
            NestedCallError: If this thread is computing the next piece.
            NothingToUndoError: If the conversation has gone on since.
        """
        self._generation.require_owner()
        with self._lock:
            if self._is_running:
                raise NestedCallError
            self._source.keep_shown()
            self._pieces.close()
