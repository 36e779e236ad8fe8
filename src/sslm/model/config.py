"""The configuration of one model, in exact numbers.

A configuration goes into the artifact and into the model's identity, so it is canonical: integers,
and reals that are exactly the binary32 numbers of the source file, held as fractions. Nothing here
computes in floating point.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from sslm import limits
from sslm.errors.model import (
    AttentionWidthError,
    HeadCountError,
    HeadDimError,
    HiddenSizeError,
    IntermediateSizeError,
    LayerCountError,
    ModelContextError,
    ModelNumberError,
    RotaryDimError,
    VocabSizeError,
)

_BINARY32_INFINITY_BITS = 0x7F80_0000


class RopePairing(StrEnum):
    """Which two elements of a head one rotation turns."""

    INTERLEAVED = "interleaved"
    """Elements 2i and 2i + 1: the row order of GGUF files of architecture llama."""
    HALF = "half"
    """Elements i and i + rotary_dim / 2: the published checkpoints' row order."""


class RopeScalingKind(StrEnum):
    """How positions are stretched beyond the context that the model was first trained on."""

    LINEAR = "linear"
    """Every angle is divided by one factor."""
    LLAMA3 = "llama3"
    """Frequency i is divided by element i of the tensor ``rope_factors``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """A stretch of the rotary positions.

    Args:
        kind: What is divided.
        factor: The one divisor of ``linear``, a binary32 number from 1 to
            ``limits.ROPE_FACTOR_MAX``; None for ``llama3``, whose divisors are a tensor.

    Raises:
        ModelNumberError: If *factor* does not fit *kind* or its range.
    """

    kind: RopeScalingKind
    factor: Fraction | None = None

    def __post_init__(self) -> None:
        if self.kind is RopeScalingKind.LLAMA3:
            if self.factor is not None:
                raise ModelNumberError("rope_scaling.factor", str(self.factor), "none for llama3")
            return
        expected = f"a binary32 number from 1 to {limits.ROPE_FACTOR_MAX}"
        if self.factor is None or not 1 <= self.factor <= limits.ROPE_FACTOR_MAX:
            raise ModelNumberError("rope_scaling.factor", str(self.factor), expected)
        binary32_bits("rope_scaling.factor", self.factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes, switches and real hyper-parameters of a decoder-only transformer.

    Args:
        architecture: Name of its family; see ``sslm.model.families``.
        vocab_size: Token ids, from 1 to ``limits.VOCAB_SIZE_MAX``.
        hidden_size: Width of the residual row.
        intermediate_size: Width of the gated feed-forward block.
        num_hidden_layers: Transformer layers.
        num_attention_heads: Query heads, a multiple of the next field.
        num_key_value_heads: Key and value heads (grouped-query attention, arXiv:2305.13245).
        head_dim: Width of one head; ``num_attention_heads * head_dim`` need not be hidden_size.
        rotary_dim: Leading elements of a head that are rotated: even, at most head_dim.
        rope_theta: Base of the rotary frequencies, a binary32 number of at least 1.
        rope_scaling: Stretch of the positions, or None.
        rope_pairing: Which elements are rotated together.
        rms_norm_eps: Added to the mean square, a binary32 number above 0 and below 1.
        max_position_embeddings: Longest context in tokens that the model was made for.
        tie_word_embeddings: Whether the embedding is also the output projection.
        has_qkv_bias: Whether q_proj, k_proj and v_proj have biases.
        has_o_bias: Whether o_proj has a bias.
        has_mlp_bias: Whether gate_proj, up_proj and down_proj have biases.

    Raises:
        ArtifactError: One class per field that is out of bounds; see ``sslm.errors.model``.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rotary_dim: int
    rope_theta: Fraction
    rope_scaling: RopeScaling | None
    rope_pairing: RopePairing
    rms_norm_eps: Fraction
    max_position_embeddings: int
    tie_word_embeddings: bool
    has_qkv_bias: bool = False
    has_o_bias: bool = False
    has_mlp_bias: bool = False

    def __post_init__(self) -> None:
        self._check_sizes()
        self._check_heads()
        self._check_numbers()

    def _check_sizes(self) -> None:
        for error, name, at_most in (
            (VocabSizeError, "vocab_size", limits.VOCAB_SIZE_MAX),
            (HiddenSizeError, "hidden_size", limits.HIDDEN_SIZE_MAX),
            (IntermediateSizeError, "intermediate_size", limits.LINEAR_COLUMNS_MAX),
            (LayerCountError, "num_hidden_layers", limits.LAYER_COUNT_MAX),
            (ModelContextError, "max_position_embeddings", limits.CONTEXT_TOKENS_MAX),
        ):
            value: int = getattr(self, name)
            if not 1 <= value <= at_most:
                raise error(name, value, 1, at_most)

    def _check_heads(self) -> None:
        heads, kv_heads = self.num_attention_heads, self.num_key_value_heads
        if not 1 <= kv_heads <= heads <= limits.HEAD_COUNT_MAX or heads % kv_heads:
            names = "num_attention_heads", "num_key_value_heads"
            raise HeadCountError(names[0], heads, names[1], kv_heads, limits.HEAD_COUNT_MAX)
        if not 2 <= self.head_dim <= limits.HEAD_DIM_MAX:
            raise HeadDimError("head_dim", self.head_dim, 2, limits.HEAD_DIM_MAX)
        if heads * self.head_dim > limits.LINEAR_COLUMNS_MAX:
            width, name = heads * self.head_dim, "num_attention_heads * head_dim"
            raise AttentionWidthError(name, width, 2, limits.LINEAR_COLUMNS_MAX)
        if not 2 <= self.rotary_dim <= self.head_dim or self.rotary_dim % 2:
            raise RotaryDimError("rotary_dim", self.rotary_dim, self.head_dim)

    def _check_numbers(self) -> None:
        if self.rope_theta < 1:
            raise ModelNumberError("rope_theta", str(self.rope_theta), "at least 1")
        if not 0 < self.rms_norm_eps < 1:
            raise ModelNumberError("rms_norm_eps", str(self.rms_norm_eps), "above 0 and below 1")
        binary32_bits("rope_theta", self.rope_theta)
        binary32_bits("rms_norm_eps", self.rms_norm_eps)

    @property
    def query_size(self) -> int:
        """Width of all query heads together."""
        return self.num_attention_heads * self.head_dim

    @property
    def key_value_size(self) -> int:
        """Width of all key heads, or of all value heads, together."""
        return self.num_key_value_heads * self.head_dim


def binary32_from_bits(field: str, bits: int) -> Fraction:
    """Return the number that a non-negative finite binary32 pattern stands for, exactly.

    Args:
        field: What the number is, for the error.
        bits: The pattern, from 0 to 0x7F7F_FFFF.

    Raises:
        ModelNumberError: If the pattern is negative, infinite, not a number, or wider than 32 bits.

    See IEEE 754-2019, 3.4.
    """
    if not 0 <= bits < _BINARY32_INFINITY_BITS:
        raise ModelNumberError(field, f"bits {bits:#x}", "a finite binary32 number, not negative")
    exponent, fraction = bits >> 23, bits & 0x7F_FFFF
    if exponent == 0:
        return Fraction(fraction, 1 << 149)
    significand = fraction | 1 << 23
    shift = exponent - 150
    return Fraction(significand << shift) if shift >= 0 else Fraction(significand, 1 << -shift)


def binary32_bits(field: str, value: Fraction) -> int:
    """Return the binary32 pattern of a number that has one, without rounding.

    Args:
        field: What the number is, for the error.
        value: Not negative, and exactly a finite binary32 number.

    Raises:
        ModelNumberError: If *value* is no such number.

    See IEEE 754-2019, 3.4.
    """
    numerator, denominator = value.numerator, value.denominator
    if numerator == 0:
        return 0
    if numerator < 0 or denominator & (denominator - 1) or denominator.bit_length() > 150:
        raise ModelNumberError(field, str(value), "a finite binary32 number, not negative")
    # value = numerator * 2**-scale, and its leading bit weighs 2**exponent.
    scale = denominator.bit_length() - 1
    exponent = numerator.bit_length() - 1 - scale
    unit = max(exponent, -126) - 23
    shift = -scale - unit
    significand = numerator << shift if shift >= 0 else numerator >> -shift
    is_exact = shift >= 0 or significand << -shift == numerator
    if exponent > 127 or not is_exact:
        raise ModelNumberError(field, str(value), "a finite binary32 number, not negative")
    # A normal significand's leading bit adds the one that the biased exponent lacks.
    return significand if exponent < -126 else ((exponent + 126) << 23) + significand
