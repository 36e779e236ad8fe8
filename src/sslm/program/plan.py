"""What a backend offers: a program compiled into a plan that runs spans."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sslm.program.program import Program
from sslm.program.sequence_data import SequenceData
from sslm.program.slice_time import SliceTime
from sslm.program.spans import Span
from sslm.program.tensors import Tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProbs:
    """Natural logarithms of probabilities, with ``SCORE_BITS`` fraction bits; none is above 0.

    Args:
        values: Those that were asked for; None of an id that has no logit.
        top: The likeliest ids with theirs, equal ones by id.
    """

    values: tuple[int | None, ...]
    top: tuple[tuple[int, int], ...]


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
        sequences: Sequence[SequenceData],
        *,
        budget_units: int,
        row_count_max: int,
        time: SliceTime | None = None,
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
