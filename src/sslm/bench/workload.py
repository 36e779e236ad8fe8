"""Sequences that compute the same tokens repeatedly."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sslm.bench.cases import Case
from sslm.opening.runner import Runner
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence


class Workload:
    """The sequences of one case; each repetition begins where they stood at first.

    Their digests mean nothing, as positions are computed over and over.

    Args:
        runner: Of the model.
        case: What to do.
        sequences: Fresh, one for each of the batch.
    """

    def __init__(self, runner: Runner, case: Case, sequences: list[Sequence]) -> None:
        self._runner = runner
        self._case = case
        self._sequences = sequences
        self._fill()

    def repeat(self) -> int:
        """Compute the case's tokens once more and return the nanoseconds that it took."""
        for sequence in self._sequences:
            # What lies behind in the pages is written again before it is read.
            sequence.state.data.struct.computed_count = self._case.depth
        started_ns = time.perf_counter_ns()
        if self._case.kind == "prompt":
            self._take_in(self._sequences, self._case.depth, self._case.tokens)
        else:
            self._choose(self._case.tokens)
        return time.perf_counter_ns() - started_ns

    def _fill(self) -> None:
        """Compute what the sequences hold before; once, as it is the same for all."""
        first, *others = self._sequences
        self._take_in([first], 0, self._case.depth)
        for other in others:
            other.memory.pool[:] = first.memory.pool
            other.state.data.token_ids[: first.position] = first.state.data.token_ids[
                : first.position
            ]
            other.state.data.struct.computed_count = first.position

    def _take_in(self, sequences: list[Sequence], first_position: int, count: int) -> None:
        ids = self._ids(first_position, count)
        for sequence in sequences:
            sequence.push(ids)
        while sequences[0].has_work:
            self._runner.advance(sequences)

    def _choose(self, count: int) -> None:
        chosen = [self._ids(self._case.depth, 1)] * len(self._sequences)
        for _ in range(count):
            for sequence, ids in zip(self._sequences, chosen, strict=True):
                sequence.push(ids)
            self._runner.advance(self._sequences)
            chosen = [[sequence.selected or 0] for sequence in self._sequences]

    def _ids(self, first_position: int, count: int) -> list[int]:
        """Return ids that are spread over the vocabulary, the same ones every time."""
        vocab_size = self._runner.program.token_count
        return [(7919 * (first_position + index) + 13) % vocab_size for index in range(count)]


@contextmanager
def workload(runner: Runner, case: Case) -> Iterator[Workload]:
    """Make the sequences of a case; they are gone afterwards."""
    options = SequenceOptions(context_tokens=case.context_tokens)
    with ExitStack() as stack:
        sequences = [stack.enter_context(runner.sequence(options)) for _ in range(case.batch)]
        yield Workload(runner, case, sequences)
