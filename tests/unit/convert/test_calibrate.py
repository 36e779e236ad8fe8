"""Fraction bits suit the text that they were chosen on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sslm.backends.reference.backend import ReferencePlan
from sslm.backends.reference.rows import Watcher
from sslm.convert.calibrate import MAGNITUDE_BITS, calibrate, residual_bits_max
from sslm.convert.integer_weights import IntegerWeights, read_integer_weights
from sslm.convert.source import GgufModelSource
from sslm.errors.convert import CalibrationError
from sslm.errors.program import AccumulatorBoundError
from sslm.model.fraction_bits import FRACTION_BITS_MAX, FractionBits
from sslm.model.llama import build_llama
from sslm.numerics.rounding import Int64Array
from sslm.program.buffers import Buffer
from tests.data import shared_data
from tests.gguf_files import random_llama_gguf
from tests.tiny_models import generate

IDS = [1, 260, 3, 100, 7, 7, 90, 4, 33]


def weights_of(path: Path) -> IntegerWeights:
    with GgufModelSource.open(path) as source:
        return read_integer_weights(source, lambda done, total: None)


def random_weights(folder: Path, **changes: Any) -> IntegerWeights:
    shape: dict[str, Any] = {
        "seed": 5,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 12,
        "intermediate_size": 30,
        "vocab_size": 261,
    }
    return weights_of(random_llama_gguf(folder / "m.gguf", **(shape | changes)))


def observed(
    weights: IntegerWeights, bits: FractionBits, ids: list[int]
) -> tuple[dict[tuple[str, int], int], dict[str, int]]:
    """The largest value of every site, and the saturations, over a text."""
    largest: dict[tuple[str, int], int] = {}

    class Largest(Watcher):
        def stored(self, segment_index: int, buffer: Buffer, values: Int64Array) -> None:
            key = buffer.name, 0 if buffer.name == "residual" else segment_index
            largest[key] = max(largest.get(key, 0), int(np.abs(values).max()))

    tensors = weights.tensors(bits)
    program = build_llama(weights.config, bits, tensors)
    plan = ReferencePlan(program, tensors, Largest())
    (outcome,) = generate(plan, [ids], max_tokens=1)
    return largest, outcome.saturations


def assert_suits(weights: IntegerWeights, bits: FractionBits, ids: list[int]) -> None:
    largest, saturations = observed(weights, bits, ids)
    assert set(saturations.values()) == {0}
    assert max(largest.values()) < 1 << MAGNITUDE_BITS
    for (name, segment), value in largest.items():
        layer = bits.layers[segment - 1] if segment else None
        width = bits.residual if layer is None else getattr(layer, name)
        assert value >= 1 << (MAGNITUDE_BITS - 2) or width == FRACTION_BITS_MAX


def test_random_weights(tmp_path: Path) -> None:
    weights = random_weights(tmp_path)
    runs: list[tuple[int, int]] = []
    bits = calibrate(weights, [IDS, IDS[::-1]], lambda *told: runs.append(told))
    assert len(bits.layers) == 2
    count = len(runs)
    assert runs == [(done, max(done + 1, 2)) for done in range(1, count)] + [(count, count)]
    assert 2 <= len(runs) <= 4
    assert_suits(weights, bits, IDS)
    assert_suits(weights, bits, IDS[::-1])


def test_trained_weights() -> None:
    weights = weights_of(shared_data("stories260K/stories260K-F32.gguf"))
    ids = [1, 403, 407, 261, 378, 432, 383, 286, 261, 376]
    assert_suits(weights, calibrate(weights, [ids], lambda done, total: None), ids)


def test_a_text_longer_than_a_chunk(tmp_path: Path) -> None:
    weights = random_weights(tmp_path)
    ids = [index * 7 % 261 for index in range(70)]
    assert_suits(weights, calibrate(weights, [ids], lambda done, total: None), ids)


@pytest.mark.parametrize("size", [1000.0, 1e6, 1e8])
def test_large_residuals_get_few_fraction_bits(tmp_path: Path, size: float) -> None:
    embedding = np.full((261, 24), size, dtype=np.float32)
    weights = random_weights(tmp_path, extra_tensors={"token_embd.weight": ("F32", embedding)})
    bits = calibrate(weights, [IDS], lambda done, total: None)
    assert bits.residual < 20
    assert_suits(weights, bits, IDS)


@pytest.mark.parametrize("hidden_size", [24, 2048])
@pytest.mark.parametrize("eps", [1e-5, 0.9])
def test_small_residuals_leave_room_for_epsilon(
    tmp_path: Path, hidden_size: int, eps: float
) -> None:
    """RMSNorm proves a bound on epsilon that values below 1 would break at 30 fraction bits."""
    embedding = np.full((261, hidden_size), 1e-3, dtype=np.float32)
    weights = random_weights(
        tmp_path,
        hidden_size=hidden_size,
        rms_norm_eps=eps,
        extra_tensors={"token_embd.weight": ("F32", embedding)}
        | {
            f"blk.{layer}.{name}.weight": ("F32", np.zeros((hidden_size, width), np.float32))
            for layer in range(2)
            for name, width in (("attn_output", 24), ("ffn_down", 30))
        },
    )
    bits = calibrate(weights, [IDS], lambda done, total: None)
    assert bits.residual == residual_bits_max(weights.config)
    finer = replace(bits, residual=bits.residual + 1)
    if finer.residual <= FRACTION_BITS_MAX:
        with pytest.raises(AccumulatorBoundError):
            build_llama(weights.config, finer, weights.tensors(finer))


def test_a_projection_of_zeros_gets_the_finest_bits(tmp_path: Path) -> None:
    zeros = np.zeros((12, 24), dtype=np.float32)
    weights = random_weights(tmp_path, extra_tensors={"blk.1.attn_v.weight": ("F32", zeros)})
    assert calibrate(weights, [IDS], lambda done, total: None).layers[1].v == FRACTION_BITS_MAX


@pytest.mark.parametrize("size", [1e9, 1e12])
def test_values_that_no_fraction_bits_suit_are_refused(tmp_path: Path, size: float) -> None:
    embedding = np.full((261, 24), size, dtype=np.float32)
    weights = random_weights(tmp_path, extra_tensors={"token_embd.weight": ("F32", embedding)})
    with pytest.raises(CalibrationError):
        calibrate(weights, [IDS], lambda done, total: None)
