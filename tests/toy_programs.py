"""A small recurrent model: what shows that states other than keys and values work.

Two layers, each a moving average over the sequence that is added to the residual, between an
embedding and a head of its own. Odd sizes throughout: width 20, vocabulary 37.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sslm.convert.quantize import pack_panels
from sslm.program import ops
from sslm.program.buffers import EXPONENT_MAX_INT32, Buffer, BufferKind
from sslm.program.program import Program, Segment, SegmentKind
from sslm.program.states import State, StateKind
from sslm.program.tensors import Encoding, Tensor

HIDDEN_SIZE = 20
VOCAB_SIZE = 37
CONTEXT_TOKENS = 300
LAYER_COUNT = 2

_RESIDUAL_BITS = 16
_GAIN_EXPONENT = 18
_NORMED_BITS = _GAIN_EXPONENT + 6
_EMBED_EXPONENT = 12
_HEAD_EXPONENT = 55
"""Makes logits a few units apart, so that there is something to sample."""
_EPSILON = ops.Epsilon(mantissa=1, shift=17)

_RESIDUAL = Buffer(
    name="residual", kind=BufferKind.INT32, width=HIDDEN_SIZE, fraction_bits=_RESIDUAL_BITS
)
_AVERAGED = Buffer(
    name="averaged", kind=BufferKind.INT32, width=HIDDEN_SIZE, fraction_bits=_RESIDUAL_BITS
)
_NORMED = Buffer(
    name="normed", kind=BufferKind.INT32, width=HIDDEN_SIZE, fraction_bits=_NORMED_BITS
)
_CODES = Buffer(
    name="codes",
    kind=BufferKind.CODES,
    width=HIDDEN_SIZE,
    fraction_bits=_NORMED_BITS,
    exponent_max=EXPONENT_MAX_INT32,
)
_LOGITS = Buffer(name="logits", kind=BufferKind.LOGITS, width=VOCAB_SIZE)
_SELECTED = Buffer(name="selected", kind=BufferKind.TOKENS, width=1)


@dataclass(frozen=True)
class ToyModel:
    """A program with the tensors that it names."""

    program: Program
    tensors: dict[str, Tensor]


def moving_average_model(seed: int = 1, *, head_exponent: int = _HEAD_EXPONENT) -> ToyModel:
    """Build the recurrent model with seeded random weights.

    A lower *head_exponent* makes every logit larger, by a factor of two for each.
    """
    layers = [_layer(index) for index in range(LAYER_COUNT)]
    program = Program(
        residual=_RESIDUAL,
        states=tuple(state for state, _ in layers),
        segments=(
            Segment(
                kind=SegmentKind.EMBED,
                index=0,
                ops=(ops.Embed(table=_matrix("embed", _EMBED_EXPONENT), out=_RESIDUAL),),
            ),
            *(segment for _, segment in layers),
            # Two head segments, as a large vocabulary has: 0 … 15 and 16 … 36.
            _head(0, 0, 16, head_exponent),
            _head(1, 16, VOCAB_SIZE, head_exponent),
            Segment(
                kind=SegmentKind.SELECT,
                index=0,
                ops=(ops.Choose(logits=_LOGITS, out=_SELECTED),),
            ),
        ),
        vocab_size=VOCAB_SIZE,
        max_position_embeddings=CONTEXT_TOKENS,
    )
    generator = np.random.PCG64(seed)
    tensors = [*_random_matrix("embed", generator), *_random_matrix("head", generator)]
    gains = 1 << 20 | generator.random_raw(HIDDEN_SIZE).astype(np.int64) & 0xFFFFF
    tensors.append(int32_tensor("final_norm", gains, _GAIN_EXPONENT))
    return ToyModel(program, {tensor.name: tensor for tensor in tensors})


def int32_tensor(name: str, values: npt.ArrayLike, exponent: int = 0) -> Tensor:
    """A tensor of the given numbers, in the shape that they have."""
    numbers = np.asarray(values, dtype="<i4")
    return Tensor(
        name=name,
        encoding=Encoding.INT32,
        shape=numbers.shape,
        exponent=exponent,
        data=memoryview(numbers.tobytes()),
    )


def panel_tensor(name: str, codes: npt.ArrayLike) -> Tensor:
    """A tensor of int8 codes [rows, columns]."""
    numbers = np.asarray(codes, dtype=np.int8)
    return Tensor(
        name=name,
        encoding=Encoding.PANEL_INT8,
        shape=numbers.shape,
        exponent=0,
        data=memoryview(pack_panels(numbers)),
    )


def _layer(index: int) -> tuple[State, Segment]:
    state = State(
        name=f"layers.{index}.average",
        kind=StateKind.FIXED,
        segment_index=index + 1,
        head_count=1,
        head_dim=HIDDEN_SIZE,
        fraction_bits=_RESIDUAL_BITS,
    )
    average = ops.MovingAverage(source=_RESIDUAL, out=_AVERAGED, state=state)
    add = ops.Add(source=_AVERAGED, target=_RESIDUAL)
    return state, Segment(kind=SegmentKind.LAYER, index=index, ops=(average, add))


def _head(index: int, first_row: int, last_row: int, exponent: int) -> Segment:
    norm = ops.RmsNorm(
        source=_RESIDUAL,
        out=_NORMED,
        group_size=HIDDEN_SIZE,
        gain="final_norm",
        gain_exponent=_GAIN_EXPONENT,
        epsilon=_EPSILON,
    )
    logits = ops.Logits(
        source=_CODES,
        out=_LOGITS,
        matrix=_matrix("head", exponent),
        first_row=first_row,
        last_row=last_row,
    )
    quantize = ops.Quantize(source=_NORMED, out=_CODES)
    return Segment(kind=SegmentKind.HEAD, index=index, ops=(norm, quantize, logits))


def _matrix(name: str, exponent: int) -> ops.MatrixRef:
    return ops.MatrixRef(
        name=name,
        out_features=VOCAB_SIZE,
        in_features=HIDDEN_SIZE,
        mantissas=f"{name}.mantissas",
        exponent=exponent,
    )


def _random_matrix(name: str, generator: np.random.PCG64) -> list[Tensor]:
    """Codes and mantissas from raw numbers, which no version of NumPy changes."""
    raw = generator.random_raw(VOCAB_SIZE * HIDDEN_SIZE) >> np.uint64(40)
    codes = (raw.astype(np.int64) % 255 - 127).reshape(VOCAB_SIZE, HIDDEN_SIZE)
    mantissas = 1 << 23 | generator.random_raw(VOCAB_SIZE).astype(np.int64) & 0x7FFFFF
    return [panel_tensor(name, codes), int32_tensor(f"{name}.mantissas", mantissas)]
