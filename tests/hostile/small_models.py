"""The smallest whole models: GGUF files of both tokenizer kinds, and an artifact that runs."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import prod
from pathlib import Path
from random import Random

import numpy as np

from sslm.artifact import (
    Artifact,
    ArtifactParts,
    Golden,
    GoldenRun,
    Provenance,
    TensorStream,
    TokenPair,
    read_artifact,
    write_artifact,
)
from sslm.backends.reference import ReferenceBackend
from sslm.errors.text import TextNotEncodableError
from sslm.model.config import ModelConfig, RopePairing
from sslm.model.fraction_bits import FractionBits, LayerFractionBits
from sslm.model.tensor_shapes import tensor_shapes
from sslm.opening.runner import Runner
from sslm.opening.tracing import run_traced, weight_digests
from sslm.program.tensors import Encoding, Tensor
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import (
    CHARACTER_OF_BYTE,
    PreTokenizer,
    TokenizerKind,
    TokenType,
    Vocabulary,
)
from tests.gguf_files import Float32Array, Typed, Value
from tests.unit.artifact.tiny_artifact import int4_tensor, int32_tensor, panels

HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 4, 4, 2, 1, 2, 16

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"

Tensors = dict[str, tuple[str, Float32Array]]


# GGUF.


def byte_level_metadata() -> dict[str, Value]:
    """A byte-level model that states a count per layer and has a chat template."""
    spelled = [CHARACTER_OF_BYTE[byte] for byte in range(256)]
    tokens = [*spelled, "he", "hel", "<|end|>", "<think>"]
    return {
        **_model_metadata(),
        "llama.attention.head_count_kv": Typed("array", [KV_HEADS], "u32"),
        "llama.attention.causal": True,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * 258 + [3, 4],
        "tokenizer.ggml.merges": ["h e", "he l"],
        "tokenizer.ggml.eos_token_id": 258,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def sentencepiece_metadata() -> dict[str, Value]:
    """A SentencePiece model with all byte tokens."""
    pieces = ["\u2581", "a", "b", "ab"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    return {
        **_model_metadata(),
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.rope.dimension_count": HEAD_DIM,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * 259 + [-4.0, -3.0, -2.0, -1.0],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(pieces),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": True,
    }


def _model_metadata() -> dict[str, Value]:
    return {
        "general.architecture": "llama",
        "llama.block_count": 1,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": INTERMEDIATE,
        "llama.attention.head_count": HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
    }


def model_tensors(
    vocab_size: int, *, weight_type: str = "F16", is_tied: bool = True, has_factors: bool = False
) -> Tensors:
    """Tensors of one layer, random but for their scale."""
    random = np.random.Generator(np.random.PCG64(5))
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (vocab_size, HIDDEN),
        "blk.0.attn_norm.weight": (HIDDEN,),
        "blk.0.attn_q.weight": (HEADS * HEAD_DIM, HIDDEN),
        "blk.0.attn_k.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
        "blk.0.attn_v.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
        "blk.0.attn_output.weight": (HIDDEN, HEADS * HEAD_DIM),
        "blk.0.ffn_norm.weight": (HIDDEN,),
        "blk.0.ffn_gate.weight": (INTERMEDIATE, HIDDEN),
        "blk.0.ffn_up.weight": (INTERMEDIATE, HIDDEN),
        "blk.0.ffn_down.weight": (HIDDEN, INTERMEDIATE),
        "output_norm.weight": (HIDDEN,),
    }
    if not is_tied:
        shapes["output.weight"] = (vocab_size, HIDDEN)
    tensors: Tensors = {}
    for name, shape in shapes.items():
        kind = "F32" if len(shape) == 1 else weight_type
        tensors[name] = (kind, random.uniform(-1, 1, shape).astype(np.float32))
    if has_factors:
        tensors["rope_freqs.weight"] = ("F32", np.ones(HEAD_DIM // 2, np.float32))
    return tensors


def vocab_size_of(metadata: Mapping[str, Value]) -> int:
    """Number of tokens that *metadata* lists."""
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    return len(tokens)


# An artifact that runs.

_CONFIG = ModelConfig(
    architecture="llama",
    vocab_size=6,
    hidden_size=HIDDEN,
    intermediate_size=INTERMEDIATE,
    num_hidden_layers=1,
    num_attention_heads=HEADS,
    num_key_value_heads=KV_HEADS,
    head_dim=HEAD_DIM,
    rotary_dim=HEAD_DIM,
    rope_theta=Fraction(10000),
    rope_scaling=None,
    rope_pairing=RopePairing.INTERLEAVED,
    rms_norm_eps=Fraction(1, 1 << 17),
    max_position_embeddings=CONTEXT,
    tie_word_embeddings=True,
    has_o_bias=True,
)

_VOCABULARY = Vocabulary(
    kind=TokenizerKind.BYTE_BPE,
    pre_tokenizer=PreTokenizer.SMOLLM,
    tokens=("a", "Ġ", "aa", "Ġa", "<|end|>", "<think>"),
    token_types=bytes([TokenType.NORMAL] * 4 + [TokenType.CONTROL, TokenType.USER_DEFINED]),
    merges=((0, 0), (1, 0)),
    eos_token_id=4,
    end_token_ids=(4,),
)

_PARTS = ArtifactParts(
    config=_CONFIG,
    fraction_bits=FractionBits(
        residual=16, layers=(LayerFractionBits(q=20, k=20, v=20, gate=20, up=20),)
    ),
    vocabulary=_VOCABULARY,
    provenance=Provenance(source_sha256=bytes(32), converter_version="0", options={"a": "b"}),
    chat_template=TEMPLATE,
)

_PROMPT_IDS = (2, 3, 0)
_TEXTS = ("aa a", "<|end|>")
_ANSWER_TOKENS = 3


def runnable_artifact(folder: Path) -> bytes:
    """Write an artifact that runs and verifies into *folder*; return its bytes."""
    draft, final = folder / "draft.sslm", folder / "small.sslm"
    write_artifact(draft, _PARTS, TensorStream.of(_tensors()))
    with read_artifact(draft) as artifact:
        return rewritten(artifact, final, golden_of(artifact))


def parts_of(artifact: Artifact, golden: Golden | None) -> ArtifactParts:
    """All of an artifact but its tensors, with other golden runs."""
    return ArtifactParts(
        config=artifact.config,
        fraction_bits=artifact.fraction_bits,
        vocabulary=artifact.vocabulary,
        provenance=artifact.provenance,
        chat_template=artifact.chat_template,
        golden=golden,
        arithmetic_version=artifact.arithmetic_version,
    )


def rewritten(artifact: Artifact, path: Path, golden: Golden | None) -> bytes:
    """Write what was read to *path* again, with these golden runs; return the bytes."""
    write_artifact(path, parts_of(artifact, golden), TensorStream.of(artifact.tensors))
    return path.read_bytes()


def golden_of(artifact: Artifact) -> Golden:
    """Golden runs as an attacker would record them anew, on the reference backend."""
    runner = Runner(artifact, ReferenceBackend(), context_tokens=CONTEXT)
    run = run_traced(runner, _PROMPT_IDS, max_tokens=_ANSWER_TOKENS)
    recorded = GoldenRun(
        text=None,
        prompt_token_ids=_PROMPT_IDS,
        token_ids=tuple(run.token_ids),
        digest=run.digest,
        segment_digests=run.segment_digests,
    )
    return Golden(
        runs=(recorded,),
        weight_digests=weight_digests(runner.program, artifact.tensors),
        token_pairs=tuple(_pairs(Tokenizer(artifact.vocabulary))),
    )


def _pairs(tokenizer: Tokenizer) -> list[TokenPair]:
    pairs = []
    for text in _TEXTS:
        try:
            pairs.append(TokenPair(text=text, token_ids=tuple(tokenizer.encode(text))))
        except TextNotEncodableError:
            continue
    return pairs


_INT4_MATRICES = ("o_proj", "gate_proj", "down_proj")


def _tensors() -> dict[str, Tensor]:
    """Tensors of the model: random codes and numbers in the bounds of their roles."""
    random = Random(3)
    found = {}
    for name, (encoding, shape) in tensor_shapes(_CONFIG).items():
        if name.endswith(_INT4_MATRICES):
            tensor = int4_tensor(name, *shape)
        elif encoding is Encoding.PANEL_INT8:
            rows, columns = shape
            codes = [[random.randint(-127, 127) for _ in range(columns)] for _ in range(rows)]
            data = memoryview(panels(codes))
            tensor = Tensor(name=name, encoding=encoding, shape=shape, exponent=0, data=data)
        else:
            lowest, highest, exponent = _numbers_of(name)
            count = prod(shape)
            numbers = [random.randint(lowest, highest) for _ in range(count)]
            tensor = replace(int32_tensor(name, numbers, exponent), shape=shape)
        found[name] = tensor
    return found


def _numbers_of(name: str) -> tuple[int, int, int]:
    """Least, most and exponent of an int32 tensor."""
    role = name.rpartition(".")[2]
    if role == "mantissas":
        is_int4 = name.removesuffix(".mantissas").endswith(_INT4_MATRICES)
        return 1 << 22, (1 << 23 if is_int4 else 1 << 24) - 1, 30
    if role in ("cos", "sin"):
        return -(1 << 30), 1 << 30, 0
    if role == "bias":
        return -(1 << 16), 1 << 16, 0
    return 1 << 21, 1 << 22, 22
