"""GGUF models: the configuration they state, and every way in which they can be incomplete."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sslm.convert.source import GgufModelSource
from sslm.errors.model import (
    HeadCountError,
    HeadDimError,
    HiddenSizeError,
    IntermediateSizeError,
    LayerCountError,
    MixtureOfExpertsError,
    ModelContextError,
    ModelNumberError,
    RotaryDimError,
    SourceTensorMissingError,
    SourceTensorShapeError,
    SourceTensorUnexpectedError,
    UnsupportedArchitectureError,
    UnsupportedHyperparameterError,
    UnsupportedRopeScalingError,
    VocabSizeError,
)
from sslm.errors.status import Status
from sslm.model.config import ModelConfig, RopePairing, RopeScaling, RopeScalingKind
from sslm.model.families import weight_shapes
from tests.causes import Kind, kind_of, raises
from tests.data import shared_data

HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, VOCAB, LAYERS = 12, 20, 3, 1, 5, 2
HEAD_DIM = HIDDEN // HEADS

Values = dict[str, Any]
Edit = Callable[[Values, Values], None]


def plain_metadata() -> Values:
    return {
        "general.architecture": "llama",
        "llama.block_count": np.uint32(LAYERS),
        "llama.context_length": np.uint32(64),
        "llama.embedding_length": np.uint32(HIDDEN),
        "llama.feed_forward_length": np.uint32(INTERMEDIATE),
        "llama.attention.head_count": np.uint32(HEADS),
        "llama.attention.head_count_kv": np.uint32(KV_HEADS),
        "llama.attention.layer_norm_rms_epsilon": np.float32(1e-5),
        "tokenizer.ggml.tokens": ["a", "b", "c", "d", "e"],
    }


def plain_tensors() -> Values:
    rng = np.random.default_rng(1)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (VOCAB, HIDDEN),
        "output_norm.weight": (HIDDEN,),
    }
    for layer in range(LAYERS):
        for name, shape in (
            ("attn_norm", (HIDDEN,)),
            ("attn_q", (HEADS * HEAD_DIM, HIDDEN)),
            ("attn_k", (KV_HEADS * HEAD_DIM, HIDDEN)),
            ("attn_v", (KV_HEADS * HEAD_DIM, HIDDEN)),
            ("attn_output", (HIDDEN, HEADS * HEAD_DIM)),
            ("ffn_norm", (HIDDEN,)),
            ("ffn_gate", (INTERMEDIATE, HIDDEN)),
            ("ffn_up", (INTERMEDIATE, HIDDEN)),
            ("ffn_down", (HIDDEN, INTERMEDIATE)),
        ):
            shapes[f"blk.{layer}.{name}.weight"] = shape
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def write(path: Path, metadata: Values, tensors: Values) -> Path:
    writer = gguf.GGUFWriter(path, "unused")
    writer.kv_data = [{}]
    for key, value in metadata.items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, np.uint32):
            writer.add_uint32(key, int(value))
        else:
            writer.add_float32(key, float(value))
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def model(path: Path, *edits: Edit) -> Path:
    """Write a small model after *edits* of its metadata and tensors."""
    metadata, tensors = plain_metadata(), plain_tensors()
    for edit in edits:
        edit(metadata, tensors)
    return write(path / "model.gguf", metadata, tensors)


def long_wide_heads(positions: int) -> Edit:
    """State that many positions for heads of 256, whose tables take 1 KiB each."""

    def change(metadata: Values, _: Values) -> None:
        for suffix in ("key_length", "value_length"):
            metadata[f"llama.attention.{suffix}"] = np.uint32(256)
        metadata["llama.context_length"] = np.uint32(positions)

    return change


def put(key: str, value: Any) -> Edit:
    return lambda metadata, _: metadata.update({f"llama.{key}": value})


def drop(key: str) -> Edit:
    return lambda metadata, _: metadata.pop(f"llama.{key}")


def put_tensor(name: str, *shape: int, value: float = 0.5) -> Edit:
    return lambda _, tensors: tensors.update({name: np.full(shape, value, np.float32)})


def drop_tensor(name: str) -> Edit:
    return lambda _, tensors: tensors.pop(name)


def config_of(path: Path, *edits: Edit) -> ModelConfig:
    with GgufModelSource.open(model(path, *edits)) as source:
        return source.config


def test_a_plain_model(tmp_path: Path) -> None:
    assert config_of(tmp_path) == ModelConfig(
        architecture="llama",
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=INTERMEDIATE,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        rotary_dim=HEAD_DIM,
        rope_theta=Fraction(10000),
        rope_scaling=None,
        rope_pairing=RopePairing.INTERLEAVED,
        rms_norm_eps=Fraction(0x27C5AC | 1 << 23, 1 << 40),
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )


def test_weights_under_canonical_names(tmp_path: Path) -> None:
    edits = (
        put_tensor("output.weight", VOCAB, HIDDEN),
        put_tensor("blk.0.attn_output.bias", HIDDEN),
        put_tensor("blk.1.attn_output.bias", HIDDEN, value=2.0),
    )
    with GgufModelSource.open(model(tmp_path, *edits)) as source:
        tensors = plain_tensors()
        assert not source.config.tie_word_embeddings
        assert source.config.has_o_bias
        assert_array_equal(source.tensor("embed"), tensors["token_embd.weight"])
        assert_array_equal(source.tensor("lm_head"), np.full((VOCAB, HIDDEN), 0.5))
        assert_array_equal(source.tensor("layers.1.o_proj.bias"), np.full(HIDDEN, 2.0))
        for name, gguf_name in (
            ("input_layernorm", "attn_norm"),
            ("q_proj", "attn_q"),
            ("k_proj", "attn_k"),
            ("v_proj", "attn_v"),
            ("o_proj", "attn_output"),
            ("post_attention_layernorm", "ffn_norm"),
            ("gate_proj", "ffn_gate"),
            ("up_proj", "ffn_up"),
            ("down_proj", "ffn_down"),
        ):
            expected = tensors[f"blk.1.{gguf_name}.weight"]
            assert_array_equal(source.tensor(f"layers.1.{name}"), expected)
        rows = source.rows("layers.0.up_proj", first_row=3, row_count=4)
        assert_array_equal(rows, tensors["blk.0.ffn_up.weight"][3:7])


def test_head_sizes_may_be_stated(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        put("attention.key_length", np.uint32(HEAD_DIM)),
        put("attention.value_length", np.uint32(HEAD_DIM)),
        put("rope.dimension_count", np.uint32(2)),
        put("rope.freq_base", np.float32(5e5)),
        put("attention.head_count_kv", [KV_HEADS] * LAYERS),
        put("expert_count", np.uint32(0)),
        put("logit_scale", np.float32(1)),
        put("attention.causal", True),
        put("attention.sliding_window", np.uint32(64)),
    )
    assert (config.head_dim, config.rotary_dim) == (HEAD_DIM, 2)
    assert config.rope_theta == 500000
    assert config.num_key_value_heads == KV_HEADS


def test_key_value_heads_default_to_the_heads(tmp_path: Path) -> None:
    edits = [drop("attention.head_count_kv")]
    for layer in range(LAYERS):
        edits += [put_tensor(f"blk.{layer}.attn_{name}.weight", HIDDEN, HIDDEN) for name in "kv"]
    assert config_of(tmp_path, *edits).num_key_value_heads == HEADS


LINEAR_FOUR = RopeScaling(kind=RopeScalingKind.LINEAR, factor=Fraction(4))


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([put("rope.scaling.type", "none")], None),
        ([put("rope.scaling.type", "none"), put("rope.scaling.factor", 4.0)], None),
        ([put("rope.scaling.type", "linear")], None),
        ([put("rope.scaling.type", "linear"), put("rope.scaling.factor", 1.0)], None),
        ([put("rope.scaling.type", "linear"), put("rope.scaling.factor", 4.0)], LINEAR_FOUR),
        ([put("rope.scaling.factor", 4.0)], LINEAR_FOUR),
        ([put("rope.scale_linear", 4.0)], LINEAR_FOUR),
        ([put("rope.scale_linear", 2.0), put("rope.scaling.factor", 4.0)], LINEAR_FOUR),
        (
            [put_tensor("rope_freqs.weight", HEAD_DIM // 2, value=8.0)],
            RopeScaling(kind=RopeScalingKind.LLAMA3),
        ),
    ],
)
def test_rope_scaling(tmp_path: Path, edits: list[Edit], expected: RopeScaling | None) -> None:
    assert config_of(tmp_path, *edits).rope_scaling == expected


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (lambda m, _: m.update({"general.architecture": "mamba"}), UnsupportedArchitectureError),
        (lambda m, _: m.pop("general.architecture"), Status.GGUF_MISSING_KEY),
        (lambda m, _: m.pop("tokenizer.ggml.tokens"), Status.GGUF_MISSING_KEY),
        (drop("block_count"), Status.GGUF_MISSING_KEY),
        (drop("context_length"), Status.GGUF_MISSING_KEY),
        (drop("attention.head_count"), Status.GGUF_MISSING_KEY),
        (drop("attention.layer_norm_rms_epsilon"), Status.GGUF_MISSING_KEY),
        (put("block_count", np.float32(2)), Status.GGUF_WRONG_VALUE_TYPE),
        (put("rope.freq_base", np.float32("inf")), Status.GGUF_VALUE_OUT_OF_RANGE),
        (put("rope.freq_base", np.float32("nan")), Status.GGUF_VALUE_OUT_OF_RANGE),
        (put("rope.freq_base", np.float32(-1)), Status.GGUF_VALUE_OUT_OF_RANGE),
        (put("attention.head_count", np.uint32(0)), Status.GGUF_VALUE_OUT_OF_RANGE),
        (put("rope.freq_base", np.float32(0)), ModelNumberError),
        (put("attention.layer_norm_rms_epsilon", np.float32(0)), ModelNumberError),
        (put("rope.scaling.factor", np.float32(0.5)), ModelNumberError),
        (put("block_count", np.uint32(0)), LayerCountError),
        (put("block_count", np.uint32(2**32 - 1)), LayerCountError),
        (put("context_length", np.uint32(2**31)), ModelContextError),
        (long_wide_heads(2**18), SourceTensorShapeError),
        (long_wide_heads(2**18 + 1), UnsupportedHyperparameterError),
        (put("attention.head_count_kv", np.uint32(2)), HeadCountError),
        (put("attention.key_length", np.uint32(7)), UnsupportedHyperparameterError),
        (put("attention.value_length", np.uint32(7)), UnsupportedHyperparameterError),
        (put("attention.head_count", np.uint32(5)), UnsupportedHyperparameterError),
        (put("attention.head_count", np.uint32(HIDDEN)), HeadDimError),
        (put("rope.dimension_count", np.uint32(3)), RotaryDimError),
        (put("rope.dimension_count", np.uint32(HEAD_DIM + 2)), RotaryDimError),
        (lambda m, _: m.update({"tokenizer.ggml.tokens": ["a"] * 2**20 + ["b"]}), VocabSizeError),
        (put("expert_count", np.uint32(8)), MixtureOfExpertsError),
        (put("attention.head_count_kv", [1, 3]), UnsupportedHyperparameterError),
        (put("attention.head_count_kv", [1, 1, 1]), UnsupportedHyperparameterError),
        (put("attention.head_count_kv", [-1, -1]), UnsupportedHyperparameterError),
        (put("attention.head_count_kv", [True, True]), Status.GGUF_WRONG_VALUE_TYPE),
        (put("attention.sliding_window", np.uint32(63)), UnsupportedHyperparameterError),
        (put("attention.causal", False), UnsupportedHyperparameterError),
        (put("attention.scale", np.float32(0.1)), UnsupportedHyperparameterError),
        (put("logit_scale", np.float32(2)), UnsupportedHyperparameterError),
        (put("rope.scaling.type", "yarn"), UnsupportedRopeScalingError),
        (put("rope.scaling.type", "longrope"), UnsupportedRopeScalingError),
        (put_tensor("rope_freqs.weight", HEAD_DIM // 2, value=0.0), ModelNumberError),
        (put_tensor("rope_freqs.weight", HEAD_DIM // 2, value=1e6), ModelNumberError),
        (put_tensor("rope_freqs.weight", HEAD_DIM), SourceTensorShapeError),
        (drop_tensor("token_embd.weight"), SourceTensorMissingError),
        (drop_tensor("output_norm.weight"), SourceTensorMissingError),
        (drop_tensor("blk.1.ffn_up.weight"), SourceTensorMissingError),
        (put("block_count", np.uint32(3)), SourceTensorMissingError),
        (put_tensor("token_embd.weight", VOCAB - 1, HIDDEN), SourceTensorShapeError),
        (put_tensor("output.weight", VOCAB + 1, HIDDEN), SourceTensorShapeError),
        (put_tensor("blk.0.attn_k.weight", HIDDEN, HEAD_DIM), SourceTensorShapeError),
        (put("block_count", np.uint32(1)), SourceTensorUnexpectedError),
        (put_tensor("blk.0.attn_q_norm.weight", HEAD_DIM), SourceTensorUnexpectedError),
        (put_tensor("blk.2.attn_q.bias", HIDDEN), SourceTensorUnexpectedError),
        (put_tensor("blk.0.attn_q.bias", HIDDEN + 1), SourceTensorShapeError),
        (put_tensor("blk.00.attn_norm.weight", HIDDEN), SourceTensorUnexpectedError),
    ],
)
def test_every_defect_has_its_error(tmp_path: Path, edit: Edit, error: Kind) -> None:
    path = model(tmp_path, edit)
    with raises(error) as caught:
        GgufModelSource.open(path)
    assert kind_of(caught.value) is error


@pytest.mark.parametrize(
    ("gguf_name", "name", "group"),
    [
        ("attn_q", "q_proj", "has_qkv_bias"),
        ("attn_k", "k_proj", "has_qkv_bias"),
        ("attn_v", "v_proj", "has_qkv_bias"),
        ("attn_output", "o_proj", "has_o_bias"),
        ("ffn_gate", "gate_proj", "has_mlp_bias"),
        ("ffn_up", "up_proj", "has_mlp_bias"),
        ("ffn_down", "down_proj", "has_mlp_bias"),
    ],
)
def test_any_bias_may_stand_alone(tmp_path: Path, gguf_name: str, name: str, group: str) -> None:
    """llama.cpp asks for each of them on its own; those that are left out add nothing."""
    width = plain_tensors()[f"blk.1.{gguf_name}.weight"].shape[0]
    path = model(tmp_path, put_tensor(f"blk.1.{gguf_name}.bias", width, value=2.0))
    with GgufModelSource.open(path) as source:
        assert getattr(source.config, group)
        biases = [one for one in weight_shapes(source.config) if one.endswith(".bias")]
        assert len(biases) == LAYERS * (1 if group == "has_o_bias" else 3)
        for one in biases:
            value = 2.0 if one == f"layers.1.{name}.bias" else 0.0
            expected = np.full(weight_shapes(source.config)[one], value, np.float32)
            assert_array_equal(source.tensor(one), expected)


def test_the_largest_weight_is_found(tmp_path: Path) -> None:
    def spoil(_: Values, tensors: Values) -> None:
        tensors["blk.1.ffn_up.weight"][3, 2] = -3e38
        tensors["blk.0.attn_norm.weight"][1] = 1e38

    with GgufModelSource.open(model(tmp_path, spoil)) as source:
        name, index, found = source.largest_weight()
    assert (name, index, found) == ("blk.1.ffn_up.weight", (3, 2), float(np.float32(-3e38)))


def test_matrices_go_by_the_names_of_the_file(tmp_path: Path) -> None:
    with GgufModelSource.open(model(tmp_path)) as source:
        assert source.name_in_file("layers.1.down_proj") == "blk.1.ffn_down.weight"


@pytest.mark.parametrize(
    ("edits", "error", "start"),
    [
        ([put("context_length", np.uint32(0))], ModelContextError, "llama.context_length is 0;"),
        (
            [put("attention.head_count_kv", np.uint32(2))],
            HeadCountError,
            "llama.attention.head_count is 3 and llama.attention.head_count_kv is 2; the first "
            "must be from 1 to 1024 and a multiple of the second",
        ),
        (
            [
                drop("attention.head_count_kv"),
                put("attention.head_count", np.uint32(1025)),
                put("attention.key_length", np.uint32(HEAD_DIM)),
                put("attention.value_length", np.uint32(HEAD_DIM)),
            ],
            HeadCountError,
            "llama.attention.head_count is 1025 and llama.attention.head_count is 1025;",
        ),
        # The first golden run has a token of its prompt and one of its answer.
        (
            [put("context_length", np.uint32(1))],
            ModelContextError,
            "llama.context_length is 1; it must be from 2 to 1048576",
        ),
        ([put("embedding_length", np.uint32(0))], HiddenSizeError, "llama.embedding_length is 0;"),
        (
            [put("feed_forward_length", np.uint32(0))],
            IntermediateSizeError,
            "llama.feed_forward_length is 0;",
        ),
        ([put("block_count", np.uint32(513))], LayerCountError, "llama.block_count is 513;"),
        (
            [
                put("attention.key_length", np.uint32(1)),
                put("attention.value_length", np.uint32(1)),
            ],
            HeadDimError,
            "llama.attention.key_length is 1;",
        ),
        (
            [put("rope.dimension_count", np.uint32(3))],
            RotaryDimError,
            "llama.rope.dimension_count is 3; it must be even, from 2 to a head's width,",
        ),
        ([put("rope.freq_base", 0.5)], ModelNumberError, "llama.rope.freq_base is 1/2;"),
        (
            [put("attention.layer_norm_rms_epsilon", 1.5)],
            ModelNumberError,
            "llama.attention.layer_norm_rms_epsilon is 3/2;",
        ),
        ([put("rope.scaling.factor", 0.5)], ModelNumberError, "llama.rope.scaling.factor is 1/2;"),
        ([put("rope.scale_linear", 0.5)], ModelNumberError, "llama.rope.scale_linear is 1/2;"),
    ],
)
def test_a_size_is_called_as_the_file_calls_it(
    tmp_path: Path, edits: list[Edit], error: Kind, start: str
) -> None:
    path = model(tmp_path, *edits)
    with raises(error) as caught:
        GgufModelSource.open(path)
    assert kind_of(caught.value) is error
    assert str(caught.value).startswith(start)


def test_a_key_that_is_not_there_is_not_blamed(tmp_path: Path) -> None:
    def leave(*suffixes: str) -> Edit:
        keys = [f"llama.{suffix}" for suffix in suffixes]

        def edit(metadata: dict[str, Any], _: object) -> None:
            for key in keys:
                metadata.pop(key, None)

        return edit

    no_values = leave("attention.value_length")
    for edit, key in (
        (put("attention.key_length", np.uint32(2 * HEAD_DIM)), "llama.attention.key_length"),
        (put("attention.value_length", np.uint32(2 * HEAD_DIM)), "llama.attention.value_length"),
    ):
        path = model(tmp_path, leave("attention.key_length"), no_values, edit)
        with pytest.raises(UnsupportedHyperparameterError) as caught:
            GgufModelSource.open(path)
        assert (caught.value.key, caught.value.value) == (key, str(2 * HEAD_DIM))
    one = leave("attention.key_length", "attention.value_length", "rope.dimension_count")
    path = model(tmp_path, one, put("attention.head_count", np.uint32(HIDDEN)))
    with pytest.raises(HeadDimError) as caught_size:
        GgufModelSource.open(path)
    assert caught_size.value.name == "llama.embedding_length / llama.attention.head_count"


def test_linear_and_per_frequency_scaling_together(tmp_path: Path) -> None:
    edits = (put("rope.scaling.factor", 4.0), put_tensor("rope_freqs.weight", HEAD_DIM // 2))
    with pytest.raises(UnsupportedRopeScalingError, match=r"linear with rope_freqs\.weight"):
        GgufModelSource.open(model(tmp_path, *edits))


def test_an_infinite_weight_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = model(tmp_path, put_tensor("output_norm.weight", HIDDEN, value=np.inf))
    with GgufModelSource.open(path) as source, raises(Status.GGUF_NON_FINITE_WEIGHT):
        source.tensor("final_norm")


def test_unknown_architecture_lists_the_known(tmp_path: Path) -> None:
    path = model(tmp_path, lambda m, _: m.update({"general.architecture": "gpt2"}))
    with pytest.raises(UnsupportedArchitectureError, match=r"'gpt2' is not supported; .*: llama"):
        GgufModelSource.open(path)


def test_closing_twice(tmp_path: Path) -> None:
    source = GgufModelSource.open(model(tmp_path))
    source.close()
    source.close()


def test_a_published_model() -> None:
    with GgufModelSource.open(shared_data("stories260K/stories260K-F32.gguf")) as source:
        config = source.config
    assert (config.vocab_size, config.hidden_size, config.intermediate_size) == (512, 64, 172)
    assert (config.num_hidden_layers, config.num_attention_heads) == (5, 8)
    assert (config.num_key_value_heads, config.head_dim, config.rotary_dim) == (4, 8, 8)
    assert not config.tie_word_embeddings
