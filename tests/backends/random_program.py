"""Whole programs of odd shapes with random weights, and the sequences that run them."""

from array import array
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sslm.program import ops
from sslm.program.buffers import EXPONENT_MAX_GATED, EXPONENT_MAX_INT32, Buffer, BufferKind
from sslm.program.plan import Plan
from sslm.program.program import Program, Segment, SegmentKind
from sslm.program.spans import Span, Trace
from sslm.program.states import State, StateKind
from sslm.program.tensors import GROUP_COLUMNS
from tests.backends.single_op import Memory, TensorStore, codes_buffer, int32_buffer

SITES = ops.SaturationSite
EPSILON = ops.Epsilon(mantissa=10995116, shift=40)
_HEAD_EXPONENT = 46
"""Makes logits a few units apart, so that there is something to sample."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of a random model, and how wild its weights are."""

    seed: int = 0
    hidden_size: int = 24
    intermediate_size: int = 40
    num_attention_heads: int = 3
    num_key_value_heads: int = 1
    head_dim: int = 24
    rotary_dim: int = 24
    vocab_size: int = 37
    num_hidden_layers: int = 2
    window: int | None = None
    has_bias: bool = True
    has_head_norm: bool = False
    is_interleaved: bool = True
    has_average: bool = False
    is_extreme: bool = False
    """All weights ±127 and large scales, so that every site saturates."""
    query_bits: int = 16
    """Fraction bits of queries: with many of them no score is near the clamp."""
    context_tokens: int = 200
    int4_share: float = 0.0
    """How likely a matrix has int4 weights; the others have int8."""


class RandomProgram:
    """A program of a shape, with its tensors."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._random = np.random.default_rng(shape.seed)
        self._widths = np.random.default_rng(shape.seed)
        self._store = TensorStore()
        self._states: list[State] = []
        self._residual = int32_buffer("residual", shape.hidden_size, 14)
        self._normed = int32_buffer("normed", shape.hidden_size, 24)
        self._codes = self._codes_of(self._normed)
        self.program = self._build()
        self.tensors = self._store.tensors

    def _codes_of(self, buffer: Buffer) -> Buffer:
        return codes_buffer(
            f"{buffer.name} codes",
            buffer.width,
            fraction_bits=buffer.fraction_bits,
            exponent_max=EXPONENT_MAX_INT32,
        )

    def _matrix(
        self, name: str, out_features: int, in_features: int, exponent: int, *, bias: bool = False
    ) -> ops.MatrixRef:
        weights = self._random.integers(-127, 128, (out_features, in_features))
        if self.shape.is_extreme:
            weights = np.where(weights < 0, -127, 127)
        mantissas = self._random.integers(0, 1 << 24, out_features)
        lifted = exponent - 8 * self.shape.is_extreme
        row = self._random.integers(-(1 << 20), 1 << 20, out_features)
        if self._widths.random() < self.shape.int4_share:
            return self._int4_matrix(name, weights, mantissas >> 1, lifted, row if bias else None)
        return self._store.matrix(name, weights, mantissas, lifted, row if bias else None)

    def _int4_matrix(
        self,
        name: str,
        weights: npt.NDArray[np.int64],
        mantissas: npt.NDArray[np.int64],
        exponent: int,
        bias: npt.NDArray[np.int64] | None,
    ) -> ops.MatrixRef:
        """Make a matrix of int4 of one of int8, with about the same sums."""
        codes = np.clip(np.round(weights / 16), -7, 7)
        groups = -(-weights.shape[1] // GROUP_COLUMNS)
        scales = self._random.integers(1, 65, (len(weights), groups))
        if self.shape.is_extreme:
            scales[:] = 64
        return self._store.int4_matrix(name, codes, mantissas, exponent, scales=scales, bias=bias)

    def _linear(self, name: str, source: Buffer, out: Buffer, site: SITES) -> ops.Linear:
        is_residual = site is SITES.RESIDUAL
        # A sum of 24 codes of 15 bits times 7 bits times 24 bits, down to about 20 bits.
        exponent = 46 if is_residual else 30 + 3 * (source.width > 30)
        bias = self.shape.has_bias and not is_residual
        matrix = self._matrix(name, out.width, source.width, exponent, bias=bias)
        return ops.Linear(source=source, out=out, matrix=matrix, accumulates=is_residual, site=site)

    def _norm(self, name: str, source: Buffer, out: Buffer, group_size: int) -> ops.RmsNorm:
        gain = self._random.integers(-(1 << 23), (1 << 23) + 1, group_size)
        return ops.RmsNorm(
            source=source,
            out=out,
            group_size=group_size,
            gain=self._store.int32(name, gain),
            gain_exponent=18 if source is self._residual else 10,
            epsilon=EPSILON,
        )

    def _paged(self, index: int, name: str, kind: StateKind) -> State:
        state = State(
            name=f"{index}.{name}",
            kind=kind,
            segment_index=index + 1,
            head_count=self.shape.num_key_value_heads,
            head_dim=self.shape.head_dim,
            fraction_bits=16,
        )
        self._states.append(state)
        return state

    def _attention(self, index: int) -> list[ops.Op]:
        shape = self.shape
        query = int32_buffer("q", shape.num_attention_heads * shape.head_dim, shape.query_bits)
        key = int32_buffer("k", shape.num_key_value_heads * shape.head_dim, 16)
        value = int32_buffer("v", key.width, 16)
        attended = int32_buffer("attended", query.width, 16)
        keys = self._paged(index, "k", StateKind.PAGED_KEYS)
        values = self._paged(index, "v", StateKind.PAGED_VALUES)
        head_norms = [
            self._norm(f"{index}.{buffer.name}_norm", buffer, buffer, shape.head_dim)
            for buffer in (query, key) * shape.has_head_norm
        ]
        return [
            self._norm(f"{index}.norm", self._residual, self._normed, shape.hidden_size),
            ops.Quantize(source=self._normed, out=self._codes),
            *(
                self._linear(f"{index}.{buffer.name}", self._codes, buffer, SITES.QKV)
                for buffer in (query, key, value)
            ),
            *head_norms,
            *(self._rope(buffer) for buffer in (query, key)),
            ops.Append(source=key, state=keys),
            ops.Append(source=value, state=values),
            ops.Attention(
                query=query,
                out=attended,
                keys=keys,
                values=values,
                num_attention_heads=shape.num_attention_heads,
                window=shape.window,
            ),
            ops.Quantize(source=attended, out=self._codes_of(attended)),
            self._linear(f"{index}.o", self._codes_of(attended), self._residual, SITES.RESIDUAL),
        ]

    def _rope(self, buffer: Buffer) -> ops.Rope:
        shape = self.shape
        if "cos" not in self._store.tensors:
            angles = self._random.uniform(0, 7, (shape.context_tokens, shape.rotary_dim // 2))
            self._store.int32("cos", np.round(np.cos(angles) * 2**30))
            self._store.int32("sin", np.round(np.sin(angles) * 2**30))
        return ops.Rope(
            buffer=buffer,
            head_dim=shape.head_dim,
            rotary_dim=shape.rotary_dim,
            pairing="interleaved" if shape.is_interleaved else "half",
            cos="cos",
            sin="sin",
            position_count=shape.context_tokens,
        )

    def _feed_forward(self, index: int) -> list[ops.Op]:
        shape = self.shape
        gate = int32_buffer("gate", shape.intermediate_size, 16)
        up = int32_buffer("up", shape.intermediate_size, 16)
        out = codes_buffer("gated", gate.width, fraction_bits=32, exponent_max=EXPONENT_MAX_GATED)
        return [
            self._norm(f"{index}.ff_norm", self._residual, self._normed, shape.hidden_size),
            ops.Quantize(source=self._normed, out=self._codes),
            *(
                self._linear(f"{index}.{buffer.name}", self._codes, buffer, SITES.GATE_UP)
                for buffer in (gate, up)
            ),
            ops.GatedActivation(gate=gate, up=up, out=out),
            self._linear(f"{index}.down", out, self._residual, SITES.RESIDUAL),
        ]

    def _average(self, index: int) -> list[ops.Op]:
        state = State(
            name=f"{index}.average",
            kind=StateKind.FIXED,
            segment_index=index + 1,
            head_count=1,
            head_dim=self.shape.hidden_size,
            fraction_bits=14,
        )
        self._states.append(state)
        averaged = int32_buffer("averaged", self.shape.hidden_size, 14)
        return [
            ops.MovingAverage(source=self._residual, out=averaged, state=state),
            ops.Add(source=averaged, target=self._residual),
        ]

    def _layer(self, index: int) -> Segment:
        layer = [*self._attention(index), *self._feed_forward(index)]
        if self.shape.has_average:
            layer += self._average(index)
        return Segment(kind=SegmentKind.LAYER, index=index, ops=tuple(layer))

    def _build(self) -> Program:
        shape = self.shape
        table = self._matrix("embed", shape.vocab_size, shape.hidden_size, 10)
        logits = Buffer(name="logits", kind=BufferKind.LOGITS, width=shape.vocab_size)
        selected = Buffer(name="selected", kind=BufferKind.TOKENS, width=1)
        embed = ops.Embed(table=table, out=self._residual)
        segments = [Segment(kind=SegmentKind.EMBED, index=0, ops=(embed,))]
        segments += [self._layer(index) for index in range(shape.num_hidden_layers)]
        for index, first in enumerate(range(0, shape.vocab_size, 16)):
            head = (
                self._norm("norm", self._residual, self._normed, shape.hidden_size),
                ops.Quantize(source=self._normed, out=self._codes),
                ops.Logits(
                    source=self._codes,
                    out=logits,
                    matrix=replace(table, exponent=_HEAD_EXPONENT),
                    first_row=first,
                    last_row=min(first + 16, shape.vocab_size),
                ),
            )
            segments.append(Segment(kind=SegmentKind.HEAD, index=index, ops=head))
        select = ops.Choose(logits=logits, out=selected)
        segments.append(Segment(kind=SegmentKind.SELECT, index=0, ops=(select,)))
        return Program(
            residual=self._residual,
            states=tuple(self._states),
            segments=tuple(segments),
            vocab_size=shape.vocab_size,
            max_position_embeddings=shape.context_tokens,
        )


class Runner:
    """Computes a sequence in chunks, and collects everything that may be seen of it."""

    def __init__(self, program: Program, token_ids: list[int]) -> None:
        self.program = program
        self.token_ids = token_ids
        self.memory = Memory(program, positions=len(token_ids), rows=64)
        self.position = 0
        self.digests: list[bytes] = []
        self.traces: list[bytes] = []
        self.logits: list[list[int]] = []
        self.selected: list[int] = []

    def next_span(self, rows: int) -> Span | None:
        """The next chunk, of at most this many rows, every second of which gets logits."""
        ids = self.token_ids[self.position : self.position + rows]
        if not ids:
            return None
        span = self.memory.span(ids, first_position=self.position, first_logits_row=len(ids) // 2)
        self._trace = np.zeros((self.program.first_head_index, len(ids), 32), np.uint8)
        span.trace = Trace(segments=self._trace.data.cast("B"))
        return span

    def collect(self, span: Span) -> None:
        """Keep what a finished chunk left."""
        rows, scored = span.row_count, span.row_count - span.first_logits_row
        self.digests += [self.memory.digests[row].tobytes() for row in range(rows)]
        self.traces += [self._trace[:, row].tobytes() for row in range(rows)]
        self.logits += self.memory.logits[:scored].tolist()
        self.selected += self.memory.selected[:scored].tolist()
        self.position += rows

    def outcome(self) -> dict[str, object]:
        """Everything, by name; the pages without what no position was written to."""
        states = [
            [part.tolist() for part in self.memory.paged(state, position)]
            for state in self.program.states
            if state.is_paged
            for position in range(self.position)
        ]
        return {
            "digests": self.digests,
            "traces": self.traces,
            "logits": self.logits,
            "selected": self.selected,
            "residual": self.memory.residual[0].tolist(),
            "saturations": self.memory.saturations.tolist(),
            "states": states,
            "fixed": bytes(self.memory.fixed),
        }


def run_together(
    plan: Plan, runners: list[Runner], *, chunk_rows: int, budget_units: int = 1 << 20
) -> None:
    """Advance sequences side by side to their ends."""
    segments = len(plan.program.segments)
    while True:
        spans = [(runner, runner.next_span(chunk_rows)) for runner in runners]
        active = [(runner, span) for runner, span in spans if span is not None]
        if not active:
            return
        for first in range(0, segments, budget_units):
            last = min(first + budget_units, segments)
            plan.run(first, last, [span for _, span in active])
        for runner, span in active:
            runner.collect(span)


def token_ids(seed: int, vocab_size: int, count: int) -> list[int]:
    """Random ids."""
    return array("i", np.random.default_rng(seed).integers(0, vocab_size, count)).tolist()
