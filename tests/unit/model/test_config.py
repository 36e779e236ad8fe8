"""Configurations: every bound has its error, and every real number keeps its bits."""

import pickle
import struct
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm import limits
from sslm.errors.base import ArtifactError
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
from sslm.model.config import (
    ModelConfig,
    RopePairing,
    RopeScaling,
    RopeScalingKind,
    binary32_bits,
    binary32_from_bits,
)
from sslm.model.families import weight_shapes

CONFIG = ModelConfig(
    architecture="llama",
    vocab_size=512,
    hidden_size=64,
    intermediate_size=172,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=4,
    head_dim=8,
    rotary_dim=8,
    rope_theta=Fraction(10000),
    rope_scaling=None,
    rope_pairing=RopePairing.INTERLEAVED,
    rms_norm_eps=Fraction(1, 1 << 17),
    max_position_embeddings=512,
    tie_word_embeddings=True,
)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"vocab_size": 0}, VocabSizeError),
        ({"vocab_size": limits.VOCAB_SIZE_MAX + 1}, VocabSizeError),
        ({"hidden_size": 0}, HiddenSizeError),
        ({"hidden_size": limits.HIDDEN_SIZE_MAX + 1}, HiddenSizeError),
        ({"intermediate_size": 0}, IntermediateSizeError),
        ({"intermediate_size": limits.LINEAR_COLUMNS_MAX + 1}, IntermediateSizeError),
        ({"num_hidden_layers": 0}, LayerCountError),
        ({"num_hidden_layers": limits.LAYER_COUNT_MAX + 1}, LayerCountError),
        ({"num_attention_heads": 6}, HeadCountError),
        ({"num_attention_heads": 0, "num_key_value_heads": 0}, HeadCountError),
        ({"num_key_value_heads": 0}, HeadCountError),
        ({"num_key_value_heads": 16}, HeadCountError),
        ({"num_attention_heads": 2 * limits.HEAD_COUNT_MAX}, HeadCountError),
        ({"head_dim": 1}, HeadDimError),
        ({"head_dim": limits.HEAD_DIM_MAX + 1}, HeadDimError),
        ({"num_attention_heads": 1024, "head_dim": 256}, AttentionWidthError),
        ({"rotary_dim": 0}, RotaryDimError),
        ({"rotary_dim": 7}, RotaryDimError),
        ({"rotary_dim": 10}, RotaryDimError),
        ({"max_position_embeddings": 0}, ModelContextError),
        ({"max_position_embeddings": limits.CONTEXT_TOKENS_MAX + 1}, ModelContextError),
        ({"rope_theta": Fraction(1, 2)}, ModelNumberError),
        ({"rope_theta": Fraction(10000, 3)}, ModelNumberError),
        ({"rope_theta": Fraction(1 << 128)}, ModelNumberError),
        ({"rms_norm_eps": Fraction(0)}, ModelNumberError),
        ({"rms_norm_eps": Fraction(1)}, ModelNumberError),
        ({"rms_norm_eps": Fraction(1, 100000)}, ModelNumberError),
    ],
)
def test_every_bound_has_its_error(changes: dict[str, Any], error: type[ArtifactError]) -> None:
    with pytest.raises(error) as caught:
        replace(CONFIG, **changes)
    assert type(caught.value) is error
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (error, str(caught.value))


def test_limits_themselves_are_accepted() -> None:
    config = replace(
        CONFIG,
        vocab_size=limits.VOCAB_SIZE_MAX,
        hidden_size=limits.HIDDEN_SIZE_MAX,
        intermediate_size=limits.LINEAR_COLUMNS_MAX,
        num_hidden_layers=limits.LAYER_COUNT_MAX,
        num_attention_heads=256,
        head_dim=limits.HEAD_DIM_MAX,
        rotary_dim=limits.HEAD_DIM_MAX,
        max_position_embeddings=limits.CONTEXT_TOKENS_MAX,
    )
    assert config.query_size == limits.LINEAR_COLUMNS_MAX


def test_config_cannot_change() -> None:
    with pytest.raises(FrozenInstanceError):
        CONFIG.vocab_size = 1  # type: ignore[misc]


def test_messages_name_what_was_found_and_expected() -> None:
    with pytest.raises(HeadCountError, match="num_attention_heads is 6 and num_key_value_heads is"):
        replace(CONFIG, num_attention_heads=6)
    with pytest.raises(VocabSizeError, match=r"vocab_size is 0; it must be from 1 to 1048576"):
        replace(CONFIG, vocab_size=0)


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        (RopeScalingKind.LINEAR, None),
        (RopeScalingKind.LINEAR, Fraction(1, 2)),
        (RopeScalingKind.LINEAR, Fraction(10, 3)),
        (RopeScalingKind.LINEAR, Fraction(limits.ROPE_FACTOR_MAX + 1)),
        (RopeScalingKind.LLAMA3, Fraction(2)),
    ],
)
def test_scaling_refuses_factors_that_do_not_fit(
    kind: RopeScalingKind, factor: Fraction | None
) -> None:
    with pytest.raises(ModelNumberError, match=r"rope_scaling\.factor"):
        RopeScaling(kind=kind, factor=factor)


def test_weight_shapes_of_a_plain_tied_model() -> None:
    shapes = weight_shapes(replace(CONFIG, num_hidden_layers=1))
    assert list(shapes.items()) == [
        ("embed", (512, 64)),
        ("layers.0.input_layernorm", (64,)),
        ("layers.0.q_proj", (64, 64)),
        ("layers.0.k_proj", (32, 64)),
        ("layers.0.v_proj", (32, 64)),
        ("layers.0.o_proj", (64, 64)),
        ("layers.0.post_attention_layernorm", (64,)),
        ("layers.0.gate_proj", (172, 64)),
        ("layers.0.up_proj", (172, 64)),
        ("layers.0.down_proj", (64, 172)),
        ("final_norm", (64,)),
    ]


def test_weight_shapes_with_every_option() -> None:
    config = replace(
        CONFIG,
        num_hidden_layers=1,
        head_dim=24,
        rotary_dim=16,
        tie_word_embeddings=False,
        rope_scaling=RopeScaling(kind=RopeScalingKind.LLAMA3),
        has_qkv_bias=True,
        has_o_bias=True,
        has_mlp_bias=True,
    )
    shapes = weight_shapes(config)
    assert shapes["rope_factors"] == (8,)
    assert shapes["lm_head"] == (512, 64)
    assert shapes["layers.0.q_proj"] == (192, 64)
    assert shapes["layers.0.o_proj"] == (64, 192)
    biases = {name: shape for name, shape in shapes.items() if name.endswith(".bias")}
    assert biases == {
        "layers.0.q_proj.bias": (192,),
        "layers.0.k_proj.bias": (96,),
        "layers.0.v_proj.bias": (96,),
        "layers.0.o_proj.bias": (64,),
        "layers.0.gate_proj.bias": (172,),
        "layers.0.up_proj.bias": (172,),
        "layers.0.down_proj.bias": (64,),
    }


@pytest.mark.parametrize(
    ("bits", "value"),
    [
        (0x0000_0000, Fraction(0)),
        (0x0000_0001, Fraction(1, 1 << 149)),
        (0x007F_FFFF, Fraction((1 << 23) - 1, 1 << 149)),
        (0x0080_0000, Fraction(1, 1 << 126)),
        (0x3F80_0000, Fraction(1)),
        (0x461C_4000, Fraction(10000)),
        (0x3727_C5AC, Fraction(0x27C5AC | 1 << 23, 1 << 40)),
        (0x7F7F_FFFF, Fraction(((1 << 24) - 1) << 104)),
    ],
)
def test_binary32_known_patterns(bits: int, value: Fraction) -> None:
    assert binary32_from_bits("x", bits) == value
    assert binary32_bits("x", value) == bits


@given(bits=st.integers(0, 0x7F7F_FFFF))
def test_binary32_agrees_with_the_machine(bits: int) -> None:
    value = binary32_from_bits("x", bits)
    assert value == Fraction(struct.unpack("<f", struct.pack("<I", bits))[0])
    assert binary32_bits("x", value) == bits


@pytest.mark.parametrize("bits", [-1, 0x7F80_0000, 0x7FC0_0000, 0x8000_0000, 1 << 40])
def test_binary32_refuses_patterns_of_no_use(bits: int) -> None:
    with pytest.raises(ModelNumberError):
        binary32_from_bits("x", bits)


@pytest.mark.parametrize(
    "value",
    [
        Fraction(-1),
        Fraction(1, 3),
        Fraction((1 << 24) + 1),
        Fraction(1, 1 << 150),
        Fraction(1, 1 << 5000),
        Fraction(3, 1 << 149) / 2,
        Fraction(1 << 128),
        Fraction((1 << 25) - 1, 1 << 24),
    ],
)
def test_binary32_refuses_numbers_between_patterns(value: Fraction) -> None:
    with pytest.raises(ModelNumberError):
        binary32_bits("x", value)
