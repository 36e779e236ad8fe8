"""The llama architecture as a program: grouped-query attention, SwiGLU, RMSNorm, rotary positions.

Tensor names are those of :func:`llama_weight_shapes`, with ``.mantissas`` for the row
scales of a matrix and ``.bias`` for its bias; ``rope.cos`` and ``rope.sin`` hold the rotary tables.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sslm.errors.program import OpShapeError, TensorMissingError
from sslm.model.config import ModelConfig, RopeScalingKind
from sslm.model.fraction_bits import NORM_HEADROOM_BITS, FractionBits, LayerFractionBits
from sslm.program import ops
from sslm.program.buffers import (
    EXPONENT_MAX_GATED,
    EXPONENT_MAX_INT32,
    Buffer,
    BufferKind,
)
from sslm.program.ops import SaturationSite
from sslm.program.program import Program, Segment, SegmentKind, head_blocks
from sslm.program.states import State, StateKind
from sslm.program.tensors import Tensor, Tensors


def llama_weight_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return every weight of a llama model by canonical name, with its shape, in a fixed order.

    A linear weight is [outputs, inputs]; the bias of ``NAME`` is ``NAME.bias``. ``lm_head`` is
    absent when it is the embedding; ``rope_factors`` is present for llama3 scaling alone.
    """
    shapes: dict[str, tuple[int, ...]] = {"embed": (config.vocab_size, config.hidden_size)}
    if config.rope_scaling is not None and config.rope_scaling.kind is RopeScalingKind.LLAMA3:
        shapes["rope_factors"] = (config.rotary_dim // 2,)
    for layer in range(config.num_hidden_layers):
        for name, shape in _layer_shapes(config):
            shapes[f"layers.{layer}.{name}"] = shape
    shapes["final_norm"] = (config.hidden_size,)
    if not config.tie_word_embeddings:
        shapes["lm_head"] = (config.vocab_size, config.hidden_size)
    return shapes


def _layer_shapes(config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, intermediate = config.hidden_size, config.intermediate_size
    yield "input_layernorm", (hidden,)
    yield from _linear("q_proj", config.query_size, hidden, config.has_qkv_bias)
    yield from _linear("k_proj", config.key_value_size, hidden, config.has_qkv_bias)
    yield from _linear("v_proj", config.key_value_size, hidden, config.has_qkv_bias)
    yield from _linear("o_proj", hidden, config.query_size, config.has_o_bias)
    yield "post_attention_layernorm", (hidden,)
    yield from _linear("gate_proj", intermediate, hidden, config.has_mlp_bias)
    yield from _linear("up_proj", intermediate, hidden, config.has_mlp_bias)
    yield from _linear("down_proj", hidden, intermediate, config.has_mlp_bias)


def _linear(
    name: str, outputs: int, inputs: int, has_bias: bool
) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield name, (outputs, inputs)
    if has_bias:
        yield f"{name}.bias", (outputs,)


def build_llama(
    config: ModelConfig, fraction_bits: FractionBits, tensors: Tensors, *, padding_count: int = 0
) -> Program:
    """Build the program of a llama model.

    Args:
        config: Sizes of the model.
        fraction_bits: Static binary points, one record per layer.
        tensors: Every tensor of the artifact; only shapes and exponents are looked at.
        padding_count: Ids at the end of the vocabulary that have no token.

    Raises:
        TensorMissingError: If a tensor of the architecture is not there.
        OpShapeError: If there are fraction bits for another number of layers, or shapes disagree.
        AccumulatorBoundError: If an op cannot prove that its sums fit.
    """
    layer_count = len(fraction_bits.layers)
    if layer_count != config.num_hidden_layers:
        expected = str(config.num_hidden_layers)
        raise OpShapeError("llama", "layers with fraction bits", str(layer_count), expected)
    builder = _Builder(config, fraction_bits, tensors)
    layers = [builder.layer(index, bits) for index, bits in enumerate(fraction_bits.layers)]
    embed = ops.Embed(table=builder.matrix("embed"), out=builder.residual)
    return Program(
        residual=builder.residual,
        states=tuple(state for layer in layers for state in layer.states),
        segments=(
            Segment(kind=SegmentKind.EMBED, index=0, ops=(embed,)),
            *(layer.segment for layer in layers),
            *builder.heads(),
            builder.select(),
        ),
        vocab_size=config.vocab_size,
        max_position_embeddings=config.max_position_embeddings,
        padding_count=padding_count,
    )


@dataclass(frozen=True, slots=True)
class _Layer:
    segment: Segment
    states: tuple[State, State]


class _Builder:
    def __init__(self, config: ModelConfig, fraction_bits: FractionBits, tensors: Tensors) -> None:
        self._config = config
        self._tensors = tensors
        eps = config.rms_norm_eps
        self._epsilon = ops.Epsilon(mantissa=eps.numerator, shift=eps.denominator.bit_length() - 1)
        self.residual = Buffer(
            name="residual",
            kind=BufferKind.INT32,
            width=config.hidden_size,
            fraction_bits=fraction_bits.residual,
        )
        self._logits = Buffer(name="logits", kind=BufferKind.LOGITS, width=config.vocab_size)

    def layer(self, index: int, bits: LayerFractionBits) -> _Layer:
        """Attention, then the feed-forward block, each added to the residual."""
        prefix = f"layers.{index}"
        keys = self._state(f"{prefix}.keys", StateKind.PAGED_KEYS, index, bits.k)
        values = self._state(f"{prefix}.values", StateKind.PAGED_VALUES, index, bits.v)
        segment = Segment(
            kind=SegmentKind.LAYER,
            index=index,
            ops=(*self._attention(prefix, bits, keys, values), *self._feed_forward(prefix, bits)),
        )
        return _Layer(segment, (keys, values))

    def _attention(
        self, prefix: str, bits: LayerFractionBits, keys: State, values: State
    ) -> tuple[ops.Op, ...]:
        config = self._config
        normed, norm = self._norm(f"{prefix}.input_layernorm", "attention input")
        q = _int32("q", config.query_size, bits.q)
        k = _int32("k", config.key_value_size, bits.k)
        v = _int32("v", config.key_value_size, bits.v)
        mixed = _int32("mixed", config.query_size, bits.v)
        mixed_codes = _codes("mixed codes", mixed)
        return (
            *norm,
            self._linear(f"{prefix}.q_proj", normed, q, SaturationSite.QKV),
            self._linear(f"{prefix}.k_proj", normed, k, SaturationSite.QKV),
            self._linear(f"{prefix}.v_proj", normed, v, SaturationSite.QKV),
            self._rope(q),
            self._rope(k),
            ops.Append(source=k, state=keys),
            ops.Append(source=v, state=values),
            ops.Attention(
                query=q,
                out=mixed,
                keys=keys,
                values=values,
                num_attention_heads=config.num_attention_heads,
                window=None,
            ),
            ops.Quantize(source=mixed, out=mixed_codes),
            self._add_linear(f"{prefix}.o_proj", mixed_codes),
        )

    def _feed_forward(self, prefix: str, bits: LayerFractionBits) -> tuple[ops.Op, ...]:
        size = self._config.intermediate_size
        normed, norm = self._norm(f"{prefix}.post_attention_layernorm", "mlp input")
        gate, up = _int32("gate", size, bits.gate), _int32("up", size, bits.up)
        gated = Buffer(
            name="gated",
            kind=BufferKind.CODES,
            width=size,
            fraction_bits=bits.gate + bits.up,
            exponent_max=EXPONENT_MAX_GATED,
        )
        return (
            *norm,
            self._linear(f"{prefix}.gate_proj", normed, gate, SaturationSite.GATE_UP),
            self._linear(f"{prefix}.up_proj", normed, up, SaturationSite.GATE_UP),
            ops.GatedActivation(gate=gate, up=up, out=gated),
            self._add_linear(f"{prefix}.down_proj", gated),
        )

    def heads(self) -> tuple[Segment, ...]:
        """Score the vocabulary in blocks; each repeats the final norm, which costs next to nothing.

        So a head block is a budget unit of its own, and nothing but logits outlives it.
        """
        config = self._config
        normed, norm = self._norm("final_norm", "head input")
        name = "embed" if config.tie_word_embeddings else "lm_head"
        matrix = self.matrix(name, "lm_head")
        blocks = head_blocks(config.vocab_size, config.hidden_size)
        return tuple(
            Segment(
                kind=SegmentKind.HEAD,
                index=index,
                ops=(
                    *norm,
                    ops.Logits(
                        source=normed,
                        out=self._logits,
                        matrix=matrix,
                        first_row=first,
                        last_row=last,
                    ),
                ),
            )
            for index, (first, last) in enumerate(blocks)
        )

    def select(self) -> Segment:
        """Choose the token."""
        selected = Buffer(name="selected", kind=BufferKind.TOKENS, width=1)
        choose = ops.Choose(logits=self._logits, out=selected)
        return Segment(kind=SegmentKind.SELECT, index=0, ops=(choose,))

    def matrix(self, name: str, scale_name: str | None = None) -> ops.MatrixRef:
        """Refer to a matrix; a tied head has the embedding's codes with scales of its own."""
        codes = self._tensor(name)
        out_features, in_features = codes.shape
        mantissas = self._tensor(f"{scale_name or name}.mantissas")
        bias = f"{name}.bias"
        return ops.MatrixRef(
            name=name,
            out_features=out_features,
            in_features=in_features,
            mantissas=mantissas.name,
            exponent=mantissas.exponent,
            bias=bias if bias in self._tensors else None,
            encoding=codes.encoding,
        )

    def _linear(self, name: str, source: Buffer, out: Buffer, site: SaturationSite) -> ops.Linear:
        return ops.Linear(
            source=source, out=out, matrix=self.matrix(name), accumulates=False, site=site
        )

    def _add_linear(self, name: str, source: Buffer) -> ops.Linear:
        return ops.Linear(
            source=source,
            out=self.residual,
            matrix=self.matrix(name),
            accumulates=True,
            site=SaturationSite.RESIDUAL,
        )

    def _norm(self, name: str, label: str) -> tuple[Buffer, tuple[ops.Op, ops.Op]]:
        gain = self._tensor(name)
        normed = _int32(label, self.residual.width, gain.exponent + NORM_HEADROOM_BITS)
        codes = _codes(f"{label} codes", normed)
        norm = ops.RmsNorm(
            source=self.residual,
            out=normed,
            group_size=self.residual.width,
            gain=name,
            gain_exponent=gain.exponent,
            epsilon=self._epsilon,
        )
        return codes, (norm, ops.Quantize(source=normed, out=codes))

    def _rope(self, buffer: Buffer) -> ops.Rope:
        config = self._config
        return ops.Rope(
            buffer=buffer,
            head_dim=config.head_dim,
            rotary_dim=config.rotary_dim,
            pairing=config.rope_pairing.value,
            cos="rope.cos",
            sin="rope.sin",
            position_count=config.max_position_embeddings,
        )

    def _state(self, name: str, kind: StateKind, layer: int, fraction_bits: int) -> State:
        return State(
            name=name,
            kind=kind,
            segment_index=layer + 1,
            head_count=self._config.num_key_value_heads,
            head_dim=self._config.head_dim,
            fraction_bits=fraction_bits,
        )

    def _tensor(self, name: str) -> Tensor:
        if name not in self._tensors:
            raise TensorMissingError(name)
        return self._tensors[name]


def _int32(name: str, width: int, fraction_bits: int) -> Buffer:
    return Buffer(name=name, kind=BufferKind.INT32, width=width, fraction_bits=fraction_bits)


def _codes(name: str, source: Buffer) -> Buffer:
    return Buffer(
        name=name,
        kind=BufferKind.CODES,
        width=source.width,
        fraction_bits=source.fraction_bits,
        exponent_max=EXPONENT_MAX_INT32,
    )
