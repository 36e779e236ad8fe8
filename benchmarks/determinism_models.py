"""Small models of odd shapes as artifacts, for ``benchmarks.determinism``."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tests.gguf_files import random_llama_gguf
from tests.tiny_models import TinyModel, quantized

from sslm.artifact import ArtifactParts, Provenance, TensorStream, write_artifact
from sslm.backends.reference.kernels import sigmoid_neg
from sslm.convert.quantize import pack_panels
from sslm.convert.vocabulary import vocabulary_from_gguf
from sslm.formats.gguf.file import read_gguf
from sslm.numerics.rounding import rshift_round, saturate, scale_shift
from sslm.program.tensors import Encoding, Tensor

_BASE: Final[dict[str, Any]] = {
    "hidden_size": 72,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "intermediate_size": 100,
    "vocab_size": 275,
}
SHAPES: Final[dict[str, dict[str, Any]]] = {
    "hidden 72, head 24, GQA 3": _BASE | {"seed": 1},
    "untied, biases, vocab 277": _BASE
    | {"seed": 2, "tied": False, "biases": True, "vocab_size": 277},
    "head 64, GQA 1": _BASE
    | {"seed": 3, "head_dim": 64, "num_attention_heads": 2, "num_key_value_heads": 2},
    "head 80, GQA 8, untied": _BASE
    | {
        "seed": 4,
        "head_dim": 80,
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
        "tied": False,
    },
    "head 128, GQA 3, biases": _BASE
    | {
        "seed": 5,
        "head_dim": 128,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "biases": True,
    },
    "9 layers, hidden 100, mlp 52": _BASE
    | {
        "seed": 6,
        "num_hidden_layers": 9,
        "hidden_size": 100,
        "intermediate_size": 52,
        "vocab_size": 1003,
    },
    "rope scaled by 4": _BASE
    | {
        "seed": 7,
        "extra_metadata": {
            "llama.rope.scaling.type": "linear",
            "llama.rope.scaling.factor": 4.0,
        },
    },
}
"""Name -> arguments of ``random_llama_gguf``."""

WIDE_NAME: Final = "wide enough to share"
_WIDE: Final[dict[str, Any]] = {
    "seed": 9,
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "head_dim": 64,
    "intermediate_size": 2100,
    "vocab_size": 4200,
}
"""Every group of projections has the bytes for two tasks or more, the head for four."""

EXTREME_NAME: Final = "all weights 127, codes 32639"
CODE_MAX: Final = 32639
_WEIGHT_MAX: Final = 127


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model to run in many ways.

    Args:
        name: For the table.
        path: The artifact.
        prompts: Token ids; one prompt fits a chunk of 64, another does not.
        max_tokens: Of each answer.
        is_large: Whether trying every combination of ways would take too long.
    """

    name: str
    path: Path
    prompts: tuple[tuple[int, ...], ...]
    max_tokens: int
    is_large: bool = False


def small_subjects(folder: Path, *, names: tuple[str, ...] | None = None) -> Iterator[Subject]:
    """Write the random models, then the extreme one, into *folder*, and yield them.

    Args:
        folder: For the files.
        names: Which of :data:`SHAPES`; None for all of them.
    """
    for index, name in enumerate(SHAPES if names is None else names):
        model, source = _random_model(folder / f"{index}.gguf", SHAPES[name])
        path = _write(folder / f"{index}.sslm", model, source, model.tensors)
        yield _subject(name, path, model.config.vocab_size)
    yield extreme_subject(folder)


def extreme_subject(folder: Path) -> Subject:
    """Write a model whose every weight code is ±127 and whose every linear input is ±32639.

    All rows of the embedding are the same up to their scale, all matrices repeat it, and the scales
    are such that block floating point brings each row to its largest code.
    """
    shape = _BASE | {"seed": 8, "tied": False, "rms_norm_eps": 1e-7}
    model, source = _random_model(folder / "extreme.gguf", shape)
    path = _write(folder / "extreme.sslm", model, source, _extreme_tensors(model))
    return _subject(EXTREME_NAME, path, model.config.vocab_size)


def wide_subject(folder: Path) -> Subject:
    """Write a model whose projections are worth sharing into *folder*."""
    model, source = _random_model(folder / "wide.gguf", _WIDE)
    path = _write(folder / "wide.sslm", model, source, model.tensors)
    return _subject(WIDE_NAME, path, model.config.vocab_size)


def _subject(name: str, path: Path, vocab_size: int) -> Subject:
    random = Random(name)
    prompts = tuple(tuple(random.randrange(vocab_size) for _ in range(n)) for n in (50, 70))
    return Subject(name=name, path=path, prompts=prompts, max_tokens=6)


def _random_model(path: Path, shape: dict[str, Any]) -> tuple[TinyModel, Path]:
    random_llama_gguf(path, **shape)
    ids = [(7 * index + 3) % shape["vocab_size"] for index in range(24)]
    return quantized(path, [ids]), path


def _write(path: Path, model: TinyModel, source: Path, tensors: dict[str, Tensor]) -> Path:
    with read_gguf(source) as file:
        vocabulary = vocabulary_from_gguf(file.metadata)
    parts = ArtifactParts(
        config=model.config,
        fraction_bits=model.fraction_bits,
        vocabulary=vocabulary,
        provenance=Provenance(source_sha256=bytes(32), converter_version="benchmark"),
    )
    write_artifact(path, parts, TensorStream.of(tensors))
    return path


# The extreme model. With p the signs of the embedding, every row after a norm is p times one code;
# a matrix row that repeats p has the largest sum that its width allows.


def _extreme_tensors(model: TinyModel) -> dict[str, Tensor]:
    config = model.config
    signs = np.random.default_rng(8)
    p = _signs(signs, config.hidden_size)
    tensors = dict(model.tensors)
    tensors["embed"] = _matrix("embed", np.tile(p, (config.vocab_size, 1)))
    head = _signs(signs, config.vocab_size * config.hidden_size)
    tensors["lm_head"] = _matrix("lm_head", head.reshape(config.vocab_size, -1))
    norm_shift, gain = _gain(config.hidden_size)
    for name in ("final_norm", *_layer_names(model, "input_layernorm", "post_attention_layernorm")):
        tensors[name] = _numbers(tensors[name], gain)
    for layer in range(config.num_hidden_layers):
        _fill_layer(tensors, model, layer, p=p, random=signs, norm_shift=norm_shift)
    return tensors


def _layer_names(model: TinyModel, *endings: str) -> list[str]:
    layers = range(model.config.num_hidden_layers)
    return [f"layers.{layer}.{ending}" for layer in layers for ending in endings]


def _signs(random: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
    return np.where(random.integers(0, 2, count) == 0, -1, 1)


def _matrix(name: str, signs: npt.NDArray[np.int64]) -> Tensor:
    codes = (_WEIGHT_MAX * signs).astype(np.int8)
    return Tensor(
        name=name,
        encoding=Encoding.PANEL_INT8,
        shape=codes.shape,
        exponent=0,
        data=memoryview(pack_panels(codes)),
    )


def _numbers(tensor: Tensor, value: int) -> Tensor:
    """Return a tensor of numbers with all of them the same."""
    data = np.full(tensor.shape, value, dtype="<i4").tobytes()
    return Tensor(
        name=tensor.name,
        encoding=tensor.encoding,
        shape=tensor.shape,
        exponent=tensor.exponent,
        data=memoryview(data),
    )


def _gain(width: int) -> tuple[int, int]:
    """Return k and the gain with which a norm gives ±32639 * 2**k.

    A norm writes ``gain * 2**6 / sqrt(width)`` times the row's signs (docs/arithmetic.md, 3.2).
    """
    shift = int(math.log2((1 << 29) / math.sqrt(width) / CODE_MAX))
    return shift, round(CODE_MAX * 2**shift * math.sqrt(width) / 64)


def _fill_layer(
    tensors: dict[str, Tensor],
    model: TinyModel,
    layer: int,
    *,
    p: npt.NDArray[np.int64],
    random: np.random.Generator,
    norm_shift: int,
) -> None:
    config, prefix = model.config, f"layers.{layer}"
    group = config.num_attention_heads // config.num_key_value_heads
    q, k = _signs(random, config.query_size), _signs(random, config.key_value_size)
    v, w = _signs(random, config.key_value_size), _signs(random, config.intermediate_size)
    mixed = np.repeat(v.reshape(-1, config.head_dim), group, axis=0).reshape(-1)
    ones = np.ones(config.intermediate_size, dtype=np.int64)
    largest_sum = _WEIGHT_MAX * CODE_MAX * config.hidden_size
    for name, signs in {
        "q_proj": np.outer(q, p),
        "k_proj": np.outer(k, p),
        "v_proj": np.outer(v, p),
        "o_proj": np.outer(p, mixed),
        "gate_proj": np.outer(ones, p),
        "up_proj": np.outer(w, p),
        "down_proj": np.outer(p, w),
    }.items():
        tensors[f"{prefix}.{name}"] = _matrix(f"{prefix}.{name}", signs)
        mantissas = f"{prefix}.{name}.mantissas"
        tensors[mantissas] = _numbers(tensors[mantissas], 1 << 20)
    # A sum of CODE_MAX * 127 * hidden_size becomes CODE_MAX times a power of two. Queries and keys
    # keep that at position 0, which nothing rotates; in later layers they exceed 32 bits instead.
    _scale(tensors, f"{prefix}.v_proj", _WEIGHT_MAX * config.hidden_size)
    for name in ("q_proj", "k_proj"):
        _scale(tensors, f"{prefix}.{name}", _WEIGHT_MAX * config.hidden_size)
        if layer:
            mantissas = f"{prefix}.{name}.mantissas"
            tensors[mantissas] = _numbers(tensors[mantissas], (1 << 24) - 1)
    gate = tensors[f"{prefix}.gate_proj.mantissas"]
    gated = _silu(
        scale_shift(np.array([largest_sum << 20]), np.array([gate.exponent - norm_shift])),
        model.fraction_bits.layers[layer].gate,
    )
    _scale(tensors, f"{prefix}.up_proj", largest_sum * gated / CODE_MAX)


def _silu(gate: npt.NDArray[np.int64], fraction_bits: int) -> int:
    """Return SiLU of one positive gate, as docs/arithmetic.md, 3.8, has it."""
    value, _ = saturate(gate)
    argument = np.minimum(scale_shift(value, np.array([fraction_bits - 16])), 1 << 20)
    return int(rshift_round(value * ((1 << 28) - sigmoid_neg(argument)), np.array([28]))[0])


def _scale(tensors: dict[str, Tensor], name: str, divisor: float) -> None:
    """Set the row scales to the power of two over *divisor* that lies from 2**20 to 2**21."""
    exponent = 20 + math.ceil(math.log2(divisor))
    name = f"{name}.mantissas"
    tensors[name] = _numbers(tensors[name], round(2**exponent / divisor))
