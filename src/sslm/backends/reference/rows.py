"""The rows of one run: buffers by name, split by span."""

from collections.abc import Iterator, Sequence

import numpy as np

from sslm.backends.reference.sequence_states import SpanStates
from sslm.numerics.rounding import Int64Array, saturate
from sslm.program.buffers import Buffer
from sslm.program.ops import Linear, Logits, SaturationSite
from sslm.program.program import Program
from sslm.program.spans import Span


class Watcher:
    """Sees what a run computes; each method does nothing unless a subclass wants to know."""

    def stored(self, segment_index: int, buffer: Buffer, values: Int64Array) -> None:
        """See int64 [rows, width] of a saturating op before they are clamped."""

    def multiplied(self, op: Linear | Logits, codes: Int64Array, exponents: Int64Array) -> None:
        """See the input of a matrix: codes int64 [rows, in_features], exponents int64 [rows]."""


class Rows:
    """Buffers of a run; rows of all spans lie one after the other.

    Args:
        program: Names the residual, which is read from and written to each sequence.
        spans: What to run, at least one.
        watcher: Sees what the run computes.
    """

    def __init__(
        self, program: Program, spans: Sequence[Span], watcher: Watcher | None = None
    ) -> None:
        self.spans = spans
        self.segment_index = 0
        self._watcher = watcher or Watcher()
        counts = [span.row_count for span in spans]
        self.starts = [sum(counts[:index]) for index in range(len(counts) + 1)]
        self.states = [SpanStates(program.state_layout, span) for span in spans]
        self._residual = program.residual
        self._values: dict[str, Int64Array] = {}
        self._codes: dict[str, tuple[Int64Array, Int64Array]] = {}
        self._saturations = np.zeros((len(spans), len(SaturationSite)), dtype=np.int64)
        carried = [self._residual_of(span)[: span.row_count] for span in spans]
        self._values[program.residual.name] = np.concatenate(carried).astype(np.int64)

    @property
    def token_ids(self) -> list[int]:
        """Token id of every row."""
        return [token for span in self.spans for token in span.token_ids]

    @property
    def positions(self) -> Int64Array:
        """Position of every row in its sequence, int64 [rows]."""
        return np.concatenate(
            [span.first_position + np.arange(span.row_count) for span in self.spans]
        )

    def ranges(self) -> Iterator[tuple[int, int, SpanStates]]:
        """Yield the first and last + 1 row of each span, with its states."""
        for index, states in enumerate(self.states):
            yield self.starts[index], self.starts[index + 1], states

    def values(self, buffer: Buffer) -> Int64Array:
        """Return int64 [rows, width] of an int32 buffer."""
        return self._values[buffer.name]

    def codes(self, buffer: Buffer) -> tuple[Int64Array, Int64Array]:
        """Return codes [rows, width] and exponents [rows] of a codes buffer."""
        return self._codes[buffer.name]

    def multiply(self, op: Linear | Logits) -> tuple[Int64Array, Int64Array]:
        """Return the codes and exponents that a matrix multiplies."""
        codes, exponents = self.codes(op.source)
        self._watcher.multiplied(op, codes, exponents)
        return codes, exponents

    def set(self, buffer: Buffer, values: Int64Array) -> None:
        """Store values that already fit 32 bits."""
        self._values[buffer.name] = values

    def set_codes(self, buffer: Buffer, codes: Int64Array, exponents: Int64Array) -> None:
        """Store a codes buffer."""
        self._codes[buffer.name] = codes, exponents

    def put(self, buffer: Buffer, values: Int64Array, site: SaturationSite) -> None:
        """Saturate, store and count."""
        self._watcher.stored(self.segment_index, buffer, values)
        self._values[buffer.name], saturated = saturate(values)
        self.count(site, saturated)

    def count(self, site: SaturationSite, saturated: Int64Array) -> None:
        """Count int64 [rows] saturations for the rows' sequences; :meth:`commit` adds them."""
        for index in range(len(self.spans)):
            added = saturated[self.starts[index] : self.starts[index + 1]].sum()
            self._saturations[index, site] += added

    def commit(self) -> None:
        """Hand residual, fixed states and saturations back: a run that failed changed none."""
        residual = self.values(self._residual)
        for index, span in enumerate(self.spans):
            rows = residual[self.starts[index] : self.starts[index + 1]]
            self._residual_of(span)[: span.row_count] = rows
            counters = np.frombuffer(span.memory.saturations, dtype=np.int64)
            counters += self._saturations[index]
            self.states[index].commit()

    def _residual_of(self, span: Span) -> "np.ndarray[tuple[int, int], np.dtype[np.int32]]":
        flat = np.frombuffer(span.memory.residual, dtype=np.int32)
        return flat.reshape(-1, self._residual.width)
