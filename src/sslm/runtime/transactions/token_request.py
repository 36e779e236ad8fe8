"""One request to a session: computed beside the conversation, then part of it or gone."""

from array import array
from collections.abc import Callable
from collections.abc import Sequence as TokenIds
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Generic, NoReturn

from sslm import limits
from sslm.closing import Closing
from sslm.errors.base import ResourceError, SslmError
from sslm.errors.runtime import (
    ContextLengthError,
    MemoryRefusedError,
    NotCopyableError,
    ObjectClosedError,
)
from sslm.numerics.digests import next_link
from sslm.program.choice import Choice
from sslm.program.spans import DIGEST_SIZE_BYTES
from sslm.program.states import PAGE_TOKENS
from sslm.progress import Progress
from sslm.runtime.guards import Cancellation
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.schema_binding import Ending
from sslm.runtime.sequences.schema_steps import admit_beginning
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.sequences.snapshot import NO_ADAPTER, Snapshot
from sslm.runtime.sequences.state import Chunk
from sslm.runtime.transactions.committed import Ground, NoteT
from sslm.schema.tokens.bound_schema import BoundSchema

_CLOSING_TOKENS_MAX: Final = 8
"""Tokens that are computed behind an answer; templates write one to three there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedSchema:
    """What an answer follows.

    Args:
        schema: Of the model's vocabulary.
        answer_tokens: Most tokens that complete it, or None if it may be cut off.
        takes_spans: Whether tokens that alone may follow are taken in with the one before them.
    """

    schema: BoundSchema
    answer_tokens: int | None
    takes_spans: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Where the time of a request went, in nanoseconds of the clock that it was given.

    Args:
        cached_ns: Finding the saved beginning and taking it over.
        prefill_ns: From there to the choice of the first token, checkpoints included.
        decode_ns: From there to the choice of the last token, pauses of whoever asks included.
        total_ns: From the first to the last look at the clock.
    """

    cached_ns: int
    prefill_ns: int
    decode_ns: int
    total_ns: int


class TokenRequest(Closing, Generic[NoteT]):
    """An answer in the making; made by ``TokenSession.begin``.

    Whatever ends it before :meth:`commit` has succeeded leaves the session as it was, to the byte,
    and the same request made again comes to the same bits. Dropping it rolls back, too.

    Attributes:
        token_ids: The answer so far.
        cached_count: Tokens of the prompt that a checkpoint held.
        position: Tokens that are computed, those included.
        links: For each of its tokens, 32 bytes: the chain of digests over all positions before it.
        ending: Why a schema lets nothing follow but what ends an answer, or None.
        forced_count: Tokens of the answer that were not chosen, as its schema left no choice.
    """

    def __init__(
        self,
        session: Ground[NoteT],
        prompt_ids: "array[int]",
        *,
        position_count: int,
        choice: Choice,
        answer_schema: FollowedSchema | None,
        marks: TokenIds[int],
        cancellation: Cancellation | None,
        require_time: Callable[[], None] | None,
        on_progress: Progress | None,
        clock_ns: Callable[[], int] | None,
        is_traced: bool = False,
        has_logits: bool = False,
        has_all_logits: bool = False,
    ) -> None:
        self._session = session
        self._prompt_ids = prompt_ids
        self._position_count = position_count
        self._choice = choice
        self._answer_schema = answer_schema
        self._marks = [mark for mark in marks if 0 < mark < len(prompt_ids)]
        self._cancellation = cancellation
        self._require_time = require_time
        self._on_progress = on_progress
        self._clock_ns = clock_ns
        self._is_traced = is_traced
        self._has_logits = has_logits
        self._has_all_logits = has_all_logits
        self._times_ns: list[int] = []
        self._base: Snapshot | None = None
        self._sequence: Sequence | None = None
        self._captured: list[Snapshot] = []
        self._is_closed = False
        self.token_ids: list[int] = []
        self.links: list[bytes] = []
        self.ending: Ending | None = None
        self.forced_count = 0
        self.cached_count = 0
        self.position = 0

    @property
    def is_open(self) -> bool:
        """Whether it is neither committed nor rolled back."""
        return not self._is_closed

    @property
    def computed_count(self) -> int:
        """Tokens that this request computed: of prompt and answer, and behind it."""
        return self.position - self.cached_count

    def next_token(self) -> int:
        """Return the next token of an answer without a schema; see :meth:`next_tokens`."""
        return self.next_tokens()[-1]

    def next_tokens(self) -> list[int]:
        """Return the next tokens of the answer, or the first one once the prompt is taken in.

        There are several where a schema leaves no choice.

        Raises:
            ObjectClosedError: If the request, its session or the model is closed.
            ContextLengthError: If as many tokens were chosen as were asked for.
            BaseException: Whatever the callbacks or a run raise. The request is then rolled back.
        """
        self._require_open()
        try:
            sequence, needed = self._sequence, len(self._prompt_ids) + len(self.token_ids)
            found: list[int]
            if needed > self._position_count:
                # Of this request, for which no larger context would do.
                most = self._position_count
                raise ContextLengthError(needed, most, most)
            if sequence is None:
                sequence = self._restored_at_clock()
                if sequence.position == len(self._prompt_ids):
                    self.links.append(sequence.digest)
                found = self._prefill(sequence)
            else:
                # What was chosen last is the answer's already.
                _, *found = sequence.decode_span(self._span_tokens)
                self._compute(sequence)
            found.append(sequence.chosen())
            self._look_at_clock()
            self.token_ids += found
            self.ending = sequence.ending_after(found[-1])
            self.forced_count += len(found) - 1
            return found
        except BaseException:
            self.close()
            raise

    @property
    def _span_tokens(self) -> int:
        """Most tokens that are taken in at once: as many as the answer may still have."""
        followed = self._answer_schema
        if followed is None or not followed.takes_spans:
            return 1
        return self._position_count - len(self._prompt_ids) - len(self.token_ids) + 1

    def digest(self) -> bytes:
        """Return the digest of the answer so far, 32 bytes.

        Raises:
            ObjectClosedError: If the request is closed.
        """
        return self._computed().answer_digest(self.token_ids)

    def last_chunk(self) -> Chunk:
        """Return the rows that were computed last; valid until the next token is asked for.

        Raises:
            ObjectClosedError: If the request is closed.
        """
        return self._computed().state.last_chunk()

    def commit(self, note: NoteT, closing: TokenIds[int] = ()) -> None:
        """Make prompt and answer so far part of the conversation, and end the request.

        Args:
            note: What the session's owner keeps beside it from now on.
            closing: What follows the answer in any next prompt. It is computed, now that nobody
                waits for a token, and a checkpoint is taken behind it; if that fails, it is left.

        Raises:
            ObjectClosedError: If the request is closed, or nothing was chosen yet.
        """
        captured: list[Snapshot] = []
        session = self._session
        try:
            digest = self.digest()
            if self._sequence is not None:
                self._capture(self._sequence)
                self._compute_closing(self._sequence, closing)
            captured = self._taken()
            checkpoints = session.committed.checkpoints
            if self._base is not None:
                checkpoints = checkpoints.used(self._base)
            after = replace(
                session.committed,
                token_ids=(*self._prompt_ids, *self.token_ids),
                digest=digest,
                checkpoints=checkpoints.adding_what_fits(captured),
                note=note,
            )
            session.replace_committed(after, is_open=lambda: self.is_open)
            self._look_at_clock()
        finally:
            session.committed.checkpoints.release_others(captured)
            self.close()

    def close(self) -> None:
        """Roll back what was not committed; any thread may call this, and again."""
        self._is_closed = True
        if self._sequence is not None:
            self._sequence.close()
        for snapshot in self._taken():
            snapshot.release()
        self._base = None

    def receipt(self) -> Receipt | None:
        """Return where the time went, or None without a clock or before the first token."""
        if len(self._times_ns) < 3:
            return None
        started, restored, first, *later = self._times_ns
        chosen = later[: len(self.token_ids) - 1]
        return Receipt(
            cached_ns=restored - started,
            prefill_ns=first - restored,
            decode_ns=(chosen[-1] - first) if chosen else 0,
            total_ns=self._times_ns[-1] - started,
        )

    def _prefill(self, sequence: Sequence) -> list[int]:
        """Take in the prompt, as far as no checkpoint holds it, and what alone may follow it.

        Returns:
            The tokens of the answer that are.
        """
        marks = [mark for mark in self._marks if mark > self.cached_count]
        last, begun = len(self._prompt_ids), []
        for stop in (*marks[-limits.CHECKPOINT_MARK_COUNT_MAX :], last):
            if stop > sequence.position:
                sequence.push(self._prompt_ids[sequence.position : stop])
                # In one go, unless the prompt by itself is to be kept.
                if stop == last and not self._keeps_checkpoints:
                    begun = self._begin_answer(sequence)
                self._compute(sequence)
                self._capture(sequence)
        begun = begun or self._begin_answer(sequence)
        # Also what the checkpoint of a whole prompt has chosen, and another choice may have.
        self._compute(sequence)
        return begun

    def _begin_answer(self, sequence: Sequence) -> list[int]:
        with sequence.begin_use() as state:
            return admit_beginning(state, self._span_tokens - 1).tolist()

    def _restored_at_clock(self) -> Sequence:
        """Do what :meth:`_restored` does, and note how long it takes."""
        self._look_at_clock()
        sequence = self._restored()
        self._look_at_clock()
        return sequence

    def _restored(self) -> Sequence:
        """Make the sequence, and let it begin with the longest checkpoint that fits."""
        session = self._session
        checkpoints = session.committed.checkpoints
        base = checkpoints.longest_prefix(session.model_id, NO_ADAPTER, self._prompt_ids)
        longest = min(self._position_count + _CLOSING_TOKENS_MAX + 1, session.context_tokens)
        options = SequenceOptions(
            context_tokens=longest,
            has_all_logits=self._has_all_logits,
            chooses=self._has_logits or not self._choice.is_plain,
            is_traced=self._is_traced,
        )
        scored: Snapshot | None = None
        if self._has_all_logits and self._answer_schema is not None:
            scored = self._scored_prompt(options)
            shared = PAGE_TOKENS * len(scored.hold.pages)
            options = replace(
                options, has_all_logits=False, reserved_tokens=max(0, longest - shared)
            )
        sequence = Sequence(session.program, session.pool, session.model_id, options)
        self._sequence = sequence
        # Before it adopts: what was chosen so already need not be chosen again.
        sequence.choose(self._choice, len(self._prompt_ids))
        if self._answer_schema is not None:
            followed = self._answer_schema
            sequence.bind(followed.schema, answer_tokens=followed.answer_tokens)
        if scored is not None:
            sequence.adopt(scored, reserved_tokens=longest)
        if base is not None:
            try:
                sequence.adopt(base)
            except ResourceError:
                raise
            except SslmError as error:
                # What was saved is not what it was, so what else may have changed?
                session.doubt(f"a checkpoint could not be restored ({error})")
                raise
            self._base = base
            self.cached_count = self.position = sequence.position
            if self._has_logits:
                sequence.rescore()
        return sequence

    def _scored_prompt(self, options: SequenceOptions) -> Snapshot:
        """Compute and score all of the prompt but its last token, and freeze that.

        A schema's mask holds for every row that is scored, so this is done before one is bound.
        """
        session = self._session
        with Sequence(session.program, session.pool, session.model_id, options) as sequence:
            self._sequence = sequence
            sequence.push(self._prompt_ids[:-1])
            self._compute(sequence)
            snapshot = sequence.snapshot()
            # Released when the request ends.
            self._captured.append(snapshot)
        self._require_open()
        return snapshot

    def _compute(self, sequence: Sequence) -> None:
        while sequence.has_work:
            if self._require_time is not None:
                self._require_time()
            link = sequence.digest
            self._session.advance(sequence, self._cancellation)
            self._note_links(sequence, link)
            self.position = sequence.position
            if self._on_progress is not None and not self.token_ids:
                prompt_tokens = len(self._prompt_ids)
                self._on_progress(min(sequence.position, prompt_tokens), prompt_tokens)

    def _note_links(self, sequence: Sequence, link: bytes) -> None:
        """Note the chain behind each new position from which a token of the answer follows.

        Args:
            sequence: A chunk of it was computed.
            link: The chain before.
        """
        first, last = self.position, sequence.position
        before = max(first, len(self._prompt_ids) - 1)
        if last == before + 1:
            self.links.append(sequence.digest)
        elif last > before:
            data, links = sequence.state.data, []
            for position in range(first, last):
                at = DIGEST_SIZE_BYTES * (position - first)
                digest = data.memory.digests[at : at + DIGEST_SIZE_BYTES]
                link = next_link(link, data.token_ids[position], digest)
                links.append(link)
            self.links += links[before - first :]

    def _compute_closing(self, sequence: Sequence, closing: TokenIds[int]) -> None:
        if not closing or not self._keeps_checkpoints:
            return
        with suppress(SslmError, MemoryError):
            sequence.push([self.token_ids[-1], *closing[:_CLOSING_TOKENS_MAX]])
            self._compute(sequence)
            self._capture(sequence)

    @property
    def _keeps_checkpoints(self) -> bool:
        budget = self._session.committed.checkpoints.budget
        return bool(budget.count and budget.size_bytes)

    def _capture(self, sequence: Sequence) -> None:
        """Freeze the sequence, which is at rest; what has no room would only be thrown away."""
        if self._keeps_checkpoints:
            # Answers do not depend on checkpoints: without memory for one, the request goes on.
            with suppress(MemoryError, MemoryRefusedError):
                # Each answer begins at the beginning of its own schema.
                self._captured.append(sequence.snapshot().unbound())
        # Another thread may have closed the request just before.
        self._require_open()

    def _taken(self) -> list[Snapshot]:
        """Take what was captured; each snapshot comes to one of two threads that ask for it."""
        taken: list[Snapshot] = []
        with suppress(IndexError):
            while True:
                taken.append(self._captured.pop(0))
        return taken

    def _look_at_clock(self) -> None:
        if self._clock_ns is not None:
            self._times_ns.append(self._clock_ns())

    def _computed(self) -> Sequence:
        """Return the sequence of an open request that has chosen a token."""
        self._require_open()
        if self._sequence is None:
            raise ObjectClosedError("request")
        return self._sequence

    def _require_open(self) -> None:
        if self._is_closed:
            raise ObjectClosedError("request")

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("request", "make it again")
