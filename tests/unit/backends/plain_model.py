"""A program walked in plain Python integers, one position after the other."""

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from sslm.program import ops
from sslm.program.program import Program, SegmentKind
from sslm.program.states import State
from sslm.program.tensors import Encoding, Tensor, Tensors
from tests.unit.backends import plain_ops
from tests.unit.backends.plain_ops import KeyValue, Row


@dataclass(frozen=True)
class Computed:
    """What one position gave."""

    segment_digests: list[bytes]
    logits: Row
    selected: int


class PlainModel:
    """One sequence of a program; :meth:`step` computes its next position."""

    def __init__(self, program: Program, tensors: Tensors) -> None:
        self.saturations: Counter[str] = Counter()
        self._program = program
        self._tensors = tensors
        self._position = 0
        self._rows: dict[str, Row] = {}
        self._codes: dict[str, KeyValue] = {}
        self._paged: dict[str, list[list[KeyValue]]] = {}
        self._fixed: dict[str, Row] = {}
        for state in program.states:
            if state.is_paged:
                self._paged[state.name] = []
            else:
                self._fixed[state.name] = [0] * state.head_dim
        self._selected = -1

    def step(self, token_id: int) -> Computed:
        """Compute a position to its end."""
        digests = []
        self._rows["logits"] = [0] * self._program.vocab_size
        for index, segment in enumerate(self._program.segments):
            for op in segment.ops:
                self._run(op, token_id)
            if segment.kind in (SegmentKind.EMBED, SegmentKind.LAYER):
                digests.append(self._digest(index))
        self._position += 1
        return Computed(digests, self._rows["logits"], self._selected)

    def _digest(self, index: int) -> bytes:
        residual = self._rows[self._program.residual.name]
        laid_out = struct.pack("<IIQ", 1, index, self._position)
        laid_out += struct.pack(f"<{len(residual)}i", *residual)
        for state in self._program.states:
            if state.segment_index == index:
                laid_out += self._state_bytes(state)
        return sha256(laid_out).digest()

    def _state_bytes(self, state: State) -> bytes:
        if not state.is_paged:
            return struct.pack(f"<{state.head_dim}i", *self._fixed[state.name])
        heads = self._paged[state.name][self._position]
        codes = b"".join(struct.pack(f"<{len(codes)}h", *codes) for codes, _ in heads)
        return codes + bytes(exponent for _, exponent in heads)

    def _run(self, op: ops.Op, token_id: int) -> None:  # noqa: PLR0912 - one branch an op
        match op:
            case ops.Embed():
                values = _panel_row(self._tensors[op.table.name], token_id)
                mantissa = self._mantissas(op.table)[token_id]
                scaled = [
                    plain_ops.scale_shift(code * mantissa, op.table.exponent) for code in values
                ]
                self._put(op.out.name, scaled, "residual")
            case ops.RmsNorm():
                self._rmsnorm(op)
            case ops.Quantize():
                self._codes[op.out.name] = plain_ops.bfp16(self._rows[op.source.name])
            case ops.Linear():
                self._linear(op)
            case ops.Rope():
                cos, sin = (self._table_row(name) for name in (op.cos, op.sin))
                row = self._rows[op.buffer.name]
                turned, count = plain_ops.rope(
                    row, cos, sin, head_dim=op.head_dim, pairing=op.pairing
                )
                self._rows[op.buffer.name] = turned
                self.saturations["rope"] += count
            case ops.Append():
                row = self._rows[op.source.name]
                heads = [plain_ops.bfp16(head) for head in _heads(row, op.state.head_dim)]
                self._paged[op.state.name].append(heads)
            case ops.Attention():
                self._attention(op)
            case ops.GatedActivation():
                self._codes[op.out.name] = plain_ops.gated_activation(
                    self._rows[op.gate.name],
                    self._rows[op.up.name],
                    gate_fraction_bits=op.gate.fraction_bits,
                )
            case ops.Add():
                pairs = zip(self._rows[op.target.name], self._rows[op.source.name], strict=True)
                self._put(op.target.name, [a + b for a, b in pairs], "residual")
            case ops.Logits():
                codes, _ = self._codes[op.source.name]
                mantissas = self._mantissas(op.matrix)
                for row_index in range(op.first_row, op.last_row):
                    weights = _panel_row(self._tensors[op.matrix.name], row_index)
                    product = plain_ops.dot(codes, weights) * mantissas[row_index]
                    self._rows["logits"][row_index] = product
            case ops.Choose():
                logits = self._rows["logits"]
                self._selected = min(i for i, value in enumerate(logits) if value == max(logits))
            case ops.MovingAverage():
                state = self._fixed[op.state.name]
                (state,) = plain_ops.moving_average([self._rows[op.source.name]], state)
                self._fixed[op.state.name] = state
                self._rows[op.out.name] = state

    def _rmsnorm(self, op: ops.RmsNorm) -> None:
        gain = _int32s(self._tensors[op.gain])
        out: Row = []
        for group in _heads(self._rows[op.source.name], op.group_size):
            normed, count = plain_ops.rmsnorm_group(
                group,
                gain,
                gain_exponent=op.gain_exponent,
                epsilon=(op.epsilon.mantissa, op.epsilon.shift),
                f_in=op.source.fraction_bits,
                f_out=op.out.fraction_bits,
            )
            out += normed
            self.saturations["norm"] += count
        self._rows[op.out.name] = out

    def _linear(self, op: ops.Linear) -> None:
        codes, exponent = self._codes[op.source.name]
        matrix = op.matrix
        weights = [_panel_row(self._tensors[matrix.name], n) for n in range(matrix.out_features)]
        values = plain_ops.linear_values(
            codes, weights, self._mantissas(matrix), matrix.exponent - exponent
        )
        bias = _int32s(self._tensors[matrix.bias]) if matrix.bias else [0] * len(values)
        old = self._rows[op.out.name] if op.accumulates else [0] * len(values)
        totals = [sum(parts) for parts in zip(values, bias, old, strict=True)]
        self._put(op.out.name, totals, op.site.name.lower())

    def _attention(self, op: ops.Attention) -> None:
        first = 0 if op.window is None else max(0, self._position - op.window + 1)
        out: Row = []
        for head, query in enumerate(_heads(self._rows[op.query.name], op.keys.head_dim)):
            kv_head = head * op.keys.head_count // op.num_attention_heads
            keys, values = (
                {j: self._paged[name][j][kv_head] for j in range(first, self._position + 1)}
                for name in (op.keys.name, op.values.name)
            )
            bits = op.query.fraction_bits + op.keys.fraction_bits
            out += plain_ops.attention_head(query, keys, values, fraction_bits=bits)
        self._put(op.out.name, out, "attention")

    def _put(self, name: str, values: Row, site: str) -> None:
        self._rows[name], count = plain_ops.saturated(values)
        self.saturations[site] += count

    def _mantissas(self, matrix: ops.MatrixRef) -> Row:
        return _int32s(self._tensors[matrix.mantissas])

    def _table_row(self, name: str) -> Row:
        tensor = self._tensors[name]
        width = tensor.shape[1]
        return _int32s(tensor)[self._position * width : (self._position + 1) * width]


def _heads(row: Row, width: int) -> Iterator[Row]:
    return (row[start : start + width] for start in range(0, len(row), width))


def _int32s(tensor: Tensor) -> Row:
    return list(struct.unpack(f"<{tensor.data.nbytes // 4}i", tensor.data))


def _panel_row(tensor: Tensor, row: int) -> Row:
    """Row of panels of 16 rows, straight from the definition; int4 times the groups' scales."""
    columns = tensor.shape[1]
    if tensor.encoding is Encoding.PANEL_INT4:
        return [int4_weight(tensor, row, k) for k in range(columns)]
    panels = -(-columns // 4)
    at = [((row // 16 * panels + k // 4) * 16 + row % 16) * 4 + k % 4 for k in range(columns)]
    return [byte - 256 if byte > 127 else byte for byte in (tensor.data[i] for i in at)]


def int4_weight(tensor: Tensor, row: int, column: int) -> int:
    """Code times scale of one element of int4 panels, straight from the definition."""
    groups = -(-tensor.shape[1] // 32)
    scales_size_bytes = -(-groups * 16 // 64) * 64
    panel = row // 16 * (scales_size_bytes + groups * 256)
    scale = tensor.data[panel + column // 32 * 16 + row % 16]
    place = panel + scales_size_bytes + column // 8 * 64 + row % 16 * 4 + column % 4
    byte = tensor.data[place]
    nibble = byte >> 4 if column % 8 >= 4 else byte & 15
    return scale * (nibble - 8)
