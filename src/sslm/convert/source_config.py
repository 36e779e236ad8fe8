"""The configuration of a model in a GGUF file; what llama.cpp computes for it is what it means."""

from fractions import Fraction
from typing import Final

from sslm import limits
from sslm.convert.families.source_family import SourceFamily
from sslm.errors.base import SslmError
from sslm.errors.gguf import GgufError
from sslm.errors.model import (
    MixtureOfExpertsError,
    ModelContextError,
    ModelNumberError,
    UnsupportedHyperparameterError,
    UnsupportedRopeScalingError,
)
from sslm.errors.status import Status
from sslm.formats.bounded_reader import U32_MAX
from sslm.formats.gguf.file import GgufFile
from sslm.formats.gguf.metadata import GgufMetadata, MetadataArray
from sslm.formats.gguf.types import ValueType
from sslm.model.config import ModelConfig, RopeScaling, RopeScalingKind

_TOKENS_KEY: Final = "tokenizer.ggml.tokens"
_COUNT_TYPES: Final = (ValueType.UINT32, ValueType.INT32)
_F32_MAX: Final = float.fromhex("0x1.fffffep+127")
_CONTEXT_TOKENS_MIN: Final = 2
"""A prompt of one token, and one to answer: less is no context."""
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


def config_from_gguf(file: GgufFile, family: SourceFamily) -> ModelConfig:
    """Return the configuration that a file of one architecture states.

    Raises:
        MixtureOfExpertsError: If the model has experts.
        UnsupportedHyperparameterError: If a key asks for a variant that is not computed, or for
            more positions than rotary tables are computed for.
        UnsupportedRopeScalingError: If positions are stretched in a way that is not computed.
        ArtifactError: Of another class, if a key is missing, mistyped or out of bounds.
    """
    keys = _Keys(file, family)
    try:
        config = keys.config()
    except SslmError as error:
        raise keys.in_words_of_file(error) from None
    if config.max_position_embeddings < _CONTEXT_TOKENS_MIN:
        key, most = f"{config.architecture}.context_length", limits.CONTEXT_TOKENS_MAX
        raise ModelContextError(key, config.max_position_embeddings, _CONTEXT_TOKENS_MIN, most)
    _check_rope_tables(config)
    return config


def _check_rope_tables(config: ModelConfig) -> None:
    """Refuse a context for which a few bytes of source would ask for gigabytes of tables."""
    # A cosine and a sine of 32 bits for each pair of dims.
    most = limits.ROPE_TABLES_SIZE_BYTES_MAX // (4 * config.rotary_dim)
    if config.max_position_embeddings > most:
        key = f"{config.architecture}.context_length"
        expected = (
            f"supported with {config.rotary_dim} rotary dims: at most {most}, whose tables "
            f"take {limits.ROPE_TABLES_SIZE_BYTES_MAX} bytes"
        )
        raise UnsupportedHyperparameterError(key, str(config.max_position_embeddings), expected)


class _Keys:
    """The metadata of one file, read under the names of its architecture."""

    def __init__(self, file: GgufFile, family: SourceFamily) -> None:
        self._metadata: GgufMetadata = file.metadata
        self._tensors = file.tensors
        self._family = family
        self._prefix = family.name

    def config(self) -> ModelConfig:
        """Build the configuration, whose own bounds check every size."""
        self._refuse_variants()
        hidden_size = self._u32("embedding_length")
        heads = self._head_count("attention.head_count")
        head_dim = self._head_dim(hidden_size, heads)
        return ModelConfig(
            architecture=self._family.name,
            vocab_size=self._vocab_size(),
            hidden_size=hidden_size,
            intermediate_size=self._u32("feed_forward_length"),
            num_hidden_layers=self._u32("block_count"),
            num_attention_heads=heads,
            num_key_value_heads=self._head_count("attention.head_count_kv", default=heads),
            head_dim=head_dim,
            rotary_dim=self._u32_or("rope.dimension_count", head_dim),
            rope_theta=self._number("rope.freq_base", default=10000.0),
            rope_scaling=self._rope_scaling(),
            rope_pairing=self._family.rope_pairing,
            rms_norm_eps=self._number("attention.layer_norm_rms_epsilon"),
            max_position_embeddings=self._u32("context_length"),
            tie_word_embeddings=self._family.gguf_name("lm_head") not in self._tensors,
            has_qkv_bias=self._has_bias("q_proj", "k_proj", "v_proj"),
            has_o_bias=self._has_bias("o_proj"),
            has_mlp_bias=self._has_bias("gate_proj", "up_proj", "down_proj"),
        )

    def in_words_of_file(self, error: SslmError) -> SslmError:
        """Return an error of a configuration as one of the file, whose keys it names."""
        facts = error.facts()
        names = ("field",) if isinstance(error, ModelNumberError) else ("name", "kv_name")
        keys = {name: self._key_of(str(facts.get(name))) for name in names}
        return error.with_facts(**{name: key for name, key in keys.items() if key is not None})

    def _key_of(self, field: str) -> str | None:
        """Return what the file states a field of the configuration with; only keys it has."""
        head_count_key = self._key("attention.head_count")
        kv_head_count_key = self._key("attention.head_count_kv")
        head_key = self._key("attention.key_length")
        if head_key not in self._metadata:
            head_key = f"{self._key('embedding_length')} / {head_count_key}"
        rotary_key = self._key("rope.dimension_count")
        scaling_key = self._key("rope.scaling.factor")
        return {
            "vocab_size": f"the number of rows of {self._family.gguf_name('embed')}",
            "hidden_size": self._key("embedding_length"),
            "intermediate_size": self._key("feed_forward_length"),
            "num_hidden_layers": self._key("block_count"),
            "max_position_embeddings": self._key("context_length"),
            "head_dim": head_key,
            "num_attention_heads": head_count_key,
            "num_key_value_heads": kv_head_count_key
            if kv_head_count_key in self._metadata
            else head_count_key,
            "num_attention_heads * head_dim": f"{head_count_key} * {head_key}",
            "rotary_dim": rotary_key if rotary_key in self._metadata else head_key,
            "rope_theta": self._key("rope.freq_base"),
            "rms_norm_eps": self._key("attention.layer_norm_rms_epsilon"),
            "rope_scaling.factor": scaling_key
            if scaling_key in self._metadata
            else self._key("rope.scale_linear"),
        }.get(field)

    def _vocab_size(self) -> int:
        """Return how many ids the embedding has rows for: as many as there are tokens, or more."""
        tokens = self._metadata.strings(_TOKENS_KEY, at_most=limits.GGUF_ARRAY_COUNT_MAX)
        embedding = self._tensors.get(self._family.gguf_name("embed"))
        return max(len(tokens), 0 if embedding is None else embedding.row_count)

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
            return self._metadata.u32(key, at_least=1, at_most=U32_MAX)
        if array.item_type not in _COUNT_TYPES:
            expected = "one uint32, or an array of uint32 or int32"
            raise GgufError(
                Status.GGUF_WRONG_VALUE_TYPE,
                key=key,
                found=str(self._metadata[key]),
                expected=expected,
            )
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
            if value_key in self._metadata:
                expected = f"supported: the same as for keys, {head_dim}"
                raise UnsupportedHyperparameterError(value_key, str(value_dim), expected)
            expected = f"supported: the same as for values, embedding_length / heads = {value_dim}"
            raise UnsupportedHyperparameterError(key, str(head_dim), expected)
        return head_dim

    def _rope_scaling(self) -> RopeScaling | None:
        has_factors = self._family.gguf_name("rope_factors") in self._tensors
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
        """Tell whether any layer has any of these biases; those that are left out are zero."""
        endings = tuple(f".{self._family.layer[name]}.bias" for name in projections)
        return any(name.endswith(endings) for name in self._tensors)

    def _key(self, suffix: str) -> str:
        return f"{self._prefix}.{suffix}"

    def _u32(self, suffix: str) -> int:
        return self._metadata.u32(self._key(suffix), at_most=U32_MAX)

    def _u32_or(self, suffix: str, default: int) -> int:
        return self._metadata.u32_or(self._key(suffix), default, at_most=U32_MAX)

    def _number(self, suffix: str, *, default: float | None = None) -> Fraction:
        """Return a binary32 number exactly."""
        key = self._key(suffix)
        if default is not None and key not in self._metadata:
            return Fraction(default)
        return Fraction(self._metadata.f32(key, at_least=0.0, at_most=_F32_MAX))
