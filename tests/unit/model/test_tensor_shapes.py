"""An artifact holds exactly the tensors of its architecture."""

from dataclasses import replace
from fractions import Fraction

import pytest

from sslm.errors.program import TensorSetError
from sslm.model.config import ModelConfig, RopePairing, RopeScaling, RopeScalingKind
from sslm.model.tensor_shapes import TensorShapes, check_tensors, tensor_shapes
from sslm.program.tensors import Encoding, Tensor, size_bytes

CONFIG = ModelConfig(
    architecture="llama",
    vocab_size=7,
    hidden_size=6,
    intermediate_size=5,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=4,
    rotary_dim=2,
    rope_theta=Fraction(10000),
    rope_scaling=None,
    rope_pairing=RopePairing.INTERLEAVED,
    rms_norm_eps=Fraction(1, 1 << 17),
    max_position_embeddings=9,
    tie_word_embeddings=True,
)
LLAMA3 = replace(
    CONFIG, rope_scaling=RopeScaling(kind=RopeScalingKind.LLAMA3), tie_word_embeddings=False
)


def tensors_of(config: ModelConfig) -> dict[str, Tensor]:
    return {
        name: tensor(name, encoding, shape)
        for name, (encoding, shape) in tensor_shapes(config).items()
    }


def tensor(name: str, encoding: Encoding, shape: tuple[int, ...]) -> Tensor:
    data = memoryview(bytes(size_bytes(encoding, shape)))
    return Tensor(name=name, encoding=encoding, shape=shape, exponent=0, data=data)


def test_every_tensor_of_a_small_model() -> None:
    matrices: dict[str, tuple[int, ...]] = {
        "embed": (7, 6),
        "layers.0.q_proj": (8, 6),
        "layers.0.k_proj": (4, 6),
        "layers.0.v_proj": (4, 6),
        "layers.0.o_proj": (6, 8),
        "layers.0.gate_proj": (5, 6),
        "layers.0.up_proj": (5, 6),
        "layers.0.down_proj": (6, 5),
    }
    vectors: dict[str, tuple[int, ...]] = {
        "layers.0.input_layernorm": (6,),
        "layers.0.post_attention_layernorm": (6,),
        "final_norm": (6,),
        "lm_head.mantissas": (7,),
        "rope.cos": (9, 1),
        "rope.sin": (9, 1),
    }
    vectors |= {f"{name}.mantissas": shape[:1] for name, shape in matrices.items()}
    expected: TensorShapes = {
        name: (Encoding.PANEL_INT8, shape) for name, shape in matrices.items()
    }
    expected |= {name: (Encoding.INT32, shape) for name, shape in vectors.items()}
    assert tensor_shapes(CONFIG) == expected


def test_options_add_their_tensors() -> None:
    plain = set(tensor_shapes(CONFIG))
    assert set(tensor_shapes(replace(CONFIG, has_o_bias=True))) - plain == {"layers.0.o_proj.bias"}
    assert tensor_shapes(replace(CONFIG, has_mlp_bias=True))["layers.0.gate_proj.bias"] == (
        Encoding.INT32,
        (5,),
    )
    # The factors of llama3 scaling have gone into the tables.
    assert set(tensor_shapes(LLAMA3)) - plain == {"lm_head"}


@pytest.mark.parametrize("config", [CONFIG, LLAMA3, replace(CONFIG, has_qkv_bias=True)])
def test_the_right_tensors_are_accepted(config: ModelConfig) -> None:
    check_tensors(config, tensors_of(config))


def test_matrices_may_differ_in_width() -> None:
    tensors = tensors_of(LLAMA3)
    for name in ("layers.0.q_proj", "lm_head"):
        shape = tensor_shapes(LLAMA3)[name][1]
        tensors[name] = tensor(name, Encoding.PANEL_INT4, shape)
        check_tensors(LLAMA3, tensors)
    wrong = tensors | {"final_norm": tensor("final_norm", Encoding.PANEL_INT4, (6, 1))}
    with pytest.raises(TensorSetError):
        check_tensors(LLAMA3, wrong)


@pytest.mark.parametrize("name", sorted(tensor_shapes(LLAMA3)))
def test_each_missing_or_wrong_tensor_is_named(name: str) -> None:
    tensors = tensors_of(LLAMA3)
    encoding, shape = tensor_shapes(LLAMA3)[name]
    wrong_encoding = Encoding.INT32 if encoding is Encoding.PANEL_INT8 else Encoding.PANEL_INT8
    wrong = [{other: tensors[other] for other in tensors if other != name}]
    wrong.append(tensors | {name: tensor(name, encoding, (shape[0] + 1, *shape[1:]))})
    if len(shape) == 2:
        wrong.append(tensors | {name: tensor(name, wrong_encoding, shape)})
    for changed in wrong:
        with pytest.raises(TensorSetError) as caught:
            check_tensors(LLAMA3, changed)
        assert caught.value.name == name


def test_tensors_that_do_not_belong_are_refused() -> None:
    for name in ("lm_head", "layers.1.q_proj", "layers.0.q_proj.bias"):
        extra = tensor(name, Encoding.INT32, (1,))
        with pytest.raises(TensorSetError) as caught:
            check_tensors(CONFIG, tensors_of(CONFIG) | {name: extra})
        assert caught.value.name == name
