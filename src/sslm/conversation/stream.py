"""An answer of a conversation that is read while it is made."""

from sslm.answering.generation import Generation
from sslm.answering.results import Completion, StreamChunk
from sslm.answering.stream import Stream
from sslm.conversation.source import SessionSource


class SessionStream(Stream):
    """A stream that :meth:`commit` can end, keeping what was shown.

    Reading it is a call of its session: SequenceInUseError or NestedCallError refuses it while
    another one is not over, and refuses others while it is read.

    Args:
        generation: The answer in the making.
        source: Where its tokens come from and go to.
    """

    def __init__(self, generation: Generation, source: SessionSource) -> None:
        super().__init__(generation)
        self._source = source

    def __next__(self) -> StreamChunk:
        self._generation.require_owner()
        if self._is_over:
            raise StopIteration
        with self._source.call():
            self._source.require_current()
            return super().__next__()

    def _piece(self) -> StreamChunk | None:
        piece = super()._piece()
        if piece is not None:
            self._source.shown += piece.text
        return piece

    def read(self) -> Completion:
        """Compute whatever is left, and return the whole answer.

        Raises:
            StreamUnfinishedError: If another thread closed the stream meanwhile.
            StreamSupersededError: If the conversation has gone on without this answer.
            SslmError: As iterating does.
        """
        self._generation.require_owner()
        if self._is_over:
            return self.result()
        with self._source.call():
            self._source.require_current()
            return self.read_in_call()

    def read_in_call(self) -> Completion:
        """Do what :meth:`read` does, within a call of the session that has begun."""
        return super().read()

    def commit(self) -> None:
        """Keep the message and what was shown of its answer, and end the stream.

        If nothing was shown, nothing is kept. After an error or an interrupt the texts can still be
        kept so; after the whole answer there is nothing to do.

        Raises:
            ObjectClosedError: If the session is closed.
            SequenceInUseError, NestedCallError: If a call of the session is not over.
            StreamSupersededError: If the conversation has gone on without this answer.
        """
        self._generation.require_owner()
        with self._source.call(), self._lock:
            self._source.require_current()
            self._source.keep_shown()
            self._pieces.close()
