"""A program turned into the structs of the C library."""

from typing import Any, Final

from sslm.errors.program import OpShapeError, TensorMissingError, TensorShapeError
from sslm.native_library import TIERS, NativeLibrary, borrow
from sslm.numerics.tables import pow2_nodes, sigmoid_nodes
from sslm.program import ops
from sslm.program.buffers import Buffer, BufferKind
from sslm.program.program import Program, SegmentKind
from sslm.program.states import State, StateKind
from sslm.program.tensors import Encoding, Tensors, size_bytes

_BUFFER_KINDS: Final = {BufferKind.INT32: 0, BufferKind.CODES: 1}
_STATE_KINDS: Final = {StateKind.PAGED_KEYS: 0, StateKind.PAGED_VALUES: 1, StateKind.FIXED: 2}
_PANEL_KINDS: Final = {Encoding.PANEL_INT8: 0, Encoding.PANEL_INT4: 1}
_SEGMENT_KINDS: Final = {kind: index for index, kind in enumerate(SegmentKind)}
_OP_NAMES: Final[dict[type[ops.Op], str]] = {
    ops.Embed: "EMBED",
    ops.RmsNorm: "RMSNORM",
    ops.Quantize: "QUANTIZE",
    ops.Linear: "LINEAR",
    ops.Rope: "ROPE",
    ops.Append: "APPEND",
    ops.Attention: "ATTENTION",
    ops.GatedActivation: "GATED_ACTIVATION",
    ops.Add: "ADD",
    ops.Logits: "LOGITS",
    ops.Choose: "CHOOSE",
    ops.MovingAverage: "MOVING_AVERAGE",
}
"""What sslm_native.h calls each kind, after ``SSLM_OP_``."""


class Lowering:
    """The C structs of one program, bound to its tensors, with everything that they point to.

    Args:
        library: The loaded library.
        program: What to lower.
        tensors: Every tensor that the program names.

    Raises:
        TensorMissingError: If a tensor is not there.
        TensorShapeError: If one has another shape or encoding than the program says.
        OpShapeError: If an op is not one that the library knows, or reads a state not declared.
    """

    def __init__(self, library: NativeLibrary, program: Program, tensors: Tensors) -> None:
        self._ffi = library.ffi
        self._lib = library.lib
        self._tensors = tensors
        self._alive: list[Any] = []
        self._buffers: dict[str, int] = {}
        self._states = {state.name: index for index, state in enumerate(program.states)}
        self.struct = self._ffi.new("sslm_program *")
        self._lower_buffers(program)
        self._lower_states(program)
        self._lower_segments(program)
        self._lower_constants(program)

    def bind(
        self,
        *,
        tier: str,
        threads: int,
        row_count_max: int,
        context_tokens: int,
        task_count_max: int = 0,
    ) -> None:
        """Say how the program is to be run.

        Args:
            tier: A name of ``TIERS``.
            threads: From 1.
            task_count_max: Most tasks of a parallel-for hook that may be installed.
            row_count_max: Rows of one run, at least 1.
            context_tokens: Positions of a sequence, at least 1.
        """
        self.struct.tier = TIERS.index(tier)
        self.struct.thread_count = threads
        self.struct.task_count_max = task_count_max
        self.struct.row_count_max = row_count_max
        self.struct.context_tokens = context_tokens

    def _array(self, kind: str, count: int) -> Any:
        array = self._ffi.new(f"{kind}[]", max(count, 1))
        self._alive.append(array)
        return array

    def _view(self, kind: str, data: Any) -> Any:
        pointer, view = borrow(self._ffi, kind, data)
        self._alive.append(view)
        return pointer

    def _tensor(self, name: str, encoding: Encoding, shape: tuple[int, ...]) -> Any:
        if name not in self._tensors:
            raise TensorMissingError(name)
        tensor = self._tensors[name]
        if tensor.encoding is not encoding or tensor.shape != shape:
            expected = size_bytes(encoding, shape)
            raise TensorShapeError(name, tensor.shape, tensor.data.nbytes, expected)
        kind = "uint8_t *" if encoding.is_matrix else "int32_t *"
        return self._view(kind, tensor.data)

    def _lower_buffers(self, program: Program) -> None:
        records: list[Buffer] = []
        for buffer in (program.residual, *program.buffers()):
            if buffer.name not in self._buffers:
                self._buffers[buffer.name] = len(records)
                records.append(buffer)
        array = self._array("sslm_buffer", len(records))
        for index, buffer in enumerate(records):
            array[index].kind = _BUFFER_KINDS.get(buffer.kind, 2)
            array[index].width = buffer.width
        self.struct.buffers = array
        self.struct.buffer_count = len(records)
        self.struct.residual = self._buffers[program.residual.name]

    def _lower_states(self, program: Program) -> None:
        layout = program.state_layout
        array = self._array("sslm_state", len(program.states))
        for index, state in enumerate(program.states):
            array[index].kind = _STATE_KINDS[state.kind]
            array[index].segment = state.segment_index
            array[index].head_count = state.head_count
            array[index].head_dim = state.head_dim
            array[index].offset_bytes = layout.offsets_bytes[index]
        self.struct.states = array
        self.struct.state_count = len(program.states)
        self.struct.page_size_bytes = layout.page_size_bytes
        self.struct.fixed_size_bytes = layout.fixed_size_bytes

    def _lower_segments(self, program: Program) -> None:
        segments = self._array("sslm_segment", len(program.segments))
        records = self._array("sslm_op", sum(len(segment.ops) for segment in program.segments))
        op_count = 0
        for index, segment in enumerate(program.segments):
            segments[index].kind = _SEGMENT_KINDS[segment.kind]
            segments[index].first_op = op_count
            for op in segment.ops:
                self._lower_op(op, records[op_count], program)
                op_count += 1
            segments[index].last_op = op_count
        self.struct.segments = segments
        self.struct.segment_count = len(program.segments)
        self.struct.ops = records

    def _lower_constants(self, program: Program) -> None:
        self.struct.pow2_nodes = self._view("int32_t *", pow2_nodes())
        self.struct.sigmoid_nodes = self._view("int32_t *", sigmoid_nodes())
        self.struct.vocab_size = program.vocab_size
        self.struct.token_count = program.token_count
        self.struct.last_layer = program.layer_count
        self.struct.arithmetic_version = program.arithmetic_version

    def _lower_op(self, op: ops.Op, record: Any, program: Program) -> None:
        if type(op) not in _OP_NAMES:
            raise OpShapeError(type(op).__name__, "the kind of op", "unknown", "a known one")
        record.kind = getattr(self._lib, f"SSLM_OP_{_OP_NAMES[type(op)]}")
        match op:
            case ops.Embed() | ops.Linear() | ops.Logits() | ops.Choose():
                self._lower_matrix_op(op, record, program)
            case ops.RmsNorm():
                self._lower_norm(op, record)
            case ops.Rope():
                self._lower_rope(op, record, program)
            case ops.Append() | ops.Attention() | ops.MovingAverage():
                self._lower_state_op(op, record)
            case _:
                self._lower_plain_op(op, record)

    def _lower_matrix_op(
        self, op: ops.Embed | ops.Linear | ops.Logits | ops.Choose, record: Any, program: Program
    ) -> None:
        match op:
            case ops.Embed():
                record.site = ops.SaturationSite.RESIDUAL
                self._connect(record, op.out, op.out)
                self._lower_matrix(op.table, record.matrix)
                self._expect(op, "rows of the table", op.table.out_features, program.vocab_size)
            case ops.Linear():
                record.site = op.site
                record.accumulates = op.accumulates
                self._connect(record, op.source, op.out)
                self._lower_matrix(op.matrix, record.matrix)
            case ops.Logits():
                self._connect(record, op.source, op.out)
                self._lower_matrix(op.matrix, record.matrix)
                record.first_row, record.last_row = op.first_row, op.last_row
                self._expect(op, "rows of the matrix", op.matrix.out_features, program.vocab_size)
            case ops.Choose():
                self._connect(record, op.logits, op.out)
                self._expect(op, "the width of the logits", op.logits.width, program.vocab_size)

    def _lower_state_op(
        self, op: ops.Append | ops.Attention | ops.MovingAverage, record: Any
    ) -> None:
        match op:
            case ops.Append():
                self._connect(record, op.source, op.source)
                record.state = self._state(op, op.state)
            case ops.Attention():
                self._lower_attention(op, record)
            case ops.MovingAverage():
                self._connect(record, op.source, op.out)
                record.state = self._state(op, op.state)

    def _lower_plain_op(self, op: ops.Op, record: Any) -> None:
        match op:
            case ops.Quantize():
                self._connect(record, op.source, op.out)
            case ops.GatedActivation():
                self._connect(record, op.gate, op.out)
                record.other = self._buffers[op.up.name]
                record.gate_bits = op.gate.fraction_bits
            case ops.Add():
                record.site = ops.SaturationSite.RESIDUAL
                self._connect(record, op.source, op.target)

    def _expect(self, op: ops.Op, what: str, found: int, expected: int) -> None:
        if found != expected:
            raise OpShapeError(type(op).__name__, what, str(found), str(expected))

    def _connect(self, record: Any, source: Buffer, out: Buffer) -> None:
        record.source = self._buffers[source.name]
        record.out = self._buffers[out.name]

    def _state(self, op: ops.Op, state: State) -> int:
        if state.name not in self._states:
            raise OpShapeError(type(op).__name__, "a state", state.name, "one of the program's")
        return self._states[state.name]

    def _lower_matrix(self, matrix: ops.MatrixRef, record: Any) -> None:
        shape = (matrix.out_features, matrix.in_features)
        record.panels = self._tensor(matrix.name, matrix.encoding, shape)
        record.encoding = _PANEL_KINDS[matrix.encoding]
        record.mantissas = self._tensor(matrix.mantissas, Encoding.INT32, shape[:1])
        if matrix.bias is not None:
            record.bias = self._tensor(matrix.bias, Encoding.INT32, shape[:1])
        record.out_features, record.in_features = shape
        record.exponent = matrix.exponent

    def _lower_norm(self, op: ops.RmsNorm, record: Any) -> None:
        record.site = ops.SaturationSite.NORM
        self._connect(record, op.source, op.out)
        record.norm.gain = self._tensor(op.gain, Encoding.INT32, (op.group_size,))
        record.norm.group_size = op.group_size
        record.norm.gain_exponent = op.gain_exponent
        record.norm.source_bits = op.source.fraction_bits
        record.norm.out_bits = op.out.fraction_bits
        record.norm.epsilon_mantissa = op.epsilon.mantissa
        record.norm.epsilon_shift = op.epsilon.shift

    def _lower_rope(self, op: ops.Rope, record: Any, program: Program) -> None:
        record.site = ops.SaturationSite.ROPE
        self._connect(record, op.buffer, op.buffer)
        if op.position_count < program.max_position_embeddings:
            expected = f"at least {program.max_position_embeddings}"
            raise OpShapeError("Rope", "positions of the table", str(op.position_count), expected)
        shape = (op.position_count, op.rotary_dim // 2)
        record.rotation.cos = self._tensor(op.cos, Encoding.INT32, shape)
        record.rotation.sin = self._tensor(op.sin, Encoding.INT32, shape)
        record.rotation.head_dim = op.head_dim
        record.rotation.rotary_dim = op.rotary_dim
        record.rotation.is_interleaved = op.pairing == "interleaved"

    def _lower_attention(self, op: ops.Attention, record: Any) -> None:
        record.site = ops.SaturationSite.ATTENTION
        self._connect(record, op.query, op.out)
        record.state = self._state(op, op.keys)
        record.values = self._state(op, op.values)
        record.heads.head_count = op.num_attention_heads
        record.heads.window = op.window or 0
        record.heads.score_shift = op.query.fraction_bits + op.keys.fraction_bits - 16
