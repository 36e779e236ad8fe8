"""A model of random weights that is larger than the caches, made in memory."""

import os
from array import array
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from sslm.memory import anonymous_memory
from sslm.model.config import ModelConfig, RopePairing
from sslm.model.fraction_bits import FractionBits, LayerFractionBits
from sslm.model.llama import build_llama
from sslm.model.tensor_shapes import tensor_shapes
from sslm.program.program import Program
from sslm.program.tensors import Tensor, padded, size_bytes

CONTEXT_TOKENS: Final = 4096
_ALIGNMENT_BYTES: Final = 256
_RANDOM_SIZE_BYTES: Final = 8 << 20
_FRACTION_BITS: Final = 16
_ONE: Final = 1 << 22
"""The mantissa of every row, and the gain of every norm."""

_EXPONENTS: Final = {
    "norm": 22,
    "embed.mantissas": 28 - 16,
    "lm_head.mantissas": 34 + 28,
    "o_proj.mantissas": 34,
    "down_proj.mantissas": 35 + 32 - 16,
    "proj.mantissas": 34 + 28 - 16,
}
"""By the end of a name, the first that fits. A code is about 2**6, and a product of a row with K of
them sqrt(K) times as large as the row, so that 2**-34 a step of the mantissas keeps the size of
rows of 2,048. What a matrix takes in has 28 fraction bits behind a norm, 32 behind the gate and 16
behind attention; what it gives has 16, or none in the head."""


@dataclass(frozen=True)
class LargeModel:
    """A program with its tensors.

    Args:
        program: Of architecture llama.
        tensors: All tensors that it names.
        memory: In which they lie one after the other, as in a file.
    """

    program: Program
    tensors: dict[str, Tensor]
    memory: memoryview


def large_model(layer_count: int) -> LargeModel:
    """Return a model with int8 weights, 61 MB a layer, and a vocabulary of 4,096 tokens."""
    config = ModelConfig(
        architecture="llama",
        vocab_size=4096,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=layer_count,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=64,
        rotary_dim=64,
        rope_theta=Fraction(10000),
        rope_scaling=None,
        rope_pairing=RopePairing.INTERLEAVED,
        rms_norm_eps=Fraction(1, 1 << 17),
        max_position_embeddings=CONTEXT_TOKENS,
        tie_word_embeddings=True,
    )
    bits = LayerFractionBits(
        q=_FRACTION_BITS, k=_FRACTION_BITS, v=_FRACTION_BITS, gate=_FRACTION_BITS, up=_FRACTION_BITS
    )
    fraction_bits = FractionBits(residual=_FRACTION_BITS, layers=(bits,) * layer_count)
    tensors, memory = _tensors(config)
    return LargeModel(build_llama(config, fraction_bits, tensors), tensors, memory)


def _tensors(config: ModelConfig) -> tuple[dict[str, Tensor], memoryview]:
    shapes = tensor_shapes(config)
    sizes = {name: size_bytes(encoding, shape) for name, (encoding, shape) in shapes.items()}
    memory = anonymous_memory(sum(padded(size, _ALIGNMENT_BYTES) for size in sizes.values()))
    _fill(memory)
    tensors, first = {}, 0
    for name, (encoding, shape) in shapes.items():
        data = memory[first : first + sizes[name]]
        first += padded(sizes[name], _ALIGNMENT_BYTES)
        if not encoding.is_matrix:
            data[:] = memoryview(array("i", [_value(name)]) * (sizes[name] // 4)).cast("B")
        exponent = 0 if encoding.is_matrix else _exponent(name)
        tensors[name] = Tensor(
            name=name, encoding=encoding, shape=shape, exponent=exponent, data=data.toreadonly()
        )
    return tensors, memory.toreadonly()


def _fill(memory: memoryview) -> None:
    """Write random codes, none of them -128; the same ones again and again."""
    codes = os.urandom(_RANDOM_SIZE_BYTES).replace(b"\x80", b"\x00")
    for start in range(0, memory.nbytes, len(codes)):
        memory[start : start + len(codes)] = codes[: memory.nbytes - start]


def _value(name: str) -> int:
    if name.startswith("rope."):
        return (1 << 30) if name == "rope.cos" else 0
    return _ONE


def _exponent(name: str) -> int:
    return next((e for ending, e in _EXPONENTS.items() if name.endswith(ending)), 0)
