"""What a sequence holds between runs: its tokens, where it stands, and the memory of its states."""

from array import array
from dataclasses import dataclass
from typing import Self

from sslm.errors.base import SslmError
from sslm.errors.binding import SchemaDeadEndError
from sslm.errors.runtime import (
    ChoiceUnfinishedError,
    ContextLengthError,
    KvPoolExhaustedError,
    NothingChosenError,
    NumericStepRefusedError,
    OptionRangeError,
    SequenceBusyError,
    SequenceInterruptedError,
)
from sslm.errors.showing import int_range
from sslm.memory import mapped_memory, zeroed_memory
from sslm.numerics.digests import first_link
from sslm.program.program import Program
from sslm.program.sequence_data import (
    NONE_ALLOWED,
    NOT_SCORED,
    SCORE_REFUSED,
    SequenceData,
    SequenceStruct,
)
from sslm.program.spans import SequenceMemory, Span
from sslm.program.states import PAGE_TOKENS
from sslm.runtime.sequences.kv_pool import KvPool, PageHold, page_count_for
from sslm.runtime.sequences.options import SequenceOptions, buffer_sizes_bytes
from sslm.runtime.sequences.schema_binding import Binding, Place
from sslm.schema.tokens.bound_schema import START

_NO_PAGE = -1
_ZEROS = bytes(4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Rows that go through the segments together, and how far they are.

    The span's logits, selected ids and trace are valid until the sequence begins another chunk.
    """

    span: Span
    next_segment: int
    stop_segment: int

    @property
    def has_logits(self) -> bool:
        """Whether any row is scored."""
        return self.span.first_logits_row < self.span.row_count


class SequenceState:
    """The state of one sequence. Nothing here minds threads; :class:`Sequence` does.

    Tokens and counters lie in one plain struct, so that a plan takes a step without asking back.
    It is changed in one piece, so that an interrupt leaves what was before a call or what comes
    after it. Where memory changes with it piece by piece, a flag is set meanwhile.

    Args:
        program: What computes it.
        pool: Where its pages come from.
        model_id: 32 bytes; where its chain of digests begins.
        options: What it is made for.

    Attributes:
        data: The struct, and the buffers that it points to.
        hold: Its pages, in the order of their positions.
        is_emptying: Whether the memory of a sequence without tokens may be another's.

    Raises:
        OptionRangeError: If ``context_tokens`` is beyond the program's positions, or the pool was
            made for other states.
        KvPoolExhaustedError: If the pool cannot hold what is reserved; nothing was taken.
        MemoryRefusedError: If the system has no memory for the buffers; nothing was taken.
    """

    def __init__(
        self, program: Program, pool: KvPool, model_id: bytes, options: SequenceOptions
    ) -> None:
        longest = program.max_position_embeddings
        if options.context_tokens > longest:
            found = str(options.context_tokens)
            raise OptionRangeError("context_tokens", found, int_range(1, longest))
        layout = program.state_layout
        if pool.layout != layout:
            found = f"for pages of {pool.layout.page_size_bytes} bytes of another model's states"
            raise OptionRangeError("pool", found, f"{layout.page_size_bytes} bytes of this model's")
        self.program = program
        self.options = options
        self.model_id = model_id
        self.layout = layout
        self.data = _sequence_data(program, pool, options)
        self.memory = self.data.memory
        self._listed_count = 0
        self.is_emptying = False
        self._empty()
        # After the buffers, so that a lack of memory for them leaves no pages taken.
        self.hold = pool.hold()
        try:
            self.hold.take(options.reserved_page_count)
            self.list_pages()
        except BaseException:
            # The error's traceback would hold them.
            self.hold.release()
            raise

    def _empty(self) -> None:
        """Become what a fresh sequence is, pages and states left aside."""
        struct = self.data.staged()
        struct.pending_count = struct.is_in_flight = struct.computed_count = 0
        struct.selected = NOT_SCORED
        struct.is_rescoring = False
        struct.link[:] = first_link(self.program.arithmetic_version, self.model_id)
        struct.layers_run = struct.chunk_count = struct.last_row = struct.is_decoding = 0
        struct.forced_count = struct.is_used = False
        begin_answer(struct, struct.first_allowed)
        self.data.become(struct)

    def list_pages(self) -> None:
        """Write the page table; where there is no page yet, an index that no run accepts.

        Takes no memory: the pages have been taken, and a table without them would be wrong.
        """
        table, pages = self.memory.pages, self.hold.pages
        for index, page in enumerate(pages):
            table[index] = page
        for index in range(len(pages), len(table)):
            table[index] = _NO_PAGE
        self._listed_count = len(pages)

    @property
    def position(self) -> int:
        """How many positions are computed."""
        return int(self.data.struct.computed_count)

    @property
    def pending_count(self) -> int:
        """How many admitted tokens are not computed yet."""
        return int(self.data.struct.pending_count) + self.data.in_flight_count

    @property
    def token_count(self) -> int:
        """Tokens of all kinds: computed, in flight and pending."""
        return self.position + self.pending_count

    @property
    def has_work(self) -> bool:
        """Whether there is anything to compute: tokens, or a last position to be scored again."""
        return bool(self.pending_count or self.data.struct.is_rescoring)

    @property
    def selected(self) -> int | None:
        """The token chosen after the last position; -1 if none was allowed, -3 if none could be.

        None if it was not scored.
        """
        selected = int(self.data.struct.selected)
        return None if selected == NOT_SCORED else selected

    @property
    def binding(self) -> Binding | None:
        """The schema that the answer follows, or None."""
        owner = self.data.mask_owner
        # Nothing else is ever put there.
        return owner if isinstance(owner, Binding) else None

    @property
    def place(self) -> Place:
        """Where the answer stands behind all admitted tokens."""
        struct = self.data.struct
        return Place(struct.schema_state, struct.content_count)

    # Admission.

    def room(self, count: int) -> tuple[int, ContextLengthError | KvPoolExhaustedError | None]:
        """Take the pages of *count* more tokens, or of as many as there is room for.

        Returns:
            How many fit, and why no more do, or None.
        """
        needed = self.token_count + count
        longest = self.options.context_tokens
        refusal: ContextLengthError | KvPoolExhaustedError | None = None
        if needed > longest:
            refusal = self.program.too_long(needed, longest)
        missing = page_count_for(min(needed, longest)) - len(self.hold.pages)
        if missing > 0:
            taken = self.hold.take_free(missing)
            if taken < missing:
                refusal = KvPoolExhaustedError(missing, taken)
        self._list_new_pages()
        held = min(longest, len(self.hold.pages) * PAGE_TOKENS)
        return min(count, held - self.token_count), refusal

    def require_room(self, count: int) -> None:
        """Take the pages of *count* more tokens.

        Raises:
            ContextLengthError, KvPoolExhaustedError: If they do not fit; nothing was taken.
        """
        needed = self.token_count + count
        if needed > self.options.context_tokens:
            raise self.program.too_long(needed, self.options.context_tokens)
        missing = page_count_for(needed) - len(self.hold.pages)
        if missing > 0:
            self.hold.take(missing)
        self._list_new_pages()

    def _list_new_pages(self) -> None:
        # Also those that were taken by a call which an interrupt has cut short.
        if len(self.hold.pages) != self._listed_count:
            self.list_pages()

    def admit(
        self,
        ids: "array[int] | memoryview",
        *,
        place: Place | None = None,
        forced_count: int = 0,
    ) -> None:
        """Queue int32 ids for which there is room. The token chosen before is forgotten.

        Args:
            ids: Perhaps none, which is a use of the sequence all the same.
            place: Where the answer stands behind them; None if they are none of a schema's content.
            forced_count: How many of them were not chosen, as a schema's content.
        """
        struct, end = self.data.staged(), self.token_count
        struct.is_used = True
        if ids:
            self.data.token_ids[end : end + len(ids)] = ids
            struct.is_decoding = struct.selected >= 0 and len(ids) == 1
            struct.pending_count += len(ids)
            struct.selected = NOT_SCORED
            if struct.is_rescoring:
                # Nobody will go on with the last position's token.
                struct.is_rescoring = struct.is_in_flight = False
        if place is not None and (binding := self.binding) is not None:
            struct.forced_count += forced_count
            struct.schema_state, struct.content_count = place.state, place.token_count
            struct.span.allowed = binding.mask_address(place, struct.span.allowed)
        self.data.become(struct)

    def chosen(self) -> int:
        """Return the token that was chosen.

        Raises:
            SequenceBusyError: If tokens are pending.
            ChoiceUnfinishedError: If the last position is to be scored again first.
            NumericStepRefusedError: If its logits are beyond what the choice can compare.
            SchemaDeadEndError: If the schema lets none follow.
            NothingChosenError: If there is none.
        """
        if self.pending_count:
            raise SequenceBusyError(self.pending_count, "none: advance it first")
        if self.data.struct.is_rescoring:
            raise ChoiceUnfinishedError(self.position - 1)
        if self.selected == SCORE_REFUSED:
            raise NumericStepRefusedError(self.position - 1)
        if self.selected == NONE_ALLOWED and self.binding is not None:
            is_complete = self.binding.schema.is_accepting(self.place.state)
            raise SchemaDeadEndError(self.position - 1, "is" if is_complete else "is not")
        if self.selected is None or self.selected < 0:
            raise NothingChosenError(self.position)
        return self.selected

    # Chunks.

    def require_work(self) -> None:
        """Raise SequenceBusyError if there is nothing to compute."""
        if not self.has_work:
            raise SequenceBusyError(0, "at least 1: push some first")

    def limit_chunk(self, rows: int | None) -> None:
        """Let the next chunk have at most *rows* rows, or as many as the sequence is made for."""
        most = self.options.chunk_tokens
        self.data.struct.chunk_tokens = most if rows is None else min(rows, most)

    @property
    def stage(self) -> int:
        """The segment that runs next."""
        struct = self.data.struct
        if struct.is_in_flight:
            return int(struct.next_segment)
        return self.program.first_head_index if struct.is_rescoring else 0

    @property
    def next_row_count(self) -> int:
        """Rows of the chunk in progress, or of the next one."""
        struct = self.data.struct
        if struct.is_rescoring:
            return 1
        return self.data.in_flight_count or min(struct.pending_count, struct.chunk_tokens)

    def last_chunk(self) -> Chunk:
        """Return the chunk in progress, or the one that came to its end last."""
        struct = self.data.struct
        return Chunk(
            span=self.data.span(),
            next_segment=struct.next_segment,
            stop_segment=struct.stop_segment,
        )

    # Becoming fresh, which changes memory piece by piece.

    def settle(self) -> None:
        """Come to rest after an interrupt.

        Raises:
            SequenceInterruptedError: If struct and memory do not agree.
        """
        # With tokens, it had not begun yet, or had become another sequence already.
        if self.is_emptying and self.token_count == 0:
            self.forget()
        self.is_emptying = False
        if self.data.is_torn:
            raise SequenceInterruptedError("sequence", "reset it, or close it")

    def forget(self) -> None:
        """Become a sequence without tokens and pages, which nothing can keep from happening."""
        self.is_emptying = True
        self._empty()
        self.hold.keep_own(0)
        self._clear_states()

    def reset(self) -> None:
        """Become a fresh sequence.

        Raises:
            KvPoolExhaustedError: If shared pages were among those reserved and there are too few
                free ones in their place; nothing has changed.
        """
        before, was_emptying = self.data.staged(), self.is_emptying
        self.is_emptying = True
        self._empty()
        try:
            self.hold.keep_own(self.options.reserved_page_count)
        except (SslmError, MemoryError):
            self.data.become(before)
            self.is_emptying = was_emptying
            raise
        self._clear_states()

    def _clear_states(self) -> None:
        # In small steps, as the system may refuse as many zeros as there are states.
        for buffer in (self.memory.fixed, self.memory.saturations):
            for at in range(0, buffer.nbytes, len(_ZEROS)):
                part = buffer[at : at + len(_ZEROS)]
                part[:] = _ZEROS[: part.nbytes]
        self.list_pages()
        self.data.is_torn = self.is_emptying = False

    def release(self) -> None:
        """Give the pages back, and drop what is pending."""
        self.hold.release()
        _drop_work(self.data)

    def left(self, hold: PageHold) -> Self:
        """Return what is left to see once others alone have the memory, or nobody.

        Args:
            hold: A hold of no pages.
        """
        # Not by the copy module, which imports another one, even while the interpreter ends.
        left = object.__new__(type(self))
        left.__dict__.update(self.__dict__)
        left.hold, left.data = hold, self.data.seen()
        left.memory = left.data.memory
        _drop_work(left.data)
        return left


def begin_answer(struct: SequenceStruct, first_allowed: int | None) -> None:
    """Let the answer of a staged struct stand before its first token."""
    struct.span.allowed = first_allowed
    struct.schema_state, struct.content_count = START, 0


def _drop_work(data: SequenceData) -> None:
    struct = data.struct
    struct.pending_count = struct.is_in_flight = struct.is_rescoring = 0


def _sequence_data(program: Program, pool: KvPool, options: SequenceOptions) -> SequenceData:
    sizes = buffer_sizes_bytes(program, options)
    rows, scores, filling = (sizes.pop(name) for name in ("residual", "logits", "filling"))
    # What runs alone need lies in one block; the rest outlives a sequence.
    if filling:
        block = mapped_memory(rows + scores, "a sequence", is_whole=True)
    else:
        block = zeroed_memory(rows + scores, "a sequence")
    buffers = {name: zeroed_memory(size, "a sequence") for name, size in sizes.items()}
    memory = SequenceMemory(
        pool=pool.memory,
        pages=buffers["pages"].cast("i"),
        fixed=buffers["fixed"],
        residual=block[:rows],
        saturations=buffers["saturations"],
        digests=buffers["digests"],
    )
    return SequenceData(
        program=program,
        memory=memory,
        token_ids=buffers["token_ids"].cast("i"),
        logits=block[rows:],
        selected=buffers["selected"],
        logit_exponents=buffers["logit_exponents"],
        choice_scratch=buffers["choice_scratch"],
        trace=buffers["trace"] if options.is_traced else None,
        chunk_tokens=options.chunk_tokens,
        has_all_logits=options.has_all_logits,
    )
