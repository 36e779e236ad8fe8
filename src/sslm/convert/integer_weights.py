"""All weights of a source as integers, before the fraction bits of activations are known."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from sslm.convert.flips import Float64Array
from sslm.convert.int4_rounding import round_to_int4
from sslm.convert.quantize import (
    GAIN_BITS,
    MANTISSA_BITS,
    Mantissas,
    pack_int4_panels,
    pack_panels,
    quantize_rows,
    to_mantissas,
)
from sslm.convert.rope_tables import Int32Array, rope_tables
from sslm.convert.source import GgufModelSource
from sslm.convert.weight_formats import INT8_WEIGHTS, WeightFormats
from sslm.model.config import ModelConfig
from sslm.model.families import weight_shapes
from sslm.model.fraction_bits import NORM_HEADROOM_BITS, FractionBits
from sslm.numerics.rounding import INT32_MAX
from sslm.program.tensors import INT4_MANTISSA_BITS, Encoding, Tensor
from sslm.progress import Progress

LOG2_E: Final = 1.4426950408889634
"""The binary64 number nearest to log2(e): attention works in powers of two."""

_LINEAR_EXPONENT_MAX: Final = 110
_EMBED_EXPONENT_MAX: Final = 62


@dataclass(frozen=True, slots=True)
class Matrix:
    """Codes in panels, and row scales at an exponent that assumes integers without fractions."""

    encoding: Encoding
    shape: tuple[int, int]
    panels: bytes
    scales: Mantissas


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerWeights:
    """Weights as integers; :meth:`tensors` adds what depends on fraction bits.

    Args:
        config: Of the source.
        matrices: By canonical name.
        head_scales: Row scales of the output projection, which may share its codes.
        gains: Norm gains times the root of their width, by canonical name.
        biases: float64 by canonical name, with the attention factor folded in.
        rope: Bytes of the tables of cosines and sines.
    """

    config: ModelConfig
    matrices: dict[str, Matrix]
    head_scales: Mantissas
    gains: dict[str, Mantissas]
    biases: dict[str, Float64Array]
    rope: tuple[memoryview, memoryview]

    def tensors(self, bits: FractionBits) -> dict[str, Tensor]:
        """Return every tensor of the artifact for these fraction bits, by name."""
        found: dict[str, Tensor] = {}
        for name, matrix in self.matrices.items():
            found[name] = _tensor(name, matrix.encoding, matrix.shape, 0, matrix.panels)
            if name == "lm_head":
                continue
            highest = _EMBED_EXPONENT_MAX if name == "embed" else _LINEAR_EXPONENT_MAX
            shift = self._input_bits(name, bits) - output_bits(name, bits)
            scales = Mantissas(matrix.scales.values, matrix.scales.exponent + shift)
            _add(found, f"{name}.mantissas", scales.at_most(highest))
        head_bits = self.gains["final_norm"].exponent + NORM_HEADROOM_BITS
        head = Mantissas(self.head_scales.values, self.head_scales.exponent + head_bits)
        _add(found, "lm_head.mantissas", head)
        for name, gain in self.gains.items():
            _add(found, name, gain)
        for name, bias in self.biases.items():
            scaled = np.rint(np.ldexp(bias, output_bits(name.removesuffix(".bias"), bits)))
            clipped = np.clip(scaled, -INT32_MAX, INT32_MAX).astype(np.int32)
            _add(found, name, Mantissas(clipped, 0))
        table = self.config.max_position_embeddings, self.config.rotary_dim // 2
        for name, data in zip(("rope.cos", "rope.sin"), self.rope, strict=True):
            found[name] = _tensor(name, Encoding.INT32, table, 0, data)
        return found

    def _input_bits(self, name: str, bits: FractionBits) -> int:
        """Return the fraction bits of the codes that a matrix multiplies."""
        if name == "embed":
            return 0
        prefix, _, projection = name.rpartition(".")
        layer = bits.layers[int(prefix.split(".")[1])]
        match projection:
            case "o_proj":
                return layer.v
            case "down_proj":
                return layer.gate + layer.up
            case "gate_proj" | "up_proj":
                norm = f"{prefix}.post_attention_layernorm"
            case _:
                norm = f"{prefix}.input_layernorm"
        return self.gains[norm].exponent + NORM_HEADROOM_BITS


def output_bits(name: str, bits: FractionBits) -> int:
    """Return the fraction bits at which a matrix, by canonical name, writes its output."""
    prefix, _, projection = name.rpartition(".")
    if name == "embed" or projection in ("o_proj", "down_proj"):
        return bits.residual
    layer = bits.layers[int(prefix.split(".")[1])]
    width: int = getattr(layer, projection.removesuffix("_proj"))
    return width


def read_integer_weights(
    source: GgufModelSource,
    on_progress: Progress,
    transform: Callable[[str, Float64Array], Float64Array] = lambda name, weight: weight,
    correlations: Callable[[str], Float64Array | None] = lambda name: None,
    *,
    rope: tuple[memoryview, memoryview] | None = None,
    formats: WeightFormats = INT8_WEIGHTS,
) -> IntegerWeights:
    """Quantize every weight of a source.

    Args:
        source: The model.
        on_progress: Called with weights done and in all.
        transform: Applied to each weight, by canonical name, before it is rounded.
        correlations: Of the inputs of a matrix, by canonical name, to round it against.
        rope: The rotary tables, if they were computed before.
        formats: Of the matrices.
    """
    reader = _Reader(source.config)
    shapes = weight_shapes(source.config)
    total = sum(math.prod(shape) for shape in shapes.values())
    done = 0
    for name, shape in shapes.items():
        weight = transform(name, source.tensor(name).astype(np.float64))
        if weight.ndim == 2:
            reader.add_matrix(name, weight, correlations(name), formats.encoding(name))
        else:
            reader.add_vector(name, weight)
        done += math.prod(shape)
        on_progress(done, total)
    return reader.finish(rope)


class _Reader:
    """Collects the weights of one model."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._matrices: dict[str, Matrix] = {}
        self._gains: dict[str, Mantissas] = {}
        self._biases: dict[str, Float64Array] = {}
        self._head_scales: Mantissas | None = None
        self._rope_factors: list[float] | None = None

    def add_matrix(
        self,
        name: str,
        weight: Float64Array,
        correlations: Float64Array | None,
        encoding: Encoding,
    ) -> None:
        """Round a matrix; the output projection also gets scales of its own."""
        rows, columns = weight.shape
        if encoding is Encoding.PANEL_INT4:
            independent = np.eye(columns) if correlations is None else correlations
            rounded = round_to_int4(weight, independent)
            panels = pack_int4_panels(rounded.codes, rounded.scales)
            scales, bits = rounded.units, INT4_MANTISSA_BITS
        else:
            codes, scales = quantize_rows(weight, correlations)
            panels, bits = pack_panels(codes), MANTISSA_BITS
        row_scales = to_mantissas(scales * self._fold(name), bits)
        self._matrices[name] = Matrix(encoding, (rows, columns), panels, row_scales)
        if name == ("embed" if self._config.tie_word_embeddings else "lm_head"):
            self._head_scales = to_mantissas(scales, bits)

    def add_vector(self, name: str, weight: Float64Array) -> None:
        """Round a gain, or keep what something else is computed from."""
        if name == "rope_factors":
            self._rope_factors = weight.tolist()
        elif name.endswith(".bias"):
            self._biases[name] = weight * self._fold(name)
        else:
            self._gains[name] = to_mantissas(weight * math.sqrt(len(weight)), GAIN_BITS)

    def _fold(self, name: str) -> float:
        """Return the factor that attention expects in its queries."""
        return LOG2_E / math.sqrt(self._config.head_dim) if ".q_proj" in name else 1.0

    def finish(self, rope: tuple[memoryview, memoryview] | None) -> IntegerWeights:
        """Return all weights with the rotary tables."""
        if rope is None:
            cos, sin = rope_tables(self._config, self._rope_factors)
            rope = _little_endian(cos), _little_endian(sin)
        if self._head_scales is None:
            raise AssertionError("weight_shapes names an output projection")
        return IntegerWeights(
            config=self._config,
            matrices=self._matrices,
            head_scales=self._head_scales,
            gains=self._gains,
            biases=self._biases,
            rope=rope,
        )


def _add(tensors: dict[str, Tensor], name: str, values: Mantissas) -> None:
    data = _little_endian(values.values)
    tensors[name] = _tensor(name, Encoding.INT32, values.values.shape, values.exponent, data)


def _little_endian(values: Int32Array) -> memoryview:
    """Return the bytes of *values*, whose memory is shared where it has them in this order."""
    return values.astype("<i4", copy=False).data.cast("B").toreadonly()


def _tensor(
    name: str, encoding: Encoding, shape: tuple[int, ...], exponent: int, data: bytes | memoryview
) -> Tensor:
    return Tensor(
        name=name, encoding=encoding, shape=shape, exponent=exponent, data=memoryview(data)
    )
