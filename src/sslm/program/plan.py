"""What a backend offers: a program compiled into a plan that runs spans."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sslm.program.choice_data import ChoiceData
from sslm.program.program import Program
from sslm.program.tensors import Tensors

if TYPE_CHECKING:
    from sslm.program.sequence_data import SequenceData
    from sslm.program.slice_time import SliceTime

CHUNK_ROWS_MAX = 64
"""Rows of one span in one run: a budget unit is a layer of at most this many rows."""
DIGEST_SIZE_BYTES = 32
NOT_ALLOWED = -(1 << 63)
"""The logit of an id that a span does not allow: below every other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProbs:
    """Natural logarithms of probabilities, with ``SCORE_BITS`` fraction bits; none is above 0.

    Args:
        values: Those that were asked for; None of an id that has no logit.
        top: The likeliest ids with theirs, equal ones by id.
    """

    values: tuple[int | None, ...]
    top: tuple[tuple[int, int], ...]


def allowed_size_bytes(token_count: int) -> int:
    """Return the bytes of the mask of a span's allowed ids."""
    return (token_count + 31) // 32 * 4


@dataclass(slots=True, kw_only=True)
class SequenceMemory:
    """The memory of one sequence that plans read and write. All buffers belong to the caller.

    Args:
        pool: The pool's pages, one after the other, each ``page_size_bytes`` of the layout.
        pages: int32 indices into the pool; page i holds positions 64 i … 64 i + 63.
        fixed: The fixed states, ``fixed_size_bytes`` of the layout.
        residual: int32 [CHUNK_ROWS_MAX, hidden_size]; carries a chunk between segments.
        saturations: int64 counters by ``SaturationSite``.
        digests: 32 bytes per row of the chunk: d[p, L], written by the last layer.
    """

    pool: memoryview
    pages: memoryview
    fixed: memoryview
    residual: memoryview
    saturations: memoryview
    digests: memoryview


@dataclass(slots=True, kw_only=True)
class Trace:
    """Digests of every segment, on request.

    Args:
        segments: 32 bytes per segment (embed, then layers) and row: [L + 1][rows][32].
    """

    segments: memoryview


@dataclass(slots=True, kw_only=True)
class Span:
    """Consecutive positions of one sequence that a run computes together.

    Args:
        memory: The sequence.
        first_position: Position of the first row.
        token_ids: int32, one id per row; at most CHUNK_ROWS_MAX.
        first_logits_row: Rows from here on get logits; the count of rows means none.
        logits: int64 [rows with logits, vocab_size], written by the head segments.
        selected: int32 [rows with logits], written by the select segment; -1 if no id is allowed.
        trace: Where to write every segment's digests, or None.
        adapter_slot: Which adapter applies; 0 is none.
        is_prefill: Whether the ids were given, and are not the one chosen before: work may be
            shared in other parts, to the same bits.
        allowed: uint32 [token_count / 32, rounded up], bit i % 32 of word i / 32 for token id i:
            those that may be chosen, in all rows; None is all. The logits of others become
            ``NOT_ALLOWED``. Native tiers read the head in panels of 16 ids, and skip those
            without an allowed one.
        logit_exponents: int32 [rows with logits], written by the head segments with the logits:
            each stands for itself times two to this. None where nobody asks for more than the
            largest.
        choice: How ids are chosen, which needs the exponents unless it is plain; None takes the
            largest logit.
    """

    memory: SequenceMemory
    first_position: int
    token_ids: memoryview
    first_logits_row: int
    logits: memoryview | None = None
    selected: memoryview | None = None
    trace: Trace | None = None
    adapter_slot: int = field(default=0)
    is_prefill: bool = False
    allowed: memoryview | None = None
    logit_exponents: memoryview | None = None
    choice: ChoiceData | None = None

    @property
    def row_count(self) -> int:
        """Rows of the span."""
        return len(self.token_ids)


class Plan(Protocol):
    """A program compiled for one backend, bound to its tensors."""

    @property
    def program(self) -> Program:
        """The program that was compiled."""

    @property
    def scratch_size_bytes(self) -> int:
        """Memory that the plan holds for itself, weights not included."""

    def run(
        self,
        first: int,
        last: int,
        spans: Sequence[Span],
        *,
        cancel: memoryview | None = None,
    ) -> None:
        """Run segments first … last - 1 over the rows of all spans.

        Each span continues where its sequence stands: the residual holds what segment
        ``first - 1`` left. No row depends on another span.

        Args:
            first: Index of the first segment.
            last: One past the last.
            spans: What to compute.
            cancel: One int32, polled: the run stops soon after another thread sets it.

        Raises:
            SegmentRangeError: If first … last is not a range of segments.
            RunCancelledError: If *cancel* was set; no residual, fixed state or counter has changed.
        """

    def advance(
        self,
        sequences: "Sequence[SequenceData]",
        *,
        budget_units: int,
        row_count_max: int,
        time: "SliceTime | None" = None,
        cancel: memoryview | None = None,
    ) -> None:
        """Run a slice of every sequence's next chunk.

        Chunks are begun where none is in progress, and sequences that stand at the same segment run
        together. ``progress`` of each struct says afterwards what was done with it.

        Args:
            sequences: Each once, each with a chunk in progress, something pending, or a last
                position that is to be scored again.
            budget_units: At least 1: layers, or blocks of the head, of every chunk.
            row_count_max: Rows of one run, at least those of any chunk and at most what the plan
                was compiled for.
            time: Ends the slice behind one of its units, and learns what they took; None reads no
                clock.
            cancel: As for :meth:`run`.

        Raises:
            SslmError: What a run raised. Its sequences, and those whose turn would have come after
                it, stand where they stood.
        """

    def logprobs(
        self, logits: memoryview, exponent: int, token_ids: Sequence[int], *, top_count: int = 0
    ) -> LogProbs:
        """Return the log-probabilities of some ids, and the likeliest ids with theirs.

        Those of exact logits: no bias, penalty or temperature changes them. Ids that a span did not
        allow have none, and the others are among themselves.

        Args:
            logits: int64 [vocab_size], one row as a run wrote it.
            exponent: A logit stands for itself times two to this: of ``Span.logit_exponents``.
            token_ids: Whose are asked for.
            top_count: How many of the likeliest are; few, as they are sorted one by one.

        Raises:
            LogitRangeError: If the largest logit is beyond what a score can be.
            OpShapeError: If there are fewer logits than ids, or an id is not the vocabulary's.
        """

    def close(self) -> None:
        """Release what the plan holds; it cannot run afterwards."""


class Backend(Protocol):
    """A way to run programs."""

    @property
    def name(self) -> str:
        """``reference`` or ``native``."""

    @property
    def tier(self) -> str:
        """The CPU tier in use, as ``doctor`` lists it."""

    def scratch_size_bytes(
        self, program: Program, tensors: Tensors, *, row_count_max: int, context_tokens: int
    ) -> int:
        """Return what the plan would hold for itself; takes and raises what :meth:`compile` does.

        Nothing of that size is allocated, and no thread is started.
        """

    def compile(
        self,
        program: Program,
        tensors: Tensors,
        *,
        row_count_max: int,
        context_tokens: int,
        memory: object = None,
    ) -> Plan:
        """Bind a program to its tensors.

        Args:
            program: What to run.
            tensors: Every tensor that the program names.
            row_count_max: The largest sum of rows that one run will have.
            context_tokens: Positions stay below; at most the program's max_position_embeddings.
            memory: What the plan holds for itself lies here: a buffer of the caller's with
                :meth:`scratch_size_bytes` bytes or more, see
                :class:`sslm.program.lent_memory.LentMemory`. None takes memory of the plan's own.

        Raises:
            OptionRangeError, MemoryTooSmallError, MisalignedMemoryError, MemoryInUseError: If
                *memory* cannot be used.
            ProgramArithmeticError: If the program is for another arithmetic than ``int/1``, 1.
            TensorMissingError: If a tensor is not there.
            TensorShapeError: If one has another shape or encoding than the program says.
        """
