"""A sequence as plain data, which Python and C read and write alike."""

import ctypes
from typing import Any, Final, Protocol, Self

from sslm.program.choice import Choice
from sslm.program.choice_data import ChoiceData
from sslm.program.program import Program
from sslm.program.spans import DIGEST_SIZE_BYTES, SequenceMemory, Span, Trace, allowed_size_bytes

NONE_ALLOWED: Final = -1
"""The selected id where a mask allowed none."""
NOT_SCORED: Final = -2
"""The selected id of a sequence whose last position was not scored."""
SCORE_REFUSED: Final = -3
"""The selected id where the largest logit is beyond what a score can be."""

STAYED: Final = 0
"""A slice that did not run: the sequence stands where it stood."""
MOVED: Final = 1
"""A slice that ran some segments of the chunk."""
ENDED: Final = 2
"""A slice that came to the end of the chunk."""


class SpanStruct(ctypes.Structure):
    """``sslm_span`` of sslm_native.h."""

    _fields_ = (
        ("pool", ctypes.c_void_p),
        ("pages", ctypes.c_void_p),
        ("fixed", ctypes.c_void_p),
        ("residual", ctypes.c_void_p),
        ("saturations", ctypes.c_void_p),
        ("digests", ctypes.c_void_p),
        ("trace", ctypes.c_void_p),
        ("token_ids", ctypes.c_void_p),
        ("logits", ctypes.c_void_p),
        ("selected", ctypes.c_void_p),
        ("allowed", ctypes.c_void_p),
        ("logit_exponents", ctypes.c_void_p),
        ("choice", ctypes.c_void_p),
        ("pool_page_count", ctypes.c_int64),
        ("table_page_count", ctypes.c_int64),
        ("first_position", ctypes.c_int64),
        ("row_count", ctypes.c_int32),
        ("first_logits_row", ctypes.c_int32),
        ("is_prefill", ctypes.c_int32),
    )


class SequenceStruct(ctypes.Structure):
    """``sslm_sequence`` of sslm_native.h."""

    _fields_ = (
        ("span", SpanStruct),
        ("token_ids", ctypes.c_void_p),
        ("first_allowed", ctypes.c_void_p),
        ("layers_run", ctypes.c_int64),
        ("chunk_count", ctypes.c_int64),
        ("computed_count", ctypes.c_int32),
        ("pending_count", ctypes.c_int32),
        ("chunk_tokens", ctypes.c_int32),
        ("has_all_logits", ctypes.c_int32),
        ("is_decoding", ctypes.c_int32),
        ("is_in_flight", ctypes.c_int32),
        ("is_rescoring", ctypes.c_int32),
        ("next_segment", ctypes.c_int32),
        ("stop_segment", ctypes.c_int32),
        ("selected", ctypes.c_int32),
        ("last_row", ctypes.c_int32),
        ("progress", ctypes.c_int32),
        ("is_used", ctypes.c_int32),
        ("forced_count", ctypes.c_int32),
        ("content_count", ctypes.c_int32),
        ("schema_state", ctypes.c_uint32),
        ("link", ctypes.c_uint8 * DIGEST_SIZE_BYTES),
    )


_Whole = ctypes.c_char * ctypes.sizeof(SequenceStruct)


class MaskOwner(Protocol):
    """What owns the masks that a struct points to."""

    @property
    def first_address(self) -> int:
        """Where the mask before an answer's first token lies; no other owner has one there."""
        raise NotImplementedError


class SequenceData:
    """The struct of one sequence with the buffers that it points to.

    Args:
        program: What computes it.
        memory: What its states lie in.
        token_ids: int32, one for each position of its context.
        logits: int64 [rows that may be scored, vocab_size].
        selected: int32, one for each such row.
        logit_exponents: int32, one for each such row; or nothing, where only the largest logit is
            ever chosen.
        choice_scratch: What choosing by scores needs; or nothing, in the same case.
        trace: Digests of a chunk's segments, or None.
        chunk_tokens: Most rows of a chunk, 1 … 64.
        has_all_logits: Whether every row is scored.

    Attributes:
        struct: What it is now. Token ids lie in order: computed, in the chunk, pending.
        is_torn: Whether its memory is being changed piece by piece, or was when an interrupt came,
            so that struct and memory may not agree.
    """

    def __init__(
        self,
        *,
        program: Program,
        memory: SequenceMemory,
        token_ids: memoryview,
        logits: memoryview,
        selected: memoryview,
        logit_exponents: memoryview,
        choice_scratch: memoryview,
        trace: memoryview | None,
        chunk_tokens: int,
        has_all_logits: bool,
    ) -> None:
        self.memory = memory
        self.token_ids = token_ids
        self.logits = logits
        self.selected = selected
        self.logit_exponents = logit_exponents
        self.choice_scratch = choice_scratch
        self.trace = trace
        self.is_torn = False
        self._vocab_size = program.vocab_size
        self._token_count = program.token_count
        self._mask_owners: tuple[MaskOwner, ...] = ()
        self._choices: tuple[ChoiceData, ...] = (self.bound(Choice(), answer_start=0),)
        page_size = program.state_layout.page_size_bytes
        self._trace_row_bytes = DIGEST_SIZE_BYTES * program.first_head_index
        self.struct = SequenceStruct(
            span=SpanStruct(
                pool=_address(memory.pool),
                pages=_address(memory.pages),
                fixed=_address(memory.fixed),
                residual=_address(memory.residual),
                saturations=_address(memory.saturations),
                digests=_address(memory.digests),
                trace=None if trace is None else _address(trace),
                token_ids=_address(token_ids),
                logits=_address(logits),
                selected=_address(selected),
                logit_exponents=_address(logit_exponents),
                pool_page_count=memory.pool.nbytes // max(page_size, 1),
                table_page_count=memory.pages.nbytes // 4,
            ),
            token_ids=_address(token_ids),
            chunk_tokens=chunk_tokens,
            has_all_logits=has_all_logits,
            selected=NOT_SCORED,
        )

    def staged(self) -> SequenceStruct:
        """Return a copy of the struct, for :meth:`become` after all of a change was written."""
        return SequenceStruct.from_buffer_copy(self.struct)

    def become(self, struct: SequenceStruct) -> None:
        """Take over a struct in one piece, which no interrupt cuts."""
        # A foreign call, such as memmove, says ArgumentError where memory is short.
        _Whole.from_address(self.address).raw = bytes(struct)

    def bound(self, choice: Choice, *, answer_start: int) -> ChoiceData:
        """Bind a choice to these tokens, for :meth:`become_choosing`."""
        return ChoiceData(
            choice,
            answer_start=answer_start,
            token_ids=self.token_ids,
            scratch=self.choice_scratch,
            vocab_size=self._vocab_size,
        )

    @property
    def choice(self) -> ChoiceData:
        """How it chooses: what the struct points to, which points to nothing if that is plain."""
        address = self.struct.span.choice
        return next(one for one in reversed(self._choices) if _chooser_address(one) == address)

    def become_choosing(self, struct: SequenceStruct, choice: ChoiceData) -> None:
        """Take over a struct that chooses otherwise, as :meth:`become` takes over any."""
        # Both live until the struct points to one of them for good.
        self._choices = (self.choice, choice)
        struct.span.choice = _chooser_address(choice)
        self.become(struct)
        self._choices = (choice,)

    @property
    def mask_owner(self) -> MaskOwner | None:
        """What owns the masks; None if any id may be chosen."""
        address = self.struct.first_allowed
        return next((one for one in self._mask_owners if one.first_address == address), None)

    def become_bound(
        self, struct: SequenceStruct, choice: ChoiceData, owner: MaskOwner | None
    ) -> None:
        """Take over a struct that chooses otherwise, and by masks of another owner, or by none."""
        self._mask_owners = tuple(one for one in (self.mask_owner, owner) if one is not None)
        struct.first_allowed = None if owner is None else owner.first_address
        self.become_choosing(struct, choice)
        self._mask_owners = () if owner is None else (owner,)

    def seen(self) -> Self:
        """Return ids, counts and a struct that stays as it is, for those who only look.

        What only runs need is not held: pages, rows and scores.
        """
        # Not by the copy module, which imports another one, even while the interpreter ends.
        seen = object.__new__(type(self))
        seen.__dict__.update(self.__dict__)
        seen.struct = self.staged()
        nothing = memoryview(b"")
        seen.logits = seen.selected = seen.logit_exponents = seen.choice_scratch = nothing
        choice = self.choice.without_scratch()
        seen._choices, seen.struct.span.choice = (choice,), _chooser_address(choice)
        seen.struct.span.allowed = None
        seen.trace = None
        seen.memory = SequenceMemory(
            pool=nothing,
            pages=nothing,
            fixed=nothing,
            residual=nothing,
            saturations=self.memory.saturations,
            digests=nothing,
        )
        return seen

    @property
    def address(self) -> int:
        """Where the struct lies, as long as this object lives."""
        return ctypes.addressof(self.struct)

    def token_address(self, position: int) -> int:
        """Return where the id of a position lies."""
        return int(self.struct.token_ids) + self.token_ids.itemsize * position

    @property
    def in_flight_count(self) -> int:
        """Tokens of the chunk in progress; one that is scored again is computed already."""
        struct = self.struct
        return int(struct.span.row_count) if struct.is_in_flight and not struct.is_rescoring else 0

    def span(self) -> Span:
        """Return the chunk in progress, or the last one, for a plan to run."""
        struct = self.struct.span
        first, rows = struct.first_position, struct.row_count
        trace = self.trace
        return Span(
            memory=self.memory,
            first_position=first,
            token_ids=self.token_ids[first : first + rows],
            first_logits_row=struct.first_logits_row,
            logits=self.logits,
            selected=self.selected,
            trace=None if trace is None else Trace(segments=trace[: rows * self._trace_row_bytes]),
            is_prefill=bool(struct.is_prefill),
            logit_exponents=self.logit_exponents if self.logit_exponents.nbytes else None,
            choice=self.choice if struct.choice else None,
            allowed=self._allowed(),
        )

    def _allowed(self) -> memoryview | None:
        address = self.struct.span.allowed
        if not address:
            return None
        mask: Any = (ctypes.c_uint8 * allowed_size_bytes(self._token_count)).from_address(address)
        # It lives as long as its owner, and that as long as whoever has the span.
        mask.owners = self._mask_owners
        return memoryview(mask).cast("B")


def _chooser_address(choice: ChoiceData) -> int | None:
    """Return what a span points to; a plain choice is made without scratch, by exact logits."""
    return None if choice.choice.is_plain else choice.address


def _address(buffer: memoryview) -> int | None:
    """Return where a writable buffer begins; it stays there as long as the view is held."""
    if buffer.nbytes == 0:
        return None
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
