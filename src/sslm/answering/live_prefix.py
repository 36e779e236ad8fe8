"""A beginning that several sequences share, computed slice by slice."""

from collections.abc import Sequence as Ids

from sslm.answering.sliced_work import SlicedWork
from sslm.errors.runtime import EmptyPromptError, ObjectClosedError
from sslm.opening.admission import Lease
from sslm.opening.runner import Runner
from sslm.opening.shared_pool import SharedPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.snapshot import Snapshot, size_at_rest_bytes
from sslm.runtime.sequences.token_ids import checked_token_ids


class LivePrefix(SlicedWork):
    """A beginning that is computed once, and that any number of sequences start from.

    Made by ``model.prefix``. Sequences that start from it share its full pages and copy at most one
    that is not full; these pages live as long as any of them. When it is done, it has given back
    all memory but its full pages and a copy of the rows behind them, which is admitted when it is
    made, and counted until it and all who started from it are closed.

    Args:
        runner: Of the model.
        pool: Whose pages it takes; those of the sequences that will start from it.
        token_ids: What it adds to *base*.
        base: The prefix that it goes on from, or None.

    Raises:
        EmptyPromptError: If *token_ids* is empty.
        TokenIdTypeError, TokenIdRangeError: If one is none of the vocabulary.
        ContextLengthError: If there is no room behind it for one more token.
        PrefixNotFrozenError: If *base* is not done.
        ObjectClosedError: If *base* or *pool* is closed.
        MemoryBudgetError, KvPoolExhaustedError: If there is not enough memory; nothing was taken.
    """

    _KIND = "prefix"
    _INSTEAD = "compute its token_ids again"
    _MEND = "close it and compute it again"

    def __init__(
        self,
        runner: Runner,
        pool: SharedPool,
        token_ids: Ids[int],
        base: "LivePrefix | None" = None,
    ) -> None:
        own_ids = checked_token_ids(token_ids, runner.program)
        if not own_ids:
            raise EmptyPromptError
        snapshot = base.snapshot if base else None
        self.token_ids: tuple[int, ...] = (*(base.token_ids if base else ()), *own_ids)
        """All of its tokens, those of the prefix below it included."""
        count = len(self.token_ids)
        if count >= runner.context_tokens:
            raise runner.program.too_long(count + 1, runner.context_tokens)
        self.pool = pool
        options = SequenceOptions(
            context_tokens=count, reserved_tokens=0 if base else None, is_sliced=True
        )
        kept = runner.admit("a prefix", size_at_rest_bytes(runner.program, count))
        try:
            super().__init__(runner, options, pool)
        except BaseException:
            # The error's traceback would hold it.
            kept.end()
            raise
        self._kept: Lease | None = kept
        try:
            self._prefix = Prefix(self.sequence)
        except BaseException:
            super().close()
            kept.end()
            raise
        try:
            if snapshot is not None:
                self.sequence.adopt(snapshot, reserved_tokens=count)
            self.sequence.push(own_ids)
        except BaseException:
            self.close()
            raise

    @property
    def done(self) -> bool:
        """Whether it is computed, so that sequences can start from it."""
        return self._prefix.is_frozen

    @property
    def token_count(self) -> int:
        """Tokens that a sequence need not compute that starts from it."""
        return len(self.token_ids)

    @property
    def snapshot(self) -> Snapshot:
        """What sequences start from.

        Raises:
            PrefixNotFrozenError: If it is not done.
            ObjectClosedError: If it is closed.
        """
        return self._prefix.snapshot

    def shared(self) -> tuple[Snapshot, Lease]:
        """Return a snapshot for one who starts from it, and what its bytes were admitted with.

        Raises:
            PrefixNotFrozenError, ObjectClosedError: As :attr:`snapshot` does.
        """
        kept, snapshot = self._kept, self.snapshot.share()
        if kept is None:
            raise ObjectClosedError(self._KIND)
        return snapshot, kept

    def close(self) -> None:
        """Give up its pages, which live on with the sequences that started from it."""
        self._prefix.release()
        super().close()
        # It ends with the last one who holds it.
        self._kept = None

    def get_ready(self) -> bool:
        """Become done if nothing is pending; return whether anything is."""
        if self.done:
            return False
        if self.sequence.has_work:
            return True
        self._prefix.freeze()
        self._lease.end()
        return False

    def _require_open(self) -> None:
        # The sequence itself is closed as soon as the prefix is done.
        if self._prefix.is_released:
            raise ObjectClosedError(self._KIND)

    def __repr__(self) -> str:
        state = "done" if self.done else "not done"
        return f"<sslm.LivePrefix of {self.token_count} tokens, {state}>"
