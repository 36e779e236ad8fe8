"""GGUF files for tests, written without the reader under test."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Float32Array = NDArray[np.float32]

_VALUE_TYPES = {
    "u8": (0, "<B"), "i8": (1, "<b"), "u16": (2, "<H"), "i16": (3, "<h"), "u32": (4, "<I"),
    "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?"), "string": (8, ""), "array": (9, ""),
    "u64": (10, "<Q"), "i64": (11, "<q"), "f64": (12, "<d"),
}  # fmt: skip
_TENSOR_TYPES = {"F32": 0, "F16": 1, "Q8_0": 8}


@dataclass(frozen=True)
class Typed:
    """A metadata value of a stated type; for an array, *item_type* is stated too."""

    value_type: str
    value: object
    item_type: str = ""


Value = Typed | bool | int | float | str | Sequence[str] | Sequence[int] | Sequence[float]


def gguf_string(text: str | bytes) -> bytes:
    """A length and the bytes of a text."""
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def gguf_key(key: str | bytes, type_id: int, payload: bytes) -> bytes:
    """A metadata entry."""
    return gguf_string(key) + struct.pack("<I", type_id) + payload


def gguf_tensor(name: str | bytes, sizes: Sequence[int], type_id: int, offset: int) -> bytes:
    """A tensor entry; *sizes* innermost first, as the file has them."""
    dimensions = struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
    return gguf_string(name) + dimensions + struct.pack("<IQ", type_id, offset)


def gguf_header(tensor_count: int, key_count: int, *, version: int = 3) -> bytes:
    """The first 24 bytes."""
    return b"GGUF" + struct.pack("<IQQ", version, tensor_count, key_count)


def padded(data: bytes, alignment: int = 32) -> bytes:
    """*data* with zeros up to a multiple of *alignment*."""
    return data + bytes(-len(data) % alignment)


def encode_value(value: Value) -> tuple[int, bytes]:
    """Type number and bytes of a value.

    A plain ``int`` becomes a u32, a ``float`` an f32; lists become arrays of string, i32 or f32.
    """
    typed = value if isinstance(value, Typed) else _typed(value)
    type_id, layout = _VALUE_TYPES[typed.value_type]
    if isinstance(typed.value, str):
        return type_id, gguf_string(typed.value)
    if isinstance(typed.value, list | tuple):
        items = [encode_value(Typed(typed.item_type, item))[1] for item in typed.value]
        head = struct.pack("<IQ", _VALUE_TYPES[typed.item_type][0], len(items))
        return type_id, head + b"".join(items)
    return type_id, struct.pack(layout, typed.value)


def _typed(value: bool | int | float | str | Sequence[str] | Sequence[float]) -> Typed:
    if isinstance(value, bool | int | float | str):
        names = {bool: "bool", int: "u32", float: "f32", str: "string"}
        return Typed(names[type(value)], value)
    return Typed("array", value, {str: "string", int: "i32", float: "f32"}[type(value[0])])


def quantize_q8_0(weights: Float32Array) -> bytes:
    """Blocks of 32: a half-precision scale, then 32 signed bytes."""
    blocks = weights.astype(np.float32).reshape(-1, 32)
    scales = (np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)).astype("<f2")
    divisors = np.where(scales == 0, np.float32(1), scales.astype(np.float32))
    codes = np.clip(np.rint(blocks / divisors), -127, 127).astype(np.int8)
    return np.concatenate([scales.view(np.uint8), codes.view(np.uint8)], axis=1).tobytes()


def encode_tensor(type_name: str, weights: Float32Array) -> bytes:
    """Tensor data of type F32, F16 or Q8_0."""
    if type_name == "Q8_0":
        return quantize_q8_0(weights)
    return weights.astype({"F32": "<f4", "F16": "<f2"}[type_name]).tobytes()


def gguf_bytes(
    metadata: Mapping[str, Value],
    tensors: Mapping[str, tuple[str, Float32Array]],
    *,
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    """A whole GGUF file; tensors as (type name, weights in outermost-first shape)."""
    keys = dict(metadata) if alignment == 32 else {"general.alignment": alignment, **metadata}
    head = gguf_header(len(tensors), len(keys), version=version)
    head += b"".join(gguf_key(key, *encode_value(value)) for key, value in keys.items())
    data = bytearray()
    for name, (type_name, weights) in tensors.items():
        head += gguf_tensor(name, weights.shape[::-1], _TENSOR_TYPES[type_name], len(data))
        data += padded(encode_tensor(type_name, weights), alignment)
    return padded(head, alignment) + bytes(data)


def write_gguf(
    path: Path,
    metadata: Mapping[str, Value],
    tensors: Mapping[str, tuple[str, Float32Array]],
    *,
    version: int = 3,
    alignment: int = 32,
) -> Path:
    """Write :func:`gguf_bytes` to *path* and return it."""
    path.write_bytes(gguf_bytes(metadata, tensors, version=version, alignment=alignment))
    return path


# Models.

_SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


class _Uniform:
    """Seeded numbers that no version of NumPy changes."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.PCG64(seed)

    def weights(self, *shape: int, bound: float) -> Float32Array:
        """Float32 numbers from -bound to bound."""
        raw = self._generator.random_raw(int(np.prod(shape))) >> np.uint64(40)
        signed = raw.astype(np.int64) - (1 << 23)
        unit = signed.astype(np.float32) / np.float32(1 << 23)
        return (unit * np.float32(bound)).reshape(shape)

    def below(self, limit: int) -> int:
        """An integer from 0 to limit - 1."""
        return int(self._generator.random_raw()) % limit


def byte_tokens() -> list[str]:
    """The printable character that byte-level BPE uses for each byte, in the order of bytes."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def byte_level_vocabulary(*, vocab_size: int, seed: int) -> tuple[list[str], list[str]]:
    """Tokens (three special ones, 256 bytes, made-up merges) and the merges in order of rank."""
    if vocab_size < 259:
        raise ValueError(f"{vocab_size} tokens are too few for 256 bytes and 3 special tokens")
    uniform = _Uniform(seed)
    tokens = [*_SPECIAL_TOKENS, *byte_tokens()]
    known = set(tokens)
    pieces = ["Ġ", *_LETTERS]
    merges: list[str] = []
    while len(tokens) < vocab_size:
        left, right = pieces[uniform.below(len(pieces))], pieces[uniform.below(len(pieces))]
        joined = left + right
        if "Ġ" in right or joined in known or len(joined) > 12:
            continue
        merges.append(f"{left} {right}")
        tokens.append(joined)
        pieces.append(joined)
        known.add(joined)
    return tokens, merges


def _tokenizer_metadata(vocab_size: int, seed: int, pre_tokenizer: str) -> dict[str, Value]:
    tokens, merges = byte_level_vocabulary(vocab_size=vocab_size, seed=seed)
    special_count = len(_SPECIAL_TOKENS)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre_tokenizer,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * special_count + [1] * (vocab_size - special_count),
        "tokenizer.ggml.merges": Typed("array", merges, "string"),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
    }


def random_llama_gguf(
    path: Path,
    *,
    seed: int,
    hidden_size: int,
    num_hidden_layers: int,
    num_attention_heads: int,
    num_key_value_heads: int,
    head_dim: int,
    intermediate_size: int,
    vocab_size: int,
    tied: bool = True,
    biases: bool = False,
    max_position_embeddings: int = 512,
    rope_theta: float = 10000.0,
    rms_norm_eps: float = 1e-5,
    weight_type: str = "F32",
    pre_tokenizer: str = "smollm",
    extra_metadata: Mapping[str, Value] | None = None,
    extra_tensors: Mapping[str, tuple[str, Float32Array]] | None = None,
) -> Path:
    """Write a seeded random model of architecture ``llama`` and return *path*.

    Matrices are uniform with variance 1 / inputs and stored as *weight_type* (F32, F16, or Q8_0,
    which needs every number of inputs to be a multiple of 32); norms and biases are F32.
    The tokenizer is a byte-level BPE with made-up merges; vocab_size is at least 259.
    Extra entries replace those of the same name.
    """
    uniform = _Uniform(seed)
    tensors: dict[str, tuple[str, Float32Array]] = {}

    def matrix(name: str, out_features: int, in_features: int) -> None:
        weights = uniform.weights(out_features, in_features, bound=sqrt(3 / in_features))
        tensors[name] = (weight_type, weights)

    def gain(name: str) -> None:
        weights = np.float32(1) + uniform.weights(hidden_size, bound=0.25)
        tensors[name] = ("F32", weights)

    query_size, key_value_size = num_attention_heads * head_dim, num_key_value_heads * head_dim
    embedding = uniform.weights(vocab_size, hidden_size, bound=1.0)
    tensors["token_embd.weight"] = (weight_type, embedding)
    for layer in range(num_hidden_layers):
        prefix = f"blk.{layer}."
        gain(prefix + "attn_norm.weight")
        for letter, size in (("q", query_size), ("k", key_value_size), ("v", key_value_size)):
            matrix(f"{prefix}attn_{letter}.weight", size, hidden_size)
            if biases:
                tensors[f"{prefix}attn_{letter}.bias"] = ("F32", uniform.weights(size, bound=0.5))
        matrix(prefix + "attn_output.weight", hidden_size, query_size)
        gain(prefix + "ffn_norm.weight")
        matrix(prefix + "ffn_gate.weight", intermediate_size, hidden_size)
        matrix(prefix + "ffn_up.weight", intermediate_size, hidden_size)
        matrix(prefix + "ffn_down.weight", hidden_size, intermediate_size)
    gain("output_norm.weight")
    if not tied:
        matrix("output.weight", vocab_size, hidden_size)
    metadata: dict[str, Value] = {
        "general.architecture": "llama",
        "general.name": f"random llama {seed}",
        "llama.block_count": num_hidden_layers,
        "llama.context_length": max_position_embeddings,
        "llama.embedding_length": hidden_size,
        "llama.feed_forward_length": intermediate_size,
        "llama.attention.head_count": num_attention_heads,
        "llama.attention.head_count_kv": num_key_value_heads,
        "llama.attention.key_length": head_dim,
        "llama.attention.value_length": head_dim,
        "llama.attention.layer_norm_rms_epsilon": rms_norm_eps,
        "llama.rope.dimension_count": head_dim,
        "llama.rope.freq_base": rope_theta,
        "llama.vocab_size": vocab_size,
        **_tokenizer_metadata(vocab_size, seed, pre_tokenizer),
        **(extra_metadata or {}),
    }
    return write_gguf(path, metadata, {**tensors, **(extra_tensors or {})})
