"""Bytes as a GGUF file: its records, vocabulary, tensors and model."""

from typing import Final

from fuzz.gguf_examination import examine_gguf
from fuzz.target import Target

KEYS: Final = tuple(
    key.encode()
    for key in (
        "GGUF",
        "general.architecture",
        "general.alignment",
        "llama.block_count",
        "llama.rope.scaling.type",
        "llama.rope.scaling.factor",
        "llama.rope.dimension_count",
        "llama.attention.sliding_window",
        "llama.attention.key_length",
        "llama.expert_count",
        "tokenizer.ggml.model",
        "tokenizer.ggml.pre",
        "tokenizer.ggml.scores",
        "tokenizer.ggml.token_type",
        "tokenizer.ggml.add_bos_token",
        "token_embd.weight",
        "rope_freqs.weight",
        "blk.0.attn_q.bias",
        "linear",
        "yarn",
        "<0x00>",
    )
)

MODULES: Final = (
    "sslm.formats.bounded_reader",
    "sslm.formats.gguf.file",
    "sslm.formats.gguf.metadata",
    "sslm.formats.gguf.tensors",
    "sslm.convert.families.registry",
    "sslm.convert.families.source_family",
    "sslm.convert.source",
    "sslm.convert.source_config",
    "sslm.convert.vocabulary",
    "sslm.model.config",
    "sslm.text.vocabulary",
)

TARGET: Final = Target(
    name="gguf",
    subject="bytes to the GGUF reader, the model's configuration, vocabulary and tensors",
    run=examine_gguf,
    modules=MODULES,
    size_bytes_max=1 << 14,
    reaches=("dequantized F32", "model complete"),
    dictionary=KEYS,
)
