"""Plans that walk a program op by op in NumPy."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sslm.backends.reference import kernels
from sslm.backends.reference.attention import attention
from sslm.backends.reference.checks import check_spans, check_tensors, require_row
from sslm.backends.reference.choosing import choose_after, logprobs
from sslm.backends.reference.panels import int32_values, panel_row, panel_rows
from sslm.backends.reference.rows import Rows, Watcher
from sslm.errors.native import RunCancelledError
from sslm.errors.program import (
    SegmentRangeError,
    TensorMissingError,
    TierUnavailableError,
)
from sslm.numerics.block_float import bfp16
from sslm.numerics.digests import segment_digest
from sslm.numerics.rounding import Int64Array, scale_shift
from sslm.program import ops
from sslm.program.plan import LogProbs
from sslm.program.program import Program, SegmentKind, require_arithmetic
from sslm.program.sequence_data import SequenceData
from sslm.program.slice_time import SliceTime
from sslm.program.spans import DIGEST_SIZE_BYTES, NOT_ALLOWED, Span
from sslm.program.stepping import advance_by_runs
from sslm.program.tensors import Tensor, Tensors


class ReferenceBackend:
    """The definition of a right answer."""

    name = "reference"
    tier = "numpy"

    def __init__(self, tier: str = "auto") -> None:
        if tier not in ("auto", self.tier):
            raise TierUnavailableError(tier, "with the backend reference", self.tier)

    def scratch_size_bytes(
        self, program: Program, tensors: Tensors, *, row_count_max: int, context_tokens: int
    ) -> int:
        """Return 0: nothing is kept between runs.

        Raises:
            ProgramArithmeticError, TensorMissingError, TensorShapeError: As :meth:`compile`.
        """
        del row_count_max, context_tokens
        require_arithmetic(program)
        check_tensors(program, tensors)
        return ReferencePlan.scratch_size_bytes

    def compile(
        self,
        program: Program,
        tensors: Tensors,
        *,
        row_count_max: int,
        context_tokens: int,
        memory: object = None,
    ) -> "ReferencePlan":
        """Bind a program to its tensors; nothing is prepared, so sizes and memory do not matter.

        Raises:
            ProgramArithmeticError: If the program is for another arithmetic.
            TensorMissingError: If a tensor is not there.
            TensorShapeError: If one has another shape or encoding than the program says.
        """
        del row_count_max, context_tokens, memory
        require_arithmetic(program)
        return ReferencePlan(program, tensors)


class ReferencePlan:
    """A program with its tensors, run op by op.

    Args:
        program: What to run.
        tensors: Every tensor that it names.
        watcher: Sees what the plan computes.
    """

    scratch_size_bytes = 0

    def __init__(self, program: Program, tensors: Tensors, watcher: Watcher | None = None) -> None:
        self.program = program
        self._tensors = tensors
        self._watcher = watcher
        check_tensors(program, tensors)

    def advance(
        self,
        sequences: Sequence[SequenceData],
        *,
        budget_units: int,
        row_count_max: int,
        time: SliceTime | None = None,
        cancel: memoryview | None = None,
    ) -> None:
        """Run a slice of every sequence's next chunk; see ``Plan.advance``.

        Raises:
            SslmError: As :meth:`run`.
        """
        advance_by_runs(
            self.program,
            partial(self._compute, time=time, cancel=cancel),
            sequences,
            budget_units=budget_units,
            row_count_max=row_count_max,
        )

    def logprobs(
        self, logits: memoryview, exponent: int, token_ids: Sequence[int], *, top_count: int = 0
    ) -> LogProbs:
        """Return the log-probabilities of some ids; see ``Plan.logprobs``."""
        row = np.frombuffer(logits, dtype=np.int64)
        vocab_size = self.program.vocab_size
        require_row(vocab_size, len(row), token_ids)
        return logprobs(row[:vocab_size], exponent, token_ids, top_count)

    def close(self) -> None:
        """Let go of the tensors."""
        self._tensors = {}

    def run(
        self,
        first: int,
        last: int,
        spans: Sequence[Span],
        *,
        cancel: memoryview | None = None,
    ) -> None:
        """Run segments first … last - 1 over the rows of all spans; see ``Plan.run``.

        Raises:
            RunCancelledError: If *cancel* was set, which is seen between two ops.
            SegmentRangeError: If first … last is not a range of segments.
            OpShapeError: If a span's rows, ids, positions or pages do not fit.
        """
        _, hand_over = self._compute(first, last, spans, time=None, cancel=cancel)
        hand_over()

    def _compute(
        self,
        first: int,
        last: int,
        spans: Sequence[Span],
        *,
        time: SliceTime | None,
        cancel: memoryview | None,
    ) -> tuple[int, Callable[[], None]]:
        """Compute what :meth:`run` does while there is time; see ``stepping.Compute``."""
        count = len(self.program.segments)
        if not 0 <= first <= last <= count:
            raise SegmentRangeError(first, last, count)
        check_spans(self.program, spans)
        if not spans:
            return last, lambda: None
        reached, rows = first, Rows(self.program, spans, self._watcher)
        indices = time.segments(self.program, first, last) if time else range(first, last)
        for index in indices:
            segment = self.program.segments[index]
            rows.segment_index = index
            for op in segment.ops:
                if cancel is not None and cancel[0]:
                    raise RunCancelledError
                _RULES[type(op)](self, op, rows)
            if segment.kind in (SegmentKind.EMBED, SegmentKind.LAYER):
                self._write_digests(index, rows)
            reached = index + 1
        return reached, rows.commit

    def _write_digests(self, index: int, rows: Rows) -> None:
        is_last = index == self.program.first_head_index - 1
        for span, start, states in zip(rows.spans, rows.starts, rows.states, strict=False):
            for row in range(span.row_count if is_last or span.trace else 0):
                residual = rows.values(self.program.residual)[start + row].astype("<i4").tobytes()
                position = span.first_position + row
                written = states.appended(index, position, row)
                digest = segment_digest(
                    self.program.arithmetic_version, index, position, residual, written
                )
                place = slice(row * DIGEST_SIZE_BYTES, (row + 1) * DIGEST_SIZE_BYTES)
                if is_last:
                    span.memory.digests[place] = digest
                if span.trace:
                    offset = index * span.row_count * DIGEST_SIZE_BYTES
                    span.trace.segments[offset + place.start : offset + place.stop] = digest

    def _tensor(self, name: str) -> Tensor:
        if name not in self._tensors:
            raise TensorMissingError(name)
        return self._tensors[name]

    def _values(self, name: str) -> Int64Array:
        return int32_values(self._tensor(name)).astype(np.int64)

    def _embed(self, op: ops.Embed, rows: Rows) -> None:
        mantissas = self._values(op.table.mantissas)
        table = self._tensor(op.table.name)
        looked_up = [panel_row(table, t) * mantissas[t] for t in rows.token_ids]
        values = scale_shift(np.stack(looked_up), op.table.exponent)
        rows.put(op.out, values, ops.SaturationSite.RESIDUAL)

    def _rmsnorm(self, op: ops.RmsNorm, rows: Rows) -> None:
        source = rows.values(op.source)
        out, saturated = kernels.rmsnorm(
            source.reshape(-1, op.group_size),
            self._values(op.gain),
            gain_exponent=op.gain_exponent,
            epsilon=op.epsilon,
            fraction_bits=op.source.fraction_bits,
            out_fraction_bits=op.out.fraction_bits,
        )
        rows.set(op.out, out.reshape(source.shape))
        rows.count(ops.SaturationSite.NORM, saturated.reshape(len(source), -1).sum(axis=1))

    def _quantize(self, op: ops.Quantize, rows: Rows) -> None:
        rows.set_codes(op.out, *bfp16(rows.values(op.source)))

    def _linear(self, op: ops.Linear, rows: Rows) -> None:
        codes, exponents = rows.multiply(op)
        matrix = op.matrix
        values = kernels.linear(
            codes,
            panel_rows(self._tensor(matrix.name), 0, matrix.out_features),
            self._values(matrix.mantissas),
            matrix.exponent - exponents,
        )
        if matrix.bias is not None:
            values = values + self._values(matrix.bias)
        if op.accumulates:
            values = values + rows.values(op.out)
        rows.put(op.out, values, op.site)

    def _rope(self, op: ops.Rope, rows: Rows) -> None:
        cos, sin = (int32_values(self._tensor(name))[rows.positions] for name in (op.cos, op.sin))
        out, saturated = kernels.rotate(
            rows.values(op.buffer),
            cos.astype(np.int64),
            sin.astype(np.int64),
            head_dim=op.head_dim,
            pairing=op.pairing,
        )
        rows.set(op.buffer, out)
        rows.count(ops.SaturationSite.ROPE, saturated)

    def _append(self, op: ops.Append, rows: Rows) -> None:
        heads = rows.values(op.source).reshape(-1, op.state.head_count, op.state.head_dim)
        codes, exponents = bfp16(heads)
        for start, stop, states in rows.ranges():
            states.append(op.state, codes[start:stop], exponents[start:stop])

    def _attention(self, op: ops.Attention, rows: Rows) -> None:
        query = rows.values(op.query)
        out, saturated = np.empty_like(query), np.empty(len(query), dtype=np.int64)
        for start, stop, states in rows.ranges():
            out[start:stop], saturated[start:stop] = attention(
                query[start:stop],
                states.read(op.keys, stop - start),
                states.read(op.values, stop - start),
                first_position=states.first_position,
                op=op,
            )
        rows.set(op.out, out)
        rows.count(ops.SaturationSite.ATTENTION, saturated)

    def _gated_activation(self, op: ops.GatedActivation, rows: Rows) -> None:
        gate, up = rows.values(op.gate), rows.values(op.up)
        rows.set_codes(
            op.out,
            *kernels.gated_activation(gate, up, gate_fraction_bits=op.gate.fraction_bits),
        )

    def _add(self, op: ops.Add, rows: Rows) -> None:
        total = rows.values(op.target) + rows.values(op.source)
        rows.put(op.target, total, ops.SaturationSite.RESIDUAL)

    def _logits(self, op: ops.Logits, rows: Rows) -> None:
        codes, exponents = rows.multiply(op)
        weights = panel_rows(self._tensor(op.matrix.name), op.first_row, op.last_row)
        mantissas = self._values(op.matrix.mantissas)[op.first_row : op.last_row]
        for span, start in zip(rows.spans, rows.starts, strict=False):
            wanted = slice(start + span.first_logits_row, start + span.row_count)
            if span.logits is not None and span.first_logits_row < span.row_count:
                logits = np.frombuffer(span.logits, dtype=np.int64).reshape(-1, op.out.width)
                scored = kernels.exact_sums(codes[wanted], weights) * mantissas
                is_allowed = self._allowed_ids(span)[op.first_row : op.last_row]
                scored = np.where(is_allowed, scored, NOT_ALLOWED)
                logits[: len(scored), op.first_row : op.last_row] = scored
                if span.logit_exponents is not None:
                    written = np.frombuffer(span.logit_exponents, dtype=np.int32)
                    written[: len(scored)] = exponents[wanted] - op.matrix.exponent

    def _allowed_ids(self, span: Span) -> npt.NDArray[np.bool_]:
        """Tell for each id whether it has a token and the span allows it, bool [vocab_size]."""
        token_count = self.program.token_count
        found = np.arange(self.program.vocab_size) < token_count
        if span.allowed is not None:
            bits = np.frombuffer(span.allowed, dtype=np.uint8)
            found[:token_count] = np.unpackbits(bits, count=token_count, bitorder="little")
        return found

    def _choose(self, op: ops.Choose, rows: Rows) -> None:
        for span in rows.spans:
            count = span.row_count - span.first_logits_row
            if span.logits is not None and span.selected is not None and count > 0:
                logits = np.frombuffer(span.logits, dtype=np.int64).reshape(-1, op.logits.width)
                selected = np.frombuffer(span.selected, dtype=np.int32)
                for row in range(count):
                    selected[row] = choose_after(span, row, logits[row])

    def _moving_average(self, op: ops.MovingAverage, rows: Rows) -> None:
        source = rows.values(op.source)
        out = np.empty_like(source)
        for start, stop, states in rows.ranges():
            out[start:stop] = kernels.moving_average(source[start:stop], states.fixed(op.state))
            states.stage(op.state, out[start:stop])
        rows.set(op.out, out)


_RULES: dict[type[ops.Op], Callable[[ReferencePlan, Any, Rows], None]] = {
    ops.Embed: ReferencePlan._embed,
    ops.RmsNorm: ReferencePlan._rmsnorm,
    ops.Quantize: ReferencePlan._quantize,
    ops.Linear: ReferencePlan._linear,
    ops.Rope: ReferencePlan._rope,
    ops.Append: ReferencePlan._append,
    ops.Attention: ReferencePlan._attention,
    ops.GatedActivation: ReferencePlan._gated_activation,
    ops.Add: ReferencePlan._add,
    ops.Logits: ReferencePlan._logits,
    ops.Choose: ReferencePlan._choose,
    ops.MovingAverage: ReferencePlan._moving_average,
}
