"""Programs of one op, fed with any values, and the memory to run them in.

Only the residual and the states outlive a segment. So the rows that an op reads are written into
its buffers by linear ops with zero weights, whose bias is the row, and what it writes is read back
from the residual.
"""

from array import array
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sslm.convert.quantize import pack_int4_panels
from sslm.program import ops
from sslm.program.buffers import EXPONENT_MAX_GATED, EXPONENT_MAX_INT32, Buffer, BufferKind
from sslm.program.plan import Backend
from sslm.program.program import Program, Segment, SegmentKind
from sslm.program.spans import CHUNK_ROWS_MAX, SequenceMemory, Span, Trace
from sslm.program.states import PAGE_TOKENS, State, StateKind
from sslm.program.tensors import PANEL_COLUMNS, PANEL_ROWS, Encoding, Tensor, padded

QKV = ops.SaturationSite.QKV
INT32_MAX = (1 << 31) - 1
CODE_MAX = 32639


def int32_buffer(name: str, width: int, fraction_bits: int = 0) -> Buffer:
    return Buffer(name=name, kind=BufferKind.INT32, width=width, fraction_bits=fraction_bits)


def codes_buffer(name: str, width: int, *, fraction_bits: int = 0, exponent_max: int) -> Buffer:
    return Buffer(
        name=name,
        kind=BufferKind.CODES,
        width=width,
        fraction_bits=fraction_bits,
        exponent_max=exponent_max,
    )


def panels(weights: np.ndarray) -> bytes:
    """Lay int8 [rows, columns] out in panels of 16 by 4."""
    rows, columns = weights.shape
    full = np.zeros((padded(rows, PANEL_ROWS), padded(columns, PANEL_COLUMNS)), np.int8)
    full[:rows, :columns] = weights
    shape = (-1, PANEL_ROWS, full.shape[1] // PANEL_COLUMNS, PANEL_COLUMNS)
    return full.reshape(shape).transpose(0, 2, 1, 3).tobytes()


def paged_states(heads: int, head_dim: int, *, k_bits: int = 0, v_bits: int = 0) -> list[State]:
    """Return the keys and the values of a layer that is segment 1."""
    return [
        State(
            name=name,
            kind=kind,
            segment_index=1,
            head_count=heads,
            head_dim=head_dim,
            fraction_bits=bits,
        )
        for name, kind, bits in (
            ("k", StateKind.PAGED_KEYS, k_bits),
            ("v", StateKind.PAGED_VALUES, v_bits),
        )
    ]


@dataclass
class TensorStore:
    """Tensors by name, as a program refers to them."""

    tensors: dict[str, Tensor] = field(default_factory=dict)

    def int32(self, name: str, values: npt.ArrayLike, exponent: int = 0) -> str:
        values = np.ascontiguousarray(values, dtype="<i4")
        data = memoryview(values.tobytes())
        self.tensors[name] = Tensor(
            name=name, encoding=Encoding.INT32, shape=values.shape, exponent=exponent, data=data
        )
        return name

    def matrix(
        self,
        name: str,
        weights: npt.ArrayLike,
        mantissas: npt.ArrayLike,
        exponent: int,
        bias: npt.ArrayLike | None = None,
    ) -> ops.MatrixRef:
        weights = np.array(weights, dtype=np.int8)
        self.tensors[name] = Tensor(
            name=name,
            encoding=Encoding.PANEL_INT8,
            shape=weights.shape,
            exponent=0,
            data=memoryview(panels(weights)),
        )
        return self._scaled(name, mantissas, exponent, bias)

    def int4_matrix(
        self,
        name: str,
        codes: npt.ArrayLike,
        mantissas: npt.ArrayLike,
        exponent: int,
        *,
        scales: npt.ArrayLike,
        bias: npt.ArrayLike | None = None,
    ) -> ops.MatrixRef:
        """Codes [rows, columns] in -7 … 7 with scales [rows, groups] of 32 columns in 1 … 64."""
        codes = np.array(codes, dtype=np.int8)
        self.tensors[name] = Tensor(
            name=name,
            encoding=Encoding.PANEL_INT4,
            shape=codes.shape,
            exponent=0,
            data=memoryview(pack_int4_panels(codes, np.array(scales, dtype=np.int8))),
        )
        return self._scaled(name, mantissas, exponent, bias)

    def _scaled(
        self, name: str, mantissas: npt.ArrayLike, exponent: int, bias: npt.ArrayLike | None
    ) -> ops.MatrixRef:
        """Add what goes with the codes of a matrix."""
        self.int32(f"{name}.mantissas", mantissas, exponent)
        if bias is not None:
            self.int32(f"{name}.bias", bias)
        codes = self.tensors[name]
        return ops.MatrixRef(
            name=name,
            out_features=codes.shape[0],
            in_features=codes.shape[1],
            mantissas=f"{name}.mantissas",
            exponent=exponent,
            bias=None if bias is None else f"{name}.bias",
            encoding=codes.encoding,
        )


class OneLayer:
    """Collects the ops of one layer segment, and runs them over one row or more.

    Args:
        residual: What the ops write their results to.
        position_count: Positions of the program, at least those that are run.
    """

    def __init__(self, residual: Buffer, *, vocab_size: int = 1, position_count: int = 1) -> None:
        self.residual = residual
        self.vocab_size = vocab_size
        self.position_count = position_count
        self.store = TensorStore()
        self.states: list[State] = []
        self.embed: list[ops.Op] = []
        self.layer: list[ops.Op] = []
        self.head: list[ops.Op] = []
        self.select: list[ops.Op] = []
        self.layer_index = 1

    def load(self, buffer: Buffer, row: npt.ArrayLike, into: list[ops.Op] | None = None) -> Buffer:
        """Write a row of int32 into a buffer."""
        where = self.layer if into is None else into
        width, bits = self.residual.width, self.residual.fraction_bits
        seed = codes_buffer("seed", width, fraction_bits=bits, exponent_max=EXPONENT_MAX_INT32)
        name = f"load {len(self.store.tensors)}"
        zeros = np.zeros((buffer.width, width))
        matrix = self.store.matrix(name, zeros, np.zeros(buffer.width), 0, row)
        where.append(ops.Quantize(source=self.residual, out=seed))
        where.append(
            ops.Linear(source=seed, out=buffer, matrix=matrix, accumulates=False, site=QKV)
        )
        return buffer

    def load_codes(
        self, codes: list[int], exponent: int, exponent_max: int, into: list[ops.Op] | None = None
    ) -> Buffer:
        """Write a row of codes with their exponent, as an op that can have it would.

        A row has a positive exponent only for the sake of a large value: where there is none, one
        more column at the end of the buffer holds it.
        """
        where = self.layer if into is None else into
        if exponent > 0 and 2 * max(map(abs, codes)) <= CODE_MAX:
            codes = [*codes, CODE_MAX // 2 + 1]
        row = [max(-INT32_MAX, min(code << exponent, INT32_MAX)) for code in codes]
        if exponent_max == EXPONENT_MAX_INT32:
            out = codes_buffer("codes", len(codes), exponent_max=exponent_max)
            source = self.load(int32_buffer("values", len(codes)), row, where)
            where.append(ops.Quantize(source=source, out=out))
            return out
        # A gate far above zero is its own activation, so that the products are codes times a power.
        gate_bits = max(exponent - 17, 5)
        gate = min(1 << gate_bits, INT32_MAX)
        up = [min(code << (exponent - gate_bits), INT32_MAX) for code in codes]
        width = len(codes)
        out = codes_buffer("codes", width, exponent_max=EXPONENT_MAX_GATED)
        gates = self.load(int32_buffer("gate", width), [gate] * width, where)
        ups = self.load(int32_buffer("up", width), up, where)
        where.append(ops.GatedActivation(gate=gates, up=ups, out=out))
        return out

    def program(self) -> Program:
        kinds = [(SegmentKind.EMBED, self.embed)]
        kinds += [(SegmentKind.LAYER, [])] * (self.layer_index - 1)
        kinds += [(SegmentKind.LAYER, self.layer)] * (self.layer_index > 0)
        kinds += [(SegmentKind.HEAD, self.head), (SegmentKind.SELECT, self.select)]
        return Program(
            residual=self.residual,
            states=tuple(self.states),
            segments=tuple(
                Segment(kind=kind, index=max(0, index - 1), ops=tuple(segment_ops))
                for index, (kind, segment_ops) in enumerate(kinds)
            ),
            vocab_size=self.vocab_size,
            max_position_embeddings=self.position_count,
        )


class Memory:
    """A sequence of its own: pages in descending order, so that no order is taken for granted."""

    def __init__(self, program: Program, *, positions: int, rows: int = 1) -> None:
        layout = program.state_layout
        self.layout = layout
        page_count = -(-positions // PAGE_TOKENS)
        self.page_order = list(range(page_count))[::-1]
        self.pool = bytearray(max(page_count * layout.page_size_bytes, 1))
        # Whatever lies beyond the visible positions must not matter.
        self.pool[:] = b"\xa5" * len(self.pool)
        self.fixed = bytearray(max(layout.fixed_size_bytes, 4))
        self.residual = np.zeros((CHUNK_ROWS_MAX, program.residual.width), np.int32)
        self.saturations = np.zeros(len(ops.SaturationSite), np.int64)
        self.digests = np.zeros((CHUNK_ROWS_MAX, 32), np.uint8)
        self.trace = np.zeros((program.first_head_index, rows, 32), np.uint8)
        self.logits = np.zeros((rows, program.vocab_size), np.int64)
        self.selected = np.zeros(rows, np.int32)
        self.sequence = SequenceMemory(
            pool=memoryview(self.pool),
            pages=memoryview(array("i", self.page_order)),
            fixed=memoryview(self.fixed),
            residual=self.residual.data,
            saturations=self.saturations.data,
            digests=self.digests.data.cast("B"),
        )

    def span(
        self, token_ids: list[int], *, first_position: int = 0, first_logits_row: int = 0
    ) -> Span:
        return Span(
            memory=self.sequence,
            first_position=first_position,
            token_ids=memoryview(array("i", token_ids)),
            first_logits_row=first_logits_row,
            logits=self.logits.data,
            selected=self.selected.data,
            trace=Trace(segments=self.trace.data.cast("B")),
        )

    def fixed_values(self, state: State) -> np.ndarray:
        """View of a fixed state."""
        offset = self.layout.offsets_bytes[self.layout.states.index(state)]
        return np.frombuffer(self.fixed, np.int32, state.head_dim, offset)

    def paged(self, state: State, position: int) -> tuple[np.ndarray, np.ndarray]:
        """Views of the codes [head][dim] and exponents [head] of one position."""
        offset = self.layout.offsets_bytes[self.layout.states.index(state)]
        start = self.page_order[position // PAGE_TOKENS] * self.layout.page_size_bytes + offset
        token = position % PAGE_TOKENS
        heads, head_dim = state.head_count, state.head_dim
        codes = np.frombuffer(self.pool, np.int16, heads * PAGE_TOKENS * head_dim, start)
        exponents = np.frombuffer(
            self.pool, np.uint8, heads * PAGE_TOKENS, start + state.codes_size_bytes
        ).reshape(heads, PAGE_TOKENS)
        if state.kind.name == "PAGED_KEYS":
            return codes.reshape(heads, PAGE_TOKENS, head_dim)[:, token], exponents[:, token]
        pairs = codes.reshape(heads, PAGE_TOKENS // 2, head_dim, 2)
        return pairs[:, token // 2, :, token % 2], exponents[:, token]


def run_layer(
    backend: Backend, one: OneLayer, memory: Memory, *, position: int = 0, token_id: int = 0
) -> list[int]:
    """Run every segment over one row; return the residual."""
    program = one.program()
    plan = backend.compile(
        program, one.store.tensors, row_count_max=1, context_tokens=one.position_count
    )
    plan.run(0, len(program.segments), [memory.span([token_id], first_position=position)])
    plan.close()
    residual: list[int] = memory.residual[0].tolist()
    return residual
