"""One sequence: tokens pushed in, positions computed, a token chosen after the last one."""

from array import array
from collections.abc import Iterable
from collections.abc import Sequence as TokenIds
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn

from sslm.closing import Closing
from sslm.errors.runtime import (
    MemoryRefusedError,
    NotCopyableError,
    ObjectClosedError,
    SequenceInUseError,
)
from sslm.memory import LESS_CONTEXT
from sslm.numerics.digests import answer_digest
from sslm.program.choice import Choice
from sslm.program.ops import SaturationSite
from sslm.program.program import Program
from sslm.program.spans import SequenceMemory
from sslm.runtime.guards import OwningProcess, Turn, Turns
from sslm.runtime.sequences.choice import choose, require_choice, rescore
from sslm.runtime.sequences.kv_pool import KvPool, PageHold
from sslm.runtime.sequences.options import SequenceOptions, sequence_size_bytes
from sslm.runtime.sequences.schema_binding import Ending
from sslm.runtime.sequences.schema_steps import admit_chosen, admit_content, admit_some, bind
from sslm.runtime.sequences.snapshot import Snapshot, adopt, freeze, load
from sslm.runtime.sequences.state import Chunk, SequenceState
from sslm.runtime.sequences.token_ids import admissible_token_ids, checked_token_ids
from sslm.schema.tokens.bound_schema import BoundSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceStats:
    """What a sequence has done, and what it holds.

    Args:
        positions: Tokens that are computed.
        pending_tokens: Tokens that are admitted and not computed.
        layers_run: Layers that its chunks ran.
        layers_ceiling: What they will have run once nothing is pending.
        forced_tokens: Tokens that were taken in as a schema's content without being chosen.
        is_accepting: Whether a schema is bound, and the text may end where it is.
        resident_pages: Pages that it holds.
        shared_pages: Those of them that somebody else holds too.
        saturations: Values that had to be clamped, by site.
    """

    positions: int
    pending_tokens: int
    layers_run: int
    layers_ceiling: int
    forced_tokens: int
    is_accepting: bool
    resident_pages: int
    shared_pages: int
    saturations: dict[str, int]


class Use:
    """Who alone may use a sequence, until it ends the use or nobody has it any more.

    A context manager that ends the use with its block, and turns a MemoryError of the block into
    MemoryRefusedError.

    Attributes:
        state: Of the sequence. It lives as long as somebody has it, also if the sequence is closed
            meanwhile.
    """

    __slots__ = ("_turn", "state")

    def __init__(self, turn: Turn, state: SequenceState) -> None:
        self._turn = turn
        self.state = state

    def end(self) -> None:
        """Let other calls in again."""
        self._turn.leave()

    def __enter__(self) -> SequenceState:
        return self.state

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._turn.leave()
        if isinstance(error, MemoryError):
            size_bytes = sequence_size_bytes(self.state.program, self.state.options)
            raise MemoryRefusedError(
                "a copy of what a sequence has", size_bytes, LESS_CONTEXT
            ) from error


class Sequence(Closing):
    """Tokens pushed in, positions computed, a token chosen after the last one.

    A sequence is advanced by ``advance`` of the stepper. One call at a time may use it: another
    thread's, or a signal handler's, is refused with SequenceInUseError. Only :meth:`close` may come
    at any time. A process that a fork made cannot use it.

    An interrupt at any moment (KeyboardInterrupt) leaves it as it was before a call or as it is
    after it; pages that were reserved may then be taken again only as they are needed. The
    reference backend cannot promise that while it hands over what it computed: then everything but
    a reset and closing is refused with SequenceInterruptedError.

    Args:
        program: What computes it.
        pool: Where its pages come from.
        model_id: 32 bytes; where its chain of digests begins.
        options: What it is made for.

    Raises:
        OptionRangeError: If ``context_tokens`` is beyond the program's positions, or the pool was
            made for other states.
        KvPoolExhaustedError: If the pool cannot hold what is reserved; nothing was taken.
        MemoryRefusedError: If the system has no memory for its buffers; nothing was taken.
    """

    def __init__(
        self, program: Program, pool: KvPool, model_id: bytes, options: SequenceOptions
    ) -> None:
        self.program = program
        self.options = options
        self._owner = OwningProcess("sequence")
        self._turns = Turns()
        self._is_closed = False
        # Last, as what fails after it would leave its pages with the error's traceback.
        self.state = SequenceState(program, pool, model_id, options)
        """What is behind the guard; of whoever has begun to use the sequence."""

    # The guard.

    def begin_use(self, *, is_reset: bool = False) -> Use:
        """Keep every other call out until the use ends.

        Args:
            is_reset: Whether what an interrupt has left does not matter.

        Raises:
            ObjectClosedError: If the sequence is closed.
            SequenceInUseError: If another call uses it.
            SequenceInterruptedError: If an interrupt left it neither as it was nor as it should be.
            ForkedProcessError: If another process made the sequence.
        """
        self._owner.require()
        turn = self._turns.turn_at_once()
        try:
            # The state before the flag: who closes sets the flag first.
            state = self.state
            if self._is_closed:
                raise ObjectClosedError("sequence")
            if turn is None:
                raise SequenceInUseError("sequence")
            if not is_reset:
                state.settle()
            return Use(turn, state)
        except BaseException:
            if turn is not None:
                turn.leave()
            raise

    @property
    def is_closed(self) -> bool:
        """Whether the sequence was closed, perhaps while it is being computed."""
        return self._is_closed

    def close(self) -> None:
        """Give the pages back and drop what is pending; any thread may call this, and again.

        While another call uses the sequence, the memory is given back when that call ends; a run
        in progress has :class:`sslm.errors.runtime.SequenceReleasedError` as its outcome.
        """
        self._is_closed = True
        turn = self._turns.turn_at_once() if self._owner.is_here else None
        if turn is None:
            # The memory goes with the last one who uses it. That is also a call which an interrupt
            # has ended without its giving back the turn: it goes with the interrupt's traceback.
            self.state = self.state.left(PageHold(self.state.hold.pool))
        else:
            self.state.release()
            self.state = self.state.left(self.state.hold)
            turn.leave()

    # What there is to see.

    @property
    def token_ids(self) -> list[int]:
        """The ids of the computed positions."""
        return self.state.data.token_ids[: self.state.position].tolist()

    @property
    def selected(self) -> int | None:
        """The token chosen after the last position; -1 if none was allowed, -3 if none could be.

        None if it was not scored. :meth:`chosen` says by errors why there is none.
        """
        return self.state.selected

    @property
    def chunk(self) -> Chunk | None:
        """The chunk in progress, or None."""
        return self.state.last_chunk() if self.state.data.struct.is_in_flight else None

    @property
    def memory(self) -> SequenceMemory:
        """The memory that plans read and write."""
        return self.state.memory

    @property
    def position(self) -> int:
        """How many positions are computed."""
        return self.state.position

    @property
    def pending_count(self) -> int:
        """How many pushed tokens are not computed yet."""
        return self.state.pending_count

    @property
    def has_work(self) -> bool:
        """Whether there is anything to compute: tokens, or a last position to be scored again."""
        return self.state.has_work

    @property
    def choice(self) -> Choice:
        """How tokens are chosen; see :meth:`choose`."""
        return self.state.data.choice.choice

    @property
    def answer_start(self) -> int:
        """The position from which on tokens count as the answer's."""
        return self.state.data.choice.answer_start

    @property
    def digest(self) -> bytes:
        """The chain over all computed positions, 32 bytes."""
        return bytes(self.state.data.struct.link)

    def answer_digest(self, token_ids: TokenIds[int]) -> bytes:
        """Close the chain with an answer's token ids; 32 bytes."""
        return answer_digest(self.digest, token_ids)

    @property
    def saturations(self) -> dict[str, int]:
        """How many values had to be clamped so far, by site."""
        counts = self.state.memory.saturations.cast("q")
        return {site.name.lower(): counts[site] for site in SaturationSite}

    def stats(self) -> SequenceStats:
        """Return what the sequence has done and holds.

        Raises:
            ObjectClosedError: If the sequence is closed.
            SequenceInUseError: If another call uses it.
        """
        with self.begin_use() as state:
            hold, struct = state.hold, state.data.struct
            return SequenceStats(
                positions=self.position,
                pending_tokens=state.pending_count,
                layers_run=struct.layers_run,
                layers_ceiling=struct.chunk_count * self.program.layer_count,
                forced_tokens=state.data.struct.forced_count,
                is_accepting=state.binding is not None
                and state.binding.schema.is_accepting(state.place.state),
                resident_pages=len(hold.pages),
                shared_pages=len(hold.pages) - hold.own_count,
                saturations=self.saturations,
            )

    # What it can be told. Each raises what begin_use does, too, and MemoryRefusedError if the
    # system has no memory; then nothing has changed.

    def push(self, token_ids: Iterable[object]) -> None:
        """Queue tokens to compute. The token chosen before is forgotten, unless there are none.

        Raises:
            TokenIdTypeError: If one is not an integer; nothing was queued.
            TokenIdRangeError: If one is not in the vocabulary; nothing was queued.
            ContextLengthError: If they do not fit; nothing was queued.
            KvPoolExhaustedError: If the pool has no pages for them; nothing was queued.
        """
        with self.begin_use() as state:
            ids = array("i", checked_token_ids(token_ids, self.program))
            state.require_room(len(ids))
            state.admit(ids)

    def prefill(self, token_ids: Iterable[object]) -> int:
        """Queue tokens up to the first that cannot be taken in; return how many there are.

        Raises:
            TokenIdTypeError, TokenIdRangeError: If one is no id of the vocabulary.
            ContextLengthError: If they do not fit the context.
            KvPoolExhaustedError: If the pool has no pages for them. In each case the tokens before
                were queued, ``consumed_tokens`` of the error, and stay so.
        """
        with self.begin_use() as state:
            admissible, refusal = admissible_token_ids(token_ids, self.program)
            try:
                return admit_some(state, array("i", admissible), refusal)
            finally:
                # What a raised error holds must not hold the error.
                del refusal

    def choose(self, choice: Choice | None, answer_start: int = 0) -> None:
        """Choose tokens in another way from now on, the one after the last position included.

        If that was chosen in a way that may have taken another one, it is forgotten, and the next
        advance runs the head of the last position again; nothing else is computed, and no digest
        changes. A reset keeps the choice.

        Args:
            choice: How; None is plain greedy.
            answer_start: The position of the answer's first token, at most the context.

        Raises:
            OptionRangeError: If a number of the choice is out of its range, or it needs scores and
                the sequence was made without ``chooses``; nothing has changed.
        """
        with self.begin_use() as state:
            wanted = choice or Choice()
            require_choice(state, wanted, answer_start)
            choose(state, wanted, answer_start)

    def rescore(self) -> None:
        """Forget the token after the last position, if it was scored.

        The next advance runs the head there again, for whoever wants to see logits that were not
        saved; nothing else is computed, and the same token is chosen.
        """
        with self.begin_use() as state:
            rescore(state)

    def chosen(self) -> int:
        """Return the token that was chosen after the last position.

        Raises:
            SequenceBusyError: If tokens are pending.
            ChoiceUnfinishedError: If it is to be chosen again: advance first.
            NumericStepRefusedError: If the logits are beyond what the choice can compare; the
                sequence stays as it is, and may choose otherwise.
            NothingChosenError: If no token was chosen.
        """
        with self.begin_use() as state:
            return state.chosen()

    def decode(self) -> int:
        """Queue the token that was chosen; what is chosen behind it is the next one. Return it.

        Raises:
            SequenceBusyError, ChoiceUnfinishedError, NumericStepRefusedError, NothingChosenError:
                As :meth:`chosen` does.
            ContextLengthError, KvPoolExhaustedError: If there is no room; nothing was queued.
        """
        with self.begin_use() as state:
            return admit_chosen(state, 1)[0]

    def decode_span(self, most: int | None = None) -> list[int]:
        """Queue the token that was chosen, and with it those that alone may follow; return them.

        Token by token, :meth:`decode` comes to the same ones: where a schema leaves no choice,
        nothing has to be computed to know what is chosen. One that completes the answer is not
        among them, but chosen next.

        Args:
            most: How many, at least 1; None is as many as there are and there is room for.

        Raises:
            OptionRangeError: If *most* is below 1.
            SslmError: As :meth:`decode` does; nothing was queued.
        """
        with self.begin_use() as state:
            return admit_chosen(state, most).tolist()

    # What follows a schema.

    def bind(self, schema: BoundSchema | None, *, answer_tokens: int | None = None) -> None:
        """Let the answer follow a schema, from its first token on, or none; a reset keeps that.

        A sequence can be bound before anything else was done with it, or after a reset. Also a
        call that changed nothing, like a push of no tokens, is a use; one that was refused is none.

        Args:
            schema: Of the model's vocabulary.
            answer_tokens: Most tokens of the answer, at least ``schema.shortest``: then what could
                not be completed within them is not allowed. What ends it is not counted. None is
                any number.

        Raises:
            SchemaBindError: If the sequence was used.
            SchemaBudgetTokensError: If no answer has so few tokens.
            OptionRangeError: If the schema is of another vocabulary, or the sequence scores every
                row. In each case nothing has changed.
        """
        with self.begin_use() as state:
            bind(state, schema, answer_tokens)

    @property
    def schema(self) -> BoundSchema | None:
        """The schema that the answer follows, or None."""
        binding = self.state.binding
        return None if binding is None else binding.schema

    def ending_after(self, token_id: int) -> Ending | None:
        """Return why a schema would let no content follow a token, or None."""
        binding, place = self.state.binding, self.state.place
        if binding is None or token_id in binding.schema.end_ids:
            return None
        after = binding.after(place, token_id)
        current = self.state.data.struct.span.allowed
        return None if after is None else binding.ending(after, current)

    @property
    def is_answer_complete(self) -> bool:
        """Whether a schema is bound, and nothing but what ends the answer may follow."""
        state = self.state
        return state.binding is not None and state.binding.is_complete(state.place)

    def prefill_content(self, token_ids: Iterable[object]) -> int:
        """Queue tokens of the answer's content up to the first that cannot be taken in.

        Unlike the tokens of :meth:`prefill`, which are the prompt's, they lead the answer on.

        Raises:
            SchemaUnboundError: If no schema is bound; nothing was queued.
            SchemaSpanUnreachableError: If the schema does not take one of them there.
            TokenIdTypeError, TokenIdRangeError, ContextLengthError, KvPoolExhaustedError: As
                :meth:`prefill` does. In each case but the first the tokens before were queued,
                ``consumed_tokens`` of the error, and stay so.
        """
        with self.begin_use() as state:
            return admit_content(state, token_ids)

    def snapshot(self) -> Snapshot:
        """Freeze what the sequence is now, between two slices or at rest."""
        with self.begin_use() as state:
            return freeze(state)

    def adopt(self, snapshot: Snapshot, *, reserved_tokens: int = 0) -> None:
        """Continue from a snapshot, whose full pages are shared and whose tail is copied.

        Args:
            snapshot: What to continue from.
            reserved_tokens: Positions whose pages, those of the snapshot included, are taken along,
                where they are more than the sequence reserves anyway; at most the context.

        Raises:
            SequenceNotFreshError: If the sequence has tokens.
            SnapshotMismatchError: If the snapshot is of another model or pool, or follows another
                schema than this sequence.
            SchemaBudgetTokensError: If the answer could not be completed any more.
            ContextLengthError: If its tokens are more than the context.
            KvPoolExhaustedError: If the pool has too few pages for the rest; nothing has changed.
        """
        with self.begin_use() as state:
            adopt(state, snapshot, reserved_tokens=reserved_tokens)

    def load(
        self,
        snapshot: Snapshot,
        pages: TokenIds[bytes | memoryview],
        schema: BoundSchema | None = None,
    ) -> None:
        """Continue from a snapshot whose full pages are given as bytes, and were checked.

        It follows from now on what the snapshot follows, which is *schema*, or nothing.

        Raises:
            SequenceNotFreshError, SnapshotMismatchError, ContextLengthError, KvPoolExhaustedError:
                As :meth:`adopt` does; nothing has changed.
        """
        with self.begin_use() as state:
            load(state, snapshot, pages, schema)

    def reset(self) -> None:
        """Forget all tokens, from any state.

        Raises:
            KvPoolExhaustedError: If shared pages were among those reserved and there are too few
                free ones in their place; nothing has changed.
        """
        with self.begin_use(is_reset=True) as state:
            state.reset()

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("sequence", "push its token_ids to another one")
