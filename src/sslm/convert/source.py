"""A model in a GGUF file, as a configuration with float32 weights under canonical names.

GGUF's keys and names are those of its specification (ggml, docs/gguf.md). An architecture is one
:class:`ArchitectureNames`; what llama.cpp computes for a file is what the file means.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from sslm import limits
from sslm.errors.gguf import GgufSplitFileError, GgufWrongValueTypeError
from sslm.errors.model import (
    MixtureOfExpertsError,
    ModelNumberError,
    SourceTensorMissingError,
    SourceTensorShapeError,
    SourceTensorUnexpectedError,
    UnsupportedArchitectureError,
    UnsupportedHyperparameterError,
    UnsupportedRopeScalingError,
)
from sslm.formats.bounded_reader import U16_MAX
from sslm.formats.gguf import GgufFile, GgufTensor, read_gguf
from sslm.formats.gguf_metadata import GgufMetadata, MetadataArray
from sslm.formats.gguf_tensors import dequantize, dequantize_rows
from sslm.formats.gguf_types import ValueType
from sslm.model.config import (
    ModelConfig,
    RopePairing,
    RopeScaling,
    RopeScalingKind,
    weight_shapes,
)

Float32Array = npt.NDArray[np.float32]

_ARCHITECTURE_KEY: Final = "general.architecture"
_TOKENS_KEY: Final = "tokenizer.ggml.tokens"
_U32_MAX: Final = (1 << 32) - 1
_COUNT_TYPES: Final = (ValueType.UINT32, ValueType.INT32)
_F32_MAX: Final = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureNames:
    """How GGUF spells one architecture.

    Args:
        architecture: Value of ``general.architecture``, and prefix of its keys.
        rope_pairing: The order of a head's rows in its files.
        model: Canonical name of a tensor outside the layers -> its GGUF name without the ending.
        layer: Canonical name after ``layers.N.`` -> GGUF name after ``blk.N.``, likewise.
    """

    architecture: str
    rope_pairing: RopePairing
    model: Mapping[str, str]
    layer: Mapping[str, str]

    def gguf_name(self, name: str) -> str:
        """Return what GGUF calls the weight of this canonical name."""
        ending = ".bias" if name.endswith(".bias") else ".weight"
        stem = name.removesuffix(".bias")
        if not stem.startswith("layers."):
            return self.model[stem] + ending
        _, layer, stem = stem.split(".", 2)
        return f"blk.{layer}.{self.layer[stem]}{ending}"


_MODEL_NAMES: Final = {
    "embed": "token_embd",
    "rope_factors": "rope_freqs",
    "final_norm": "output_norm",
    "lm_head": "output",
}
_LAYER_NAMES: Final = {
    "input_layernorm": "attn_norm",
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}

ARCHITECTURES: Final = {
    "llama": ArchitectureNames(
        architecture="llama",
        rope_pairing=RopePairing.INTERLEAVED,
        model=_MODEL_NAMES,
        layer=_LAYER_NAMES,
    ),
}
"""Every architecture that can be read, by its GGUF name."""

_SPLIT_COUNT_KEY: Final = "split.count"
_CAUSAL_KEY: Final = "attention.causal"
_ROTATION_PREFIX: Final = "prism.hadamard."
_NEUTRAL_NUMBERS: Final[dict[str, tuple[float, ...]]] = {
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "attention.scale": (0.0,),
    "embedding_scale": (0.0, 1.0),
    "logit_scale": (0.0, 1.0),
    "residual_scale": (0.0, 1.0),
    "rope.scaling.attn_factor": (0.0, 1.0),
}
"""Optional numbers that name a variant of the computation, and the values that leave it out."""


class GgufModelSource:
    """An open GGUF file whose model is known to be complete; a context manager.

    Args:
        file: A file of one of ``ARCHITECTURES``. Closing the source closes it.

    Attributes:
        file: The records, for what is not a weight: tokenizer, chat template, provenance.
        config: The model's configuration.

    Raises:
        GgufSplitFileError: If the file is one of several that hold the model together.
        UnsupportedArchitectureError: If the architecture is not known.
        MixtureOfExpertsError: If the model has experts.
        UnsupportedHyperparameterError: If a key asks for a variant that is not computed.
        UnsupportedRopeScalingError: If positions are stretched in a way that is not computed.
        SourceTensorMissingError: If a tensor is missing.
        SourceTensorShapeError: If a tensor has another shape than the configuration implies.
        SourceTensorUnexpectedError: If a tensor is left over.
        ArtifactError: Of another class, if a key is missing, mistyped or out of bounds.
    """

    def __init__(self, file: GgufFile) -> None:
        _refuse_split_file(file.metadata)
        architecture = file.metadata.string(_ARCHITECTURE_KEY, at_most=64)
        if architecture not in ARCHITECTURES:
            raise UnsupportedArchitectureError(architecture, ", ".join(sorted(ARCHITECTURES)))
        names = ARCHITECTURES[architecture]
        self.file = file
        self.config = _Keys(file, names).config()
        self._tensors = _checked_tensors(file, names, self.config)
        if "rope_factors" in self._tensors:
            _check_rope_factors(self.tensor("rope_factors"))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open a file by path; raises what ``read_gguf`` and the constructor raise."""
        file = read_gguf(path)
        try:
            return cls(file)
        except BaseException:
            file.close()
            raise

    def tensor(self, name: str) -> Float32Array:
        """Return a new array with a whole weight, float32, in the shape of ``weight_shapes``.

        Raises:
            GgufUnsupportedTensorTypeError: If its type cannot be dequantized.
            GgufNonFiniteWeightError: If an element is infinite or not a number.
        """
        return dequantize(self._tensors[name])

    def rows(self, name: str, *, first_row: int, row_count: int) -> Float32Array:
        """Return rows of a weight, float32 [row_count, columns]; raises as :meth:`tensor` does."""
        return dequantize_rows(self._tensors[name], first_row=first_row, row_count=row_count)

    def close(self) -> None:
        """Give the file back; may be called again."""
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Keys:
    """The metadata of one file, read under the names of its architecture."""

    def __init__(self, file: GgufFile, names: ArchitectureNames) -> None:
        self._metadata: GgufMetadata = file.metadata
        self._tensor_names = frozenset(file.tensors)
        self._names = names
        self._prefix = names.architecture

    def config(self) -> ModelConfig:
        """Build the configuration, whose own bounds check every size."""
        self._refuse_variants()
        hidden_size = self._u32("embedding_length")
        heads = self._head_count("attention.head_count")
        head_dim = self._head_dim(hidden_size, heads)
        return ModelConfig(
            architecture=self._names.architecture,
            vocab_size=len(
                self._metadata.strings(_TOKENS_KEY, at_most=limits.GGUF_ARRAY_COUNT_MAX)
            ),
            hidden_size=hidden_size,
            intermediate_size=self._u32("feed_forward_length"),
            num_hidden_layers=self._u32("block_count"),
            num_attention_heads=heads,
            num_key_value_heads=self._head_count("attention.head_count_kv", default=heads),
            head_dim=head_dim,
            rotary_dim=self._u32_or("rope.dimension_count", head_dim),
            rope_theta=self._number("rope.freq_base", default=10000.0),
            rope_scaling=self._rope_scaling(),
            rope_pairing=self._names.rope_pairing,
            rms_norm_eps=self._number("attention.layer_norm_rms_epsilon"),
            max_position_embeddings=self._u32("context_length"),
            tie_word_embeddings=self._names.gguf_name("lm_head") not in self._tensor_names,
            has_qkv_bias=self._has_bias("q_proj", "k_proj", "v_proj"),
            has_o_bias=self._has_bias("o_proj"),
            has_mlp_bias=self._has_bias("gate_proj", "up_proj", "down_proj"),
        )

    def _refuse_variants(self) -> None:
        experts = self._u32_or("expert_count", 0)
        if experts:
            raise MixtureOfExpertsError(experts)
        for key in self._metadata:
            if key.startswith(_ROTATION_PREFIX):
                expected = "weights that need their inputs rotated are not supported"
                raise UnsupportedHyperparameterError(key, "present", expected)
        if not self._metadata.boolean_or(self._key(_CAUSAL_KEY), default=True):
            raise UnsupportedHyperparameterError(self._key(_CAUSAL_KEY), "False", "supported: True")
        for suffix, neutral in _NEUTRAL_NUMBERS.items():
            key = self._key(suffix)
            found = self._metadata.f32_or(key, neutral[-1], at_least=-_F32_MAX, at_most=_F32_MAX)
            if found not in neutral:
                raise UnsupportedHyperparameterError(key, str(found), f"supported: {neutral[-1]}")
        window, context = self._u32_or("attention.sliding_window", 0), self._u32("context_length")
        if 0 < window < context:
            key = self._key("attention.sliding_window")
            expected = f"a window shorter than the context of {context} tokens is not supported"
            raise UnsupportedHyperparameterError(key, str(window), expected)

    def _head_count(self, suffix: str, *, default: int | None = None) -> int:
        """Return a count that is given once, or for every layer and then always the same."""
        key = self._key(suffix)
        if default is not None and key not in self._metadata:
            return default
        array = self._metadata[key].value
        if not isinstance(array, MetadataArray):
            return self._metadata.u32(key, at_least=1, at_most=_U32_MAX)
        if array.item_type not in _COUNT_TYPES:
            expected = "one uint32, or an array of uint32 or int32"
            raise GgufWrongValueTypeError(key, str(self._metadata[key]), expected)
        layers = self._u32("block_count")
        # The length first: the items become Python objects, and a file may hold millions.
        counts = sorted({int(one) for one in array.items()}) if array.count == layers else []
        if len(counts) != 1 or counts[0] < 1:
            found = f"an array of {array.count} with the values {counts[:8]}"
            expected = f"supported: one count, or the same one {layers} times"
            raise UnsupportedHyperparameterError(key, found, expected)
        return counts[0]

    def _head_dim(self, hidden_size: int, heads: int) -> int:
        key, value_key = self._key("attention.key_length"), self._key("attention.value_length")
        if key not in self._metadata and hidden_size % heads:
            expected = f"needed, since {hidden_size} is no multiple of {heads} heads"
            raise UnsupportedHyperparameterError(key, "missing", expected)
        head_dim = self._u32_or("attention.key_length", hidden_size // heads)
        value_dim = self._u32_or("attention.value_length", hidden_size // heads)
        if value_dim != head_dim:
            expected = f"supported: the same as for keys, {head_dim}"
            raise UnsupportedHyperparameterError(value_key, str(value_dim), expected)
        return head_dim

    def _rope_scaling(self) -> RopeScaling | None:
        has_factors = self._names.gguf_name("rope_factors") in self._tensor_names
        legacy = self._number("rope.scale_linear", default=0.0)
        factor = self._number("rope.scaling.factor", default=float(legacy))
        # A file that says nothing of the kind means linear; a factor of 0 means that there is none.
        kind = self._metadata.string_or(self._key("rope.scaling.type"), "linear", at_most=64)
        is_stretched = kind == RopeScalingKind.LINEAR and factor not in (0, 1)
        supported = "none, linear, or none with a tensor rope_freqs.weight"
        if kind not in ("none", RopeScalingKind.LINEAR):
            raise UnsupportedRopeScalingError(kind, supported)
        if has_factors and is_stretched:
            raise UnsupportedRopeScalingError("linear with rope_freqs.weight", supported)
        if has_factors:
            return RopeScaling(kind=RopeScalingKind.LLAMA3)
        return RopeScaling(kind=RopeScalingKind.LINEAR, factor=factor) if is_stretched else None

    def _has_bias(self, *projections: str) -> bool:
        """Tell whether any layer has any of these biases; then every layer must have them all."""
        endings = tuple(f".{self._names.layer[name]}.bias" for name in projections)
        return any(name.endswith(endings) for name in self._tensor_names)

    def _key(self, suffix: str) -> str:
        return f"{self._prefix}.{suffix}"

    def _u32(self, suffix: str) -> int:
        return self._metadata.u32(self._key(suffix), at_most=_U32_MAX)

    def _u32_or(self, suffix: str, default: int) -> int:
        return self._metadata.u32_or(self._key(suffix), default, at_most=_U32_MAX)

    def _number(self, suffix: str, *, default: float | None = None) -> Fraction:
        """Return a binary32 number exactly."""
        key = self._key(suffix)
        if default is not None and key not in self._metadata:
            return Fraction(default)
        return Fraction(self._metadata.f32(key, at_least=0.0, at_most=_F32_MAX))


def _refuse_split_file(metadata: GgufMetadata) -> None:
    """Raise GgufSplitFileError for a part of a model; parts but the first name no architecture."""
    count = metadata.u16_or(_SPLIT_COUNT_KEY, 1, at_most=U16_MAX)
    if count > 1:
        raise GgufSplitFileError(count)


def _checked_tensors(
    file: GgufFile, names: ArchitectureNames, config: ModelConfig
) -> dict[str, GgufTensor]:
    """Return the file's tensors by canonical name: all of the model's, and no other."""
    found: dict[str, GgufTensor] = {}
    for name, shape in weight_shapes(config).items():
        gguf_name = names.gguf_name(name)
        if gguf_name not in file.tensors:
            raise SourceTensorMissingError(gguf_name, shape)
        tensor = file.tensors[gguf_name]
        if tensor.shape != shape:
            raise SourceTensorShapeError(gguf_name, tensor.shape, shape)
        found[name] = tensor
    left_over = set(file.tensors) - {tensor.name for tensor in found.values()}
    if left_over:
        raise SourceTensorUnexpectedError(min(left_over), names.architecture)
    return found


def _check_rope_factors(factors: Float32Array) -> None:
    for index, factor in enumerate(factors.tolist()):
        if not 0 < factor <= limits.ROPE_FACTOR_MAX:
            expected = f"above 0, at most {limits.ROPE_FACTOR_MAX}"
            raise ModelNumberError(f"rope_freqs.weight[{index}]", str(factor), expected)
