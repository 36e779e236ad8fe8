"""One conversation in token ids: what is committed of it, and who may change that."""

import sys
import weakref
from array import array
from collections.abc import Callable, Iterable
from collections.abc import Sequence as TokenIds
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, NoReturn

from sslm.closing import Closing
from sslm.errors.runtime import (
    EmptyPromptError,
    NestedCallError,
    NotCopyableError,
    ObjectClosedError,
    SequenceInUseError,
)
from sslm.errors.sessions import AnswerUnfinishedError, SessionNotAcceptingError
from sslm.program.choice import Choice
from sslm.program.program import Program
from sslm.progress import Progress
from sslm.runtime.guards import Cancellation, OwningProcess, Turn, Turns
from sslm.runtime.sequences.choice import require_numbers
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.snapshot import NO_ADAPTER, Snapshot
from sslm.runtime.sequences.token_ids import checked_token_ids
from sslm.runtime.transactions.checkpoints import CheckpointBudget, Checkpoints
from sslm.runtime.transactions.committed import Advance, Committed, NoteT
from sslm.runtime.transactions.token_request import FollowedSchema, TokenRequest

_INTERRUPTED_RESET = "a reset did not come to its end"


class _Use:
    """The block of a call that alone may use a session.

    Args:
        session: Freed at the end of the block if it was closed meanwhile.
        turns: Its own.

    Raises:
        ObjectClosedError: If it is closed.
        NestedCallError: If a call of this thread uses it, which this one came into the middle of.
        SequenceInUseError: If another thread's call uses it.
    """

    def __init__(self, session: "TokenSession[Any]", turns: Turns) -> None:
        self._session = session
        self._turns = turns
        self._turn: Turn | None = None

    def __enter__(self) -> None:
        self._turn = self._turns.turn_at_once(sys._getframe(1))
        if self._session.is_closed:
            self._leave()
            raise ObjectClosedError("session")
        if self._turn is None:
            if self._turns.is_this_threads():
                raise NestedCallError
            raise SequenceInUseError("session")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        if self._session.is_closed:
            self._session.close()

    def _leave(self) -> None:
        if self._turn is not None:
            self._turn.leave()


class TokenSession(Closing, Generic[NoteT]):
    """The owner of one conversation: requests either become part of it, or leave no trace.

    Between requests there are only frozen checkpoints. A request computes on a sequence of its own,
    which begins with a checkpoint, so that rolling back is letting go of it, which cannot fail; and
    a commit is one assignment, which nothing can interrupt.

    One thread at a time. Only :meth:`close` may come at any time.

    Args:
        program: What computes it.
        pool: Where pages come from, and nobody else's: those of the whole context, and as many as
            fit the budget of checkpoints. Then no request is ever refused for lack of pages.
        model_id: 32 bytes.
        advance: Runs a slice of a sequence.
        context_tokens: Most tokens of a prompt and its answer.
        budget: Of the checkpoints.
        note: What the owner keeps beside the conversation, committed and rolled back with it.

    Attributes:
        committed: What was committed; to be read at any time.
    """

    def __init__(
        self,
        program: Program,
        pool: KvPool,
        model_id: bytes,
        *,
        advance: Advance,
        context_tokens: int,
        budget: CheckpointBudget,
        note: NoteT,
    ) -> None:
        self.program = program
        self.pool = pool
        self.model_id = model_id
        self.advance = advance
        self.context_tokens = context_tokens
        self.committed = Committed(checkpoints=Checkpoints(budget=budget), note=note)
        self._owner = OwningProcess("session")
        self._turns = Turns()
        self._calls = Turns()
        self._request: weakref.ref[TokenRequest[NoteT]] | None = None
        self._refusal: str | None = None
        self._is_closed = False

    @property
    def is_accepting(self) -> bool:
        """Whether requests are taken; if not, a reset is needed first, or it is closed."""
        return self._refusal is None and not self._is_closed

    @property
    def is_closed(self) -> bool:
        """Whether the session was closed."""
        return self._is_closed

    def call(self) -> "_Use":
        """Return the block of a call that may consist of several steps, as an answer does.

        Nothing but :meth:`close` comes between its steps, if every other caller has such a block.

        Raises:
            ForkedProcessError: In another process.
            ObjectClosedError: By the block, if the session is closed.
            SequenceInUseError, NestedCallError: By the block, if another one is not over, of
                another thread or of this one; nothing has changed.
        """
        self._owner.require()
        return _Use(self, self._calls)

    def require_ready(self) -> None:
        """Raise what :meth:`begin` would raise of any request now.

        Raises:
            ObjectClosedError, SequenceInUseError, SessionNotAcceptingError, AnswerUnfinishedError:
                See there.
        """
        with self._used():
            self._require_accepting()
            self._require_rest()

    def cached_count(self, token_ids: TokenIds[int]) -> int:
        """Return how many tokens of a prompt no request would compute now."""
        longest = self.committed.checkpoints.longest_prefix(
            self.model_id, NO_ADAPTER, array("i", token_ids)
        )
        return 0 if longest is None else len(longest.token_ids)

    def begin(
        self,
        prompt_ids: Iterable[object],
        *,
        answer_tokens: int,
        choice: Choice | None = None,
        answer_schema: FollowedSchema | None = None,
        marks: TokenIds[int] = (),
        cancellation: Cancellation | None = None,
        require_time: Callable[[], None] | None = None,
        on_progress: Progress | None = None,
        clock_ns: Callable[[], int] | None = None,
        is_traced: bool = False,
        has_logits: bool = False,
        has_all_logits: bool = False,
    ) -> TokenRequest[NoteT]:
        """Begin a request, which computes nothing before its first token is asked for.

        Args:
            prompt_ids: The whole prompt, at least one id; what a checkpoint holds of its beginning
                is not computed again.
            answer_tokens: Most tokens of the answer, at least 1.
            choice: How they are chosen; None is plain greedy. A token that a checkpoint's sequence
                chose otherwise is chosen again, without computing anything but its head.
            answer_schema: What the answer follows, or None.
            marks: Positions inside the prompt after which checkpoints are taken, ascending; of
                those not computed yet, the last ``limits.CHECKPOINT_MARK_COUNT_MAX``.
            cancellation: Polled while anything is computed.
            require_time: Called before each slice; raises to end the request.
            on_progress: Called with how many tokens of the prompt are taken in, and of how many.
            clock_ns: Read for the receipt. Without it no clock is read.
            is_traced: Whether the digests of every segment are kept while it is computed.
            has_logits: Whether logits by which tokens are chosen are looked at, and so computed.
            has_all_logits: Whether those of every row that is computed are, too.

        Raises:
            SessionNotAcceptingError: If the session has to be reset first.
            AnswerUnfinishedError: If another request is neither committed nor closed.
            EmptyPromptError: If there is no prompt.
            TokenIdTypeError, TokenIdRangeError: If one is no id.
            ContextLengthError: If prompt and answer do not fit.
            OptionRangeError: If a number of the choice is out of its range.
        """
        with self._used():
            self._require_accepting()
            self._require_rest()
            # An interrupt may have kept it from giving everything back.
            self._close_request()
            ids = checked_token_ids(prompt_ids, self.program)
            if not ids:
                raise EmptyPromptError
            wanted = choice or Choice()
            request = TokenRequest(
                self,
                array("i", ids),
                position_count=self._needed(len(ids), answer_tokens, wanted),
                choice=wanted,
                answer_schema=answer_schema,
                marks=marks,
                cancellation=cancellation,
                require_time=require_time,
                on_progress=on_progress,
                clock_ns=clock_ns,
                is_traced=is_traced,
                has_logits=has_logits or has_all_logits,
                has_all_logits=has_all_logits,
            )
            self._request = weakref.ref(request)
            return request

    def _needed(self, prompt_tokens: int, answer_tokens: int, choice: Choice) -> int:
        """Return how many positions a request computes, if it can be met."""
        # The last token of an answer is chosen and not computed.
        needed = prompt_tokens + answer_tokens - 1
        if needed > self.context_tokens:
            raise self.program.too_long(needed, self.context_tokens)
        require_numbers(
            choice,
            answer_start=prompt_tokens,
            vocab_size=self.program.token_count,
            context_tokens=self.context_tokens,
        )
        return needed

    def keep(self, snapshot: Snapshot) -> bool:
        """Add a checkpoint, which is the session's from now on; return whether there was room.

        Args:
            snapshot: At rest, of this model and pool.

        Raises:
            AnswerUnfinishedError: If a request is neither committed nor closed.
            SequenceBusyError: If it is not at rest; it stays the caller's.
        """
        with self._used():
            self._require_rest()
            before = self.committed
            after = before.checkpoints.adding_what_fits([snapshot])
            self.committed = replace(before, checkpoints=after)
            after.release_others([*before.checkpoints.saved, snapshot])
            return after.holds(snapshot)

    def keep_note(self, note: NoteT) -> None:
        """Replace what the owner keeps beside the conversation; checkpoints stay as they are.

        Raises:
            AnswerUnfinishedError: If a request is neither committed nor closed.
        """
        with self._used():
            self._require_rest()
            self.committed = replace(self.committed, note=note)

    def reset(self, note: NoteT) -> None:
        """Forget the conversation, from any state; a request that is open is rolled back.

        If this fails, what was committed can still be read, and no request is taken before a reset
        has succeeded.
        """
        with self._used():
            self._refusal = _INTERRUPTED_RESET
            self._close_request()
            before = self.committed.checkpoints
            none = replace(before, saved=())
            none.release_others(before.saved)
            self.committed = Committed(checkpoints=none, note=note)
            self._refusal = None

    def close(self) -> None:
        """Give everything back; any thread may call this, and again.

        What another thread computes ends with SequenceReleasedError or ObjectClosedError.
        """
        self._is_closed = True
        self._free()

    # What requests tell their session.

    def replace_committed(
        self, committed: Committed[NoteT], *, is_open: Callable[[], bool]
    ) -> None:
        """Make what a request has come to part of the conversation.

        Args:
            committed: What replaces what was committed before.
            is_open: Whether the request is; asked once nothing else can use the session.

        Raises:
            ObjectClosedError: If the session or the request is closed.
        """
        with self._used():
            if not is_open():
                raise ObjectClosedError("request")
            before, self.committed = self.committed, committed
            committed.checkpoints.release_others(before.checkpoints.saved)

    def doubt(self, reason: str) -> None:
        """Take no more requests until a reset."""
        self._refusal = reason

    def _used(self) -> "_Use":
        self._owner.require()
        return _Use(self, self._turns)

    def _free(self) -> None:
        # Whoever has the turn looks at the flag after leaving it, so that one of the two frees.
        turn = self._turns.turn_at_once(sys._getframe())
        if turn is not None:
            self._close_request()
            for snapshot in self.committed.checkpoints.saved:
                snapshot.release()
            turn.leave()

    def _require_accepting(self) -> None:
        if self._refusal is not None:
            raise SessionNotAcceptingError(self._refusal)

    def _require_rest(self) -> None:
        request = self._request() if self._request else None
        if request is not None and request.is_open:
            raise AnswerUnfinishedError

    def _close_request(self) -> None:
        request = self._request() if self._request else None
        if request is not None:
            request.close()

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("session", "save it and restore that")
