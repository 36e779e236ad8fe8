"""The smallest models that are complete: what the targets for files begin with."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tests.gguf_files import Float32Array, Typed, Value, gguf_bytes
from tests.tiny_models import quantized

from sslm.artifact import (
    ArtifactParts,
    Golden,
    GoldenRun,
    Provenance,
    TensorStream,
    TokenPair,
    write_artifact,
)
from sslm.convert.vocabulary import vocabulary_from_gguf
from sslm.convert.weight_formats import INT8_WEIGHTS, WeightFormats
from sslm.formats.gguf.file import read_gguf

Tensors = dict[str, tuple[str, Float32Array]]

TOKENS = ("<s>", "</s>", "a", "b", "ab", "\u0120", "\u0120a", "<|im_end|>")

BYTE_LEVEL_METADATA: Mapping[str, Value] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3, 3, 1, 1, 1, 1, 1, 3],
    "tokenizer.ggml.merges": Typed("array", ["a b", "\u0120 a"], "string"),
    "tokenizer.ggml.bos_token_id": 0,
    "tokenizer.ggml.eos_token_id": 1,
    "tokenizer.chat_template": "{% for m in messages %}<s>{{ m.content }}</s>{% endfor %}",
}

MODEL_METADATA: Mapping[str, Value] = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.context_length": 16,
    "llama.embedding_length": 4,
    "llama.feed_forward_length": 3,
    "llama.attention.head_count": 2,
    "llama.attention.head_count_kv": 1,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 10000.0,
}


def sentencepiece_metadata() -> dict[str, Value]:
    """Return the keys of a SentencePiece vocabulary of 262 tokens."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += ["\u2581", "a", "\u2581a"]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * 3,
        "tokenizer.ggml.scores": [0.0] * 259 + [-3.0, -2.0, -1.0],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def _weights(*shape: int) -> Float32Array:
    """Return numbers that look random, between -1 and 1, and are the same everywhere."""
    steps = np.arange(1, int(np.prod(shape)) + 1) * 37 % 101
    return ((steps - 50) / np.float32(64)).astype(np.float32).reshape(shape)


def model_tensors(*, vocab_size: int = len(TOKENS), is_tied: bool = True) -> Tensors:
    """Return the tensors of the model of ``MODEL_METADATA``, named and shaped as in GGUF files."""
    shapes = {
        "token_embd.weight": (vocab_size, 4),
        "blk.0.attn_norm.weight": (4,),
        "blk.0.attn_q.weight": (4, 4),
        "blk.0.attn_k.weight": (2, 4),
        "blk.0.attn_v.weight": (2, 4),
        "blk.0.attn_output.weight": (4, 4),
        "blk.0.ffn_norm.weight": (4,),
        "blk.0.ffn_gate.weight": (3, 4),
        "blk.0.ffn_up.weight": (3, 4),
        "blk.0.ffn_down.weight": (4, 3),
        "output_norm.weight": (4,),
    }
    if not is_tied:
        shapes["output.weight"] = (vocab_size, 4)
    return {name: ("F32", _weights(*shape)) for name, shape in shapes.items()}


def small_gguf(changes: Mapping[str, Value] | None = None, **layout: Any) -> bytes:
    """Return a complete model as GGUF, about 2 KB; *changes* replaces metadata."""
    metadata = {**MODEL_METADATA, **BYTE_LEVEL_METADATA, **(changes or {})}
    return gguf_bytes(metadata, model_tensors(), **layout)


def small_artifact(
    *, is_tied: bool = True, has_golden: bool = True, formats: WeightFormats = INT8_WEIGHTS
) -> bytes:
    """Return a complete model as ``.sslm``, about 8 KB, which every backend runs."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "small.gguf"
        metadata = {**MODEL_METADATA, **BYTE_LEVEL_METADATA}
        source.write_bytes(gguf_bytes(metadata, model_tensors(is_tied=is_tied)))
        model = quantized(source, [[0, 2, 4, 6]], formats)
        with read_gguf(source) as file:
            vocabulary = vocabulary_from_gguf(file.metadata)
        parts = ArtifactParts(
            config=model.config,
            fraction_bits=model.fraction_bits,
            vocabulary=vocabulary,
            provenance=Provenance(
                source_sha256=bytes(range(32)), converter_version="0", options=formats.options()
            ),
            chat_template=str(BYTE_LEVEL_METADATA["tokenizer.chat_template"]),
            golden=_golden() if has_golden else None,
        )
        path = Path(folder) / "small.sslm"
        write_artifact(path, parts, TensorStream.of(model.tensors))
        return path.read_bytes()


def _golden() -> Golden:
    run = GoldenRun(
        text="ab",
        prompt_token_ids=(4,),
        token_ids=(2, 1),
        digest=bytes(32),
        segment_digests=(bytes(32),) * 3,
    )
    pairs = (TokenPair(text="ab", token_ids=(4,)), TokenPair(text="", token_ids=()))
    return Golden(runs=(run,), weight_digests=(bytes(32),) * 3, token_pairs=pairs)
