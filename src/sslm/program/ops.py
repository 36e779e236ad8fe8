"""Op records: the contract of every operation, checked when built.

docs/arithmetic.md defines each op's result; the section is named in its docstring. Implementations
point here and do not repeat the contract. A record names its buffers by object, its tensors by
name, and proves from shapes and exponents that its accumulators cannot overflow.
"""

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import ClassVar, Final, Literal

from sslm.errors.program import AccumulatorBoundError, OpShapeError
from sslm.limits import HIDDEN_SIZE_MAX, INT4_COLUMNS_MAX
from sslm.program.buffers import EXPONENT_MAX_GATED, EXPONENT_MAX_INT32, Buffer, BufferKind
from sslm.program.states import State, StateKind
from sslm.program.tensors import Encoding

EPSILON_BITS_MAX: Final = 46
"""Bits of RMSNorm's scaled epsilon: with the sum of squares, below 2**46 too, it fits 64 bits."""


class SaturationSite(IntEnum):
    """Counters of values that had to be clamped to 32 bits, kept per sequence."""

    RESIDUAL = 0
    NORM = 1
    QKV = 2
    ROPE = 3
    ATTENTION = 4
    GATE_UP = 5


class RowRule(IntEnum):
    """How the rows of an op depend on one another; never across sequences."""

    ROWWISE = 0
    CAUSAL = 1
    """Reads earlier positions of its own sequence; all rows of the span append before any reads."""
    SCAN = 2
    """Walks its span in order; the fixed state is committed at the end of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epsilon:
    """A small rational ``mantissa * 2**-shift``, exact as the source file has it."""

    mantissa: int
    shift: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRef:
    """A weight matrix by name, with what an op must know of it before it is bound.

    The codes lie in the tensor ``name``, panels [out_features, in_features] of ``encoding``:
    PANEL_INT8 or PANEL_INT4, whatever other matrices have. ``mantissas`` is the int32 tensor
    [out_features] of row scales, in 0 … 2**24 - 1 (int4: 2**23 - 1), at ``exponent``; ``bias`` the
    int32 tensor [out_features] at the output's fraction bits.
    """

    name: str
    out_features: int
    in_features: int
    mantissas: str
    exponent: int
    bias: str | None = None
    encoding: Encoding = Encoding.PANEL_INT8

    @property
    def in_features_max(self) -> int:
        """How many inputs a row may have for its exact sum to be below 2**38."""
        is_int4 = self.encoding is Encoding.PANEL_INT4
        return INT4_COLUMNS_MAX if is_int4 else HIDDEN_SIZE_MAX

    def tensor_names(self) -> list[str]:
        """Return the tensors behind the matrix."""
        return [self.name, self.mantissas, *([] if self.bias is None else [self.bias])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """Base of the op records."""

    row_rule: ClassVar[RowRule] = RowRule.ROWWISE
    writes_state: ClassVar[bool] = False

    def tensor_names(self) -> list[str]:
        """Return the constant tensors that the op reads."""
        return []

    def states(self) -> list[State]:
        """Return the sequence states that the op reads or writes."""
        values = (getattr(self, field.name) for field in fields(self))
        return [value for value in values if isinstance(value, State)]

    def _require(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            raise OpShapeError(type(self).__name__, what, str(found), str(expected))

    def _bound(self, what: str, found: int, lowest: int, highest: int) -> None:
        if not lowest <= found <= highest:
            raise AccumulatorBoundError(type(self).__name__, what, found, lowest, highest)

    def _require_kind(self, buffer: Buffer, kind: BufferKind, width: int) -> None:
        self._require(f"the kind of {buffer.name}", buffer.kind.value, kind.value)
        self._require(f"the width of {buffer.name}", buffer.width, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed(Op):
    """Look token ids up in the embedding (3.1)."""

    table: MatrixRef
    out: Buffer

    def tensor_names(self) -> list[str]:
        """Return the constant tensors that the op reads."""
        return self.table.tensor_names()

    def __post_init__(self) -> None:
        self._require_kind(self.out, BufferKind.INT32, self.table.in_features)
        self._bound("in_features", self.table.in_features, 1, self.table.in_features_max)
        self._bound("exponent", self.table.exponent, -24, 62)


@dataclass(frozen=True, slots=True, kw_only=True)
class RmsNorm(Op):
    """Divide each group of values by its root mean square, times a gain (3.2).

    ``gain`` is the int32 tensor [group_size], |gain| <= 2**23, at ``gain_exponent``; source and
    out may be the same buffer. Widest accumulator: code * reciprocal * gain, below 2**62.
    """

    source: Buffer
    out: Buffer
    group_size: int
    gain: str
    gain_exponent: int
    epsilon: Epsilon

    def tensor_names(self) -> list[str]:
        """Return the constant tensors that the op reads."""
        return [self.gain]

    def __post_init__(self) -> None:
        self._require_kind(self.source, BufferKind.INT32, self.source.width)
        self._require_kind(self.out, BufferKind.INT32, self.source.width)
        self._bound("group size", self.group_size, 1, HIDDEN_SIZE_MAX)
        self._require("the rest of width by group size", self.source.width % self.group_size, 0)
        self._bound("gain exponent", self.gain_exponent, -32, 62)
        self._bound("output fraction bits", self.out.fraction_bits, -64, self.gain_exponent + 24)
        self._bound("epsilon mantissa", self.epsilon.mantissa, 0, (1 << 24) - 1)
        self._bound("epsilon shift", self.epsilon.shift, 0, 160)
        product = self.group_size * self.epsilon.mantissa
        shift = 2 * self.source.fraction_bits - self.epsilon.shift
        epsilon_bits = product.bit_length() + shift
        self._bound("bits of scaled epsilon", epsilon_bits, -256, EPSILON_BITS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantize(Op):
    """Turn a row of int32 into 16-bit block floating point (3.3)."""

    source: Buffer
    out: Buffer

    def __post_init__(self) -> None:
        self._require_kind(self.source, BufferKind.INT32, self.source.width)
        self._require_kind(self.out, BufferKind.CODES, self.source.width)
        self._require("fraction bits", self.out.fraction_bits, self.source.fraction_bits)
        self._require("exponent bound", self.out.exponent_max, EXPONENT_MAX_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(Op):
    """Multiply a row of codes by a weight matrix (3.4).

    Widest accumulators: the exact sum, below 2**38, times a 24-bit mantissa, below 2**62. With
    ``accumulates`` the previous value of out is added before the one saturation.
    """

    source: Buffer
    out: Buffer
    matrix: MatrixRef
    accumulates: bool
    site: SaturationSite

    def tensor_names(self) -> list[str]:
        """Return the constant tensors that the op reads."""
        return self.matrix.tensor_names()

    def __post_init__(self) -> None:
        self._require_kind(self.source, BufferKind.CODES, self.matrix.in_features)
        self._require_kind(self.out, BufferKind.INT32, self.matrix.out_features)
        self._bound("in_features", self.matrix.in_features, 1, self.matrix.in_features_max)
        self._bound("exponent", self.matrix.exponent, self.source.exponent_max - 24, 110)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope(Op):
    """Rotate pairs of each head by the angle of the row's position, in place (3.5).

    ``cos`` and ``sin`` are int32 tensors [positions, rotary_dim / 2] with 30 fraction bits. Widest
    accumulator: the sum of two 61-bit products.
    """

    buffer: Buffer
    head_dim: int
    rotary_dim: int
    pairing: Literal["interleaved", "half"]
    cos: str
    sin: str
    position_count: int

    def tensor_names(self) -> list[str]:
        """Return the constant tensors that the op reads."""
        return [self.cos, self.sin]

    def __post_init__(self) -> None:
        self._require_kind(self.buffer, BufferKind.INT32, self.buffer.width)
        self._bound("rotary_dim", self.rotary_dim, 2, self.head_dim)
        self._require("the parity of rotary_dim", self.rotary_dim % 2, 0)
        self._require("the rest of width by head_dim", self.buffer.width % self.head_dim, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Op):
    """Store a row of keys or values, in block floating point per head, at its position (3.6)."""

    writes_state: ClassVar[bool] = True

    source: Buffer
    state: State

    def __post_init__(self) -> None:
        width = self.state.head_count * self.state.head_dim
        self._require_kind(self.source, BufferKind.INT32, width)
        self._require("whether the state is paged", self.state.is_paged, True)
        self._require("fraction bits", self.source.fraction_bits, self.state.fraction_bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention(Op):
    """Softmax attention of each query head over the visible positions (3.7).

    ``window`` is the number of positions that a row sees, itself included; None is all. The factor
    log2(e) / sqrt(head_dim) is already in the queries. Widest accumulators, for what the states
    allow as head_dim: query times key below 2**38; block sums below 2**41; their total below 2**62.
    """

    row_rule: ClassVar[RowRule] = RowRule.CAUSAL

    query: Buffer
    out: Buffer
    keys: State
    values: State
    num_attention_heads: int
    window: int | None

    def __post_init__(self) -> None:
        head_dim = self.keys.head_dim
        width = self.num_attention_heads * head_dim
        self._require("head_dim of values", self.values.head_dim, head_dim)
        self._bound("key heads", self.keys.head_count, 1, self.num_attention_heads)
        self._require("heads of values", self.values.head_count, self.keys.head_count)
        self._require("the rest of heads", self.num_attention_heads % self.keys.head_count, 0)
        self._require("kind of keys", self.keys.kind, StateKind.PAGED_KEYS)
        self._require("kind of values", self.values.kind, StateKind.PAGED_VALUES)
        self._require_kind(self.query, BufferKind.INT32, width)
        self._require_kind(self.out, BufferKind.INT32, width)
        self._require("fraction bits", self.out.fraction_bits, self.values.fraction_bits)
        score_bits = self.query.fraction_bits + self.keys.fraction_bits
        self._bound("fraction bits of query plus key", score_bits, 26, 78)
        if self.window is not None:
            self._bound("window", self.window, 1, 1 << 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedActivation(Op):
    """Multiply SiLU of the gate by the up projection, into codes (3.8).

    Widest accumulator: activated gate times up, below 2**62.
    """

    gate: Buffer
    up: Buffer
    out: Buffer

    def __post_init__(self) -> None:
        width = self.gate.width
        self._require_kind(self.gate, BufferKind.INT32, width)
        self._require_kind(self.up, BufferKind.INT32, width)
        self._require_kind(self.out, BufferKind.CODES, width)
        self._bound("gate fraction bits", self.gate.fraction_bits, 0, 40)
        fraction_bits = self.gate.fraction_bits + self.up.fraction_bits
        self._require("fraction bits", self.out.fraction_bits, fraction_bits)
        self._require("exponent bound", self.out.exponent_max, EXPONENT_MAX_GATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Add(Op):
    """Add a row to another, in place: ``target += source``, saturating (3.9)."""

    source: Buffer
    target: Buffer

    def __post_init__(self) -> None:
        self._require_kind(self.source, BufferKind.INT32, self.target.width)
        self._require_kind(self.target, BufferKind.INT32, self.target.width)
        self._require("fraction bits", self.source.fraction_bits, self.target.fraction_bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logits(Op):
    """Score rows first_row … last_row - 1 of the vocabulary exactly (3.10).

    Only for rows of the run that asked for logits. first_row is a multiple of 16. Widest
    accumulator: the exact sum times a 24-bit mantissa, below 2**62.
    """

    source: Buffer
    out: Buffer
    matrix: MatrixRef
    first_row: int
    last_row: int

    def tensor_names(self) -> list[str]:
        """Return the constant tensors that the op reads."""
        return self.matrix.tensor_names()

    def __post_init__(self) -> None:
        self._require_kind(self.source, BufferKind.CODES, self.matrix.in_features)
        self._require_kind(self.out, BufferKind.LOGITS, self.matrix.out_features)
        self._bound("in_features", self.matrix.in_features, 1, self.matrix.in_features_max)
        self._bound("first row", self.first_row, 0, self.last_row - 1)
        self._bound("last row", self.last_row, 1, self.matrix.out_features)
        self._require("the rest of the first row by 16", self.first_row % 16, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choose(Op):
    """Choose the token after each row with logits, as its span says (3.11 and section 5).

    Widest accumulator: the sum of the weights of 2**20 ids, 40 bits each.
    """

    logits: Buffer
    out: Buffer

    def __post_init__(self) -> None:
        self._require_kind(self.logits, BufferKind.LOGITS, self.logits.width)
        self._require_kind(self.out, BufferKind.TOKENS, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingAverage(Op):
    """Replace each row by a running average over the sequence so far (3.12)."""

    row_rule: ClassVar[RowRule] = RowRule.SCAN
    writes_state: ClassVar[bool] = True

    source: Buffer
    out: Buffer
    state: State

    def __post_init__(self) -> None:
        self._require_kind(self.source, BufferKind.INT32, self.state.head_dim)
        self._require_kind(self.out, BufferKind.INT32, self.state.head_dim)
        self._require("whether the state is fixed", self.state.kind, StateKind.FIXED)
        self._require("fraction bits", self.out.fraction_bits, self.source.fraction_bits)
        self._require("those of the state", self.state.fraction_bits, self.source.fraction_bits)
