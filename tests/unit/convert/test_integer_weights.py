"""Weights of a source as integer tensors."""

import math
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sslm.backends.reference.panels import int32_values, panel_rows
from sslm.convert.integer_weights import IntegerWeights, output_bits, read_integer_weights
from sslm.convert.source import Float32Array, GgufModelSource
from sslm.model.fraction_bits import FractionBits, LayerFractionBits
from sslm.model.llama import build_llama
from sslm.model.tensor_shapes import check_tensors
from tests.gguf_files import random_llama_gguf

LAYER = LayerFractionBits(q=20, k=19, v=18, gate=17, up=16)
BITS = FractionBits(residual=15, layers=(LAYER,))
LOG2_E = 1.4426950408889634


def write(folder: Path, **changes: Any) -> Path:
    shape: dict[str, Any] = {
        "seed": 3,
        "hidden_size": 36,
        "num_hidden_layers": 1,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "head_dim": 10,
        "intermediate_size": 50,
        "vocab_size": 261,
        "tied": False,
        "biases": True,
        "max_position_embeddings": 40,
    }
    return random_llama_gguf(folder / "m.gguf", **(shape | changes))


def read(path: Path) -> tuple[IntegerWeights, dict[str, Float32Array]]:
    with GgufModelSource.open(path) as source:
        weights = read_integer_weights(source, lambda done, total: None)
        floats = {name: source.tensor(name) for name in [*weights.matrices, *weights.gains]}
        floats |= {name: source.tensor(name) for name in weights.biases}
        return weights, floats


@pytest.mark.parametrize("tied", [True, False])
def test_tensors_are_those_of_the_architecture(tmp_path: Path, tied: bool) -> None:
    weights, _ = read(write(tmp_path, tied=tied))
    tensors = weights.tensors(BITS)
    check_tensors(weights.config, tensors)
    build_llama(weights.config, BITS, tensors)


def test_matrices_stand_for_the_weights(tmp_path: Path) -> None:
    """Code times mantissa, at the exponents that inputs and outputs have, is the weight."""
    weights, floats = read(write(tmp_path))
    tensors = weights.tensors(BITS)
    norm = weights.gains["layers.0.input_layernorm"].exponent + 6
    mlp = weights.gains["layers.0.post_attention_layernorm"].exponent + 6
    final = weights.gains["final_norm"].exponent + 6
    places = {
        "embed": (0, 15),
        "layers.0.q_proj": (norm, 20),
        "layers.0.k_proj": (norm, 19),
        "layers.0.v_proj": (norm, 18),
        "layers.0.o_proj": (18, 15),
        "layers.0.gate_proj": (mlp, 17),
        "layers.0.up_proj": (mlp, 16),
        "layers.0.down_proj": (17 + 16, 15),
        "lm_head": (final, 0),
    }
    assert set(places) == set(weights.matrices)
    for name, (input_bits, out_bits) in places.items():
        tensor, mantissas = tensors[name], tensors[f"{name}.mantissas"]
        fold = LOG2_E / math.sqrt(10) if name.endswith("q_proj") else 1.0
        codes = panel_rows(tensor, 0, tensor.shape[0])
        exponent = mantissas.exponent - input_bits + out_bits
        scales = int32_values(mantissas) * 2.0**-exponent
        expected = floats[name].astype(np.float64) * fold
        step = np.abs(expected).max(axis=1, keepdims=True) / 127
        assert (np.abs(codes * scales[:, None] - expected) <= 0.501 * step).all()
        # The mantissas themselves are as fine as 24 bits allow.
        assert (np.abs(scales[:, None] - step) <= step.max() * 2.0**-24).all()


def test_gains_carry_the_root_of_their_width(tmp_path: Path) -> None:
    weights, floats = read(write(tmp_path))
    for name, gain in weights.gains.items():
        found = gain.values * 2.0**-gain.exponent
        expected = floats[name].astype(np.float64) * 6
        assert (np.abs(found - expected) <= np.abs(expected).max() * 2.0**-23).all()


def test_biases_are_rounded_at_their_outputs_fraction_bits(tmp_path: Path) -> None:
    weights, floats = read(write(tmp_path))
    tensors = weights.tensors(BITS)
    assert {name.rpartition(".")[0] for name in weights.biases} == {
        "layers.0.q_proj",
        "layers.0.k_proj",
        "layers.0.v_proj",
    }
    for name in weights.biases:
        fold = LOG2_E / math.sqrt(10) if ".q_proj" in name else 1.0
        bits = output_bits(name.removesuffix(".bias"), BITS)
        exact = [Fraction(bias * fold) * 2**bits for bias in floats[name].astype(float).tolist()]
        assert int32_values(tensors[name]).tolist() == [round(value) for value in exact]


def test_biases_beyond_int32_are_clamped(tmp_path: Path) -> None:
    huge = np.full(10, -3e5, dtype=np.float32)
    huge[0] = 3e5
    path = write(tmp_path, extra_tensors={"blk.0.attn_v.bias": ("F32", huge)})
    tensors = read(path)[0].tensors(BITS)
    found = int32_values(tensors["layers.0.v_proj.bias"])
    assert found.tolist() == [(1 << 31) - 1] + [1 - (1 << 31)] * 9


def test_a_tied_head_has_the_embeddings_codes_and_scales_of_its_own(tmp_path: Path) -> None:
    weights, _ = read(write(tmp_path, tied=True))
    tensors = weights.tensors(BITS)
    assert "lm_head" not in tensors
    embed, head = tensors["embed.mantissas"], tensors["lm_head.mantissas"]
    assert head.data == embed.data
    final = weights.gains["final_norm"].exponent + 6
    assert head.exponent - embed.exponent == final + 15


def test_output_bits() -> None:
    sites = {"q": 20, "k": 19, "v": 18, "o": 15, "gate": 17, "up": 16, "down": 15}
    for site, bits in sites.items():
        assert output_bits(f"layers.0.{site}_proj", BITS) == bits
    assert output_bits("embed", BITS) == 15


@pytest.mark.parametrize("size", [1e-20, 1e-38, 0.0])
def test_tiny_weights_stay_within_the_ops_exponents(tmp_path: Path, size: float) -> None:
    """Their mantissas lose bits, down to nothing, rather than the program its proof."""
    embedding = np.full((261, 36), size, dtype=np.float32)
    down = np.full((36, 50), size, dtype=np.float32)
    extra = {"token_embd.weight": ("F32", embedding), "blk.0.ffn_down.weight": ("F32", down)}
    weights, _ = read(write(tmp_path, extra_tensors=extra))
    tensors = weights.tensors(BITS)
    assert tensors["embed.mantissas"].exponent <= 62
    assert tensors["layers.0.down_proj.mantissas"].exponent <= 110
    build_llama(weights.config, BITS, tensors)


def test_progress_counts_weights(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with GgufModelSource.open(write(tmp_path)) as source:
        read_integer_weights(source, lambda done, total: seen.append((done, total)))
    done = [count for count, _ in seen]
    assert done == sorted(done)
    assert seen[-1][0] == seen[-1][1] == seen[0][1]


def test_the_same_bytes_on_every_machine(tmp_path: Path) -> None:
    """The hash of every tensor, recorded once."""
    weights, _ = read(write(tmp_path))
    digest = sha256()
    for name, tensor in sorted(weights.tensors(BITS).items()):
        digest.update(f"{name} {tensor.shape} {tensor.exponent}\n".encode())
        digest.update(tensor.data)
    assert digest.hexdigest() == GOLDEN


GOLDEN = "4985ef72b59d8eac3742a495013e1df6f4aa635ff8cc0e871243d5b75b076294"
