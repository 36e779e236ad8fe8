"""Single steps of decode, each at the place where it was before."""

import time
from collections.abc import Callable

from sslm.closing import Closing
from sslm.opening.runner import ALL_UNITS, open_backend
from sslm.program.program import Program
from sslm.program.spans import CHUNK_ROWS_MAX
from sslm.program.tensors import Tensors
from sslm.runtime.sequences.kv_pool import KvPool, page_count_for
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance, finished


class Steps(Closing):
    """A compiled program, whose sequences decode on request; a context manager.

    Args:
        program: What to run.
        tensors: Its tensors.
        tier: A CPU tier, or ``auto``.
        threads: How many compute. With one, times are those of the CPU, to which a busy machine
            adds less; with more they are those of the clock.
        context_tokens: The longest sequence.
    """

    def __init__(
        self, program: Program, tensors: Tensors, *, tier: str, threads: int, context_tokens: int
    ) -> None:
        backend = open_backend("native", tier=tier, threads=threads)
        self.tier = backend.tier
        self.program = program
        self._clock = time.process_time_ns if threads == 1 else time.perf_counter_ns
        self._plan = backend.compile(
            program, tensors, row_count_max=CHUNK_ROWS_MAX, context_tokens=context_tokens
        )

    def sequence(self, depth: int, *, room: int = 1) -> Sequence:
        """Return a sequence that holds *depth* tokens, and has room for some more."""
        context_tokens = depth + room
        pool = KvPool(self.program.state_layout, page_count_for(context_tokens))
        options = SequenceOptions(context_tokens=context_tokens)
        sequence = Sequence(self.program, pool, bytes(32), options)
        if depth:
            self.take_in(sequence, depth)
        return sequence

    def take_in(self, sequence: Sequence, count: int) -> int:
        """Take in *count* tokens; return the nanoseconds that it took."""
        sequence.push([(7919 * index + 13) % self.program.vocab_size for index in range(count)])
        started = self._clock()
        while sequence.has_work:
            self._advance([sequence])
        return self._clock() - started

    def step(self, sequences: list[Sequence]) -> int:
        """Choose one token of each sequence, forget it, and return the nanoseconds that it took."""
        depths = [sequence.position for sequence in sequences]
        for sequence in sequences:
            sequence.push([1])
        started = self._clock()
        self._advance(sequences)
        elapsed = self._clock() - started
        for sequence, depth in zip(sequences, depths, strict=True):
            sequence.state.data.struct.computed_count = depth
        return elapsed

    def timed(self, action: Callable[[], object]) -> int:
        """Return the nanoseconds of something else, by the same clock."""
        started = self._clock()
        action()
        return self._clock() - started

    def _advance(self, sequences: list[Sequence]) -> None:
        finished(
            advance(self._plan, sequences, budget_units=ALL_UNITS, row_count_max=CHUNK_ROWS_MAX)
        )

    def close(self) -> None:
        """Release the plan."""
        self._plan.close()
