"""The float32 model against scalar loops in double precision, and against published text."""

import math
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sslm.convert.float_reference import Float32Array, FloatCache, FloatReference
from sslm.convert.source import GgufModelSource
from sslm.model.config import ModelConfig, RopePairing, RopeScaling, RopeScalingKind
from sslm.model.families import weight_shapes
from tests.data import shared_data

PLAIN = ModelConfig(
    architecture="llama",
    vocab_size=11,
    hidden_size=10,
    intermediate_size=14,
    num_hidden_layers=2,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=6,
    rotary_dim=6,
    rope_theta=Fraction(100),
    rope_scaling=None,
    rope_pairing=RopePairing.INTERLEAVED,
    rms_norm_eps=Fraction(1, 1 << 10),
    max_position_embeddings=64,
    tie_word_embeddings=True,
)
CONFIGS = {
    "plain": PLAIN,
    "half": replace(PLAIN, rope_pairing=RopePairing.HALF),
    "partly rotated": replace(PLAIN, rotary_dim=4),
    "partly rotated half": replace(PLAIN, rotary_dim=4, rope_pairing=RopePairing.HALF),
    "untied": replace(PLAIN, tie_word_embeddings=False),
    "one head each": replace(PLAIN, num_key_value_heads=6),
    "one shared head": replace(PLAIN, num_key_value_heads=1),
    "qkv bias": replace(PLAIN, has_qkv_bias=True),
    "other biases": replace(PLAIN, has_o_bias=True, has_mlp_bias=True),
    "linear": replace(
        PLAIN, rope_scaling=RopeScaling(kind=RopeScalingKind.LINEAR, factor=Fraction(4))
    ),
    "llama3": replace(PLAIN, rope_scaling=RopeScaling(kind=RopeScalingKind.LLAMA3)),
}
TOKENS = [3, 0, 7, 7, 10, 1, 5]


class SeededSource:
    """Weights drawn from a seeded generator; counts how often each is asked for."""

    def __init__(self, config: ModelConfig) -> None:
        rng = np.random.default_rng(20)
        self.config = config
        self.asked: list[str] = []
        self.weights = {
            name: rng.normal(size=shape).astype(np.float32) * np.float32(0.5)
            for name, shape in weight_shapes(config).items()
        }
        if "rope_factors" in self.weights:
            self.weights["rope_factors"] = 1 + np.abs(self.weights["rope_factors"])

    def tensor(self, name: str) -> Float32Array:
        self.asked.append(name)
        return self.weights[name]


class ScalarModel:
    """The same model in scalar Python: one token at a time, loops over plain lists of doubles."""

    def __init__(self, source: SeededSource) -> None:
        self.config = source.config
        self.w = {name: weight.tolist() for name, weight in source.weights.items()}
        self.past: list[tuple[list[list[float]], list[list[float]]]] = [
            ([], []) for _ in range(self.config.num_hidden_layers)
        ]

    def logits(self, token: int, position: int) -> list[float]:
        x = list(self.w["embed"][token])
        for layer in range(self.config.num_hidden_layers):
            p = f"layers.{layer}."
            attended = self.attention(layer, self.norm(x, p + "input_layernorm"), position)
            x = [a + b for a, b in zip(x, attended, strict=True)]
            normed = self.norm(x, p + "post_attention_layernorm")
            gate, up = self.linear(normed, p + "gate_proj"), self.linear(normed, p + "up_proj")
            inner = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up, strict=True)]
            x = [a + b for a, b in zip(x, self.linear(inner, p + "down_proj"), strict=True)]
        head = "embed" if self.config.tie_word_embeddings else "lm_head"
        return self.linear(self.norm(x, "final_norm"), head)

    def norm(self, x: list[float], name: str) -> list[float]:
        scale = math.sqrt(sum(a * a for a in x) / len(x) + float(self.config.rms_norm_eps))
        return [a / scale * g for a, g in zip(x, self.w[name], strict=True)]

    def linear(self, x: list[float], name: str) -> list[float]:
        y = [sum(a * b for a, b in zip(x, row, strict=True)) for row in self.w[name]]
        bias = self.w.get(f"{name}.bias", [0.0] * len(y))
        return [a + b for a, b in zip(y, bias, strict=True)]

    def attention(self, layer: int, x: list[float], position: int) -> list[float]:
        config, p, size = self.config, f"layers.{layer}.", self.config.head_dim
        keys, values = self.past[layer]
        keys.append(self.rotate(self.linear(x, p + "k_proj"), position))
        values.append(self.linear(x, p + "v_proj"))
        q = self.rotate(self.linear(x, p + "q_proj"), position)
        out: list[float] = []
        for head in range(config.num_attention_heads):
            shared = head * config.num_key_value_heads // config.num_attention_heads
            scores = [
                sum(q[head * size + i] * key[shared * size + i] for i in range(size))
                / math.sqrt(size)
                for key in keys
            ]
            weights = [math.exp(score - max(scores)) for score in scores]
            for i in range(size):
                mixed = zip(weights, values, strict=True)
                out.append(sum(a * v[shared * size + i] for a, v in mixed) / sum(weights))
        return self.linear(out, p + "o_proj")

    def rotate(self, heads: list[float], position: int) -> list[float]:
        config, out = self.config, list(heads)
        half = config.rotary_dim // 2
        for start in range(0, len(heads), config.head_dim):
            for i in range(half):
                angle = position / float(config.rope_theta) ** (2 * i / config.rotary_dim)
                if config.rope_scaling is not None:
                    angle /= float(config.rope_scaling.factor or self.w["rope_factors"][i])
                is_half = config.rope_pairing is RopePairing.HALF
                a, b = (start + i, start + half + i) if is_half else (start + 2 * i,) * 2
                b += 0 if is_half else 1
                out[a] = heads[a] * math.cos(angle) - heads[b] * math.sin(angle)
                out[b] = heads[a] * math.sin(angle) + heads[b] * math.cos(angle)
        return out


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_equal_scalar_loops(name: str) -> None:
    source = SeededSource(CONFIGS[name])
    scalar = ScalarModel(source)
    expected = [scalar.logits(token, position) for position, token in enumerate(TOKENS)]
    logits = FloatReference(source).logits(TOKENS)
    assert logits.dtype == np.float32
    assert_allclose(logits, expected, rtol=0, atol=2e-5)


def test_options_change_the_logits() -> None:
    # Otherwise the comparison above could pass with an option that both models ignore.
    rows = [FloatReference(SeededSource(config)).logits(TOKENS)[-1] for config in CONFIGS.values()]
    distances = [np.abs(a - b).max() for i, a in enumerate(rows) for b in rows[:i]]
    assert min(distances) > 0.01


def test_chunks_of_a_window_give_the_same_rows() -> None:
    reference = FloatReference(SeededSource(PLAIN))
    whole = reference.logits(TOKENS)
    cache = FloatCache()
    parts = [
        reference.head(reference.hidden(TOKENS[first:end], cache))
        for first, end in ((0, 3), (3, 4), (4, 7))
    ]
    assert cache.positions == len(TOKENS)
    assert_allclose(np.concatenate(parts), whole, rtol=0, atol=1e-5)


def test_blocks_are_the_rows_in_order() -> None:
    reference = FloatReference(SeededSource(PLAIN))
    blocks = list(reference.logits_blocks(TOKENS, 3))
    assert [len(block) for block in blocks] == [3, 3, 1]
    assert_allclose(np.concatenate(blocks), reference.logits(TOKENS), rtol=0, atol=1e-5)


def test_weights_are_kept_within_the_bound() -> None:
    source = SeededSource(PLAIN)
    reference = FloatReference(source)
    first = reference.logits(TOKENS)
    again = reference.logits(TOKENS)
    assert sorted(source.asked) == sorted(source.weights)
    assert_array_equal(first, again)

    frugal_source = SeededSource(PLAIN)
    bound = frugal_source.weights["embed"].nbytes
    frugal = FloatReference(frugal_source, weights_size_bytes=bound)
    assert_array_equal(frugal.logits(TOKENS), first)
    assert frugal_source.asked.count("embed") == 1
    frugal.logits(TOKENS)
    assert frugal_source.asked.count("layers.1.up_proj") == 2


def test_large_activations_do_not_overflow() -> None:
    source = SeededSource(PLAIN)
    source.weights["layers.0.gate_proj"] *= np.float32(1e4)
    assert np.isfinite(FloatReference(source).logits(TOKENS)).all()


def test_greedy_text_of_a_published_model() -> None:
    expected = shared_data("stories260K/greedy200.txt").read_text(encoding="utf-8")
    with GgufModelSource.open(shared_data("stories260K/stories260K-F32.gguf")) as source:
        pieces = source.file.metadata.strings("tokenizer.ggml.tokens", at_most=512)
        chosen = FloatReference(source).greedy([1], max_tokens=200)
    assert 1 not in chosen  # The beginning-of-sequence token would end the published text.
    raw = "".join(pieces[token] for token in chosen).replace("\N{LOWER ONE EIGHTH BLOCK}", " ")
    text = re.sub(r"<0x([0-9A-F]{2})>", lambda byte: chr(int(byte[1], 16)), raw)
    assert text.removeprefix(" ") == expected
