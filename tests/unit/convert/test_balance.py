"""Balancing changes what is rounded, not what is computed."""

from pathlib import Path

import numpy as np
import pytest

from sslm.convert.balance import Balance, balance_for
from sslm.convert.calibrate import calibrate
from sslm.convert.float_reference import FloatReference
from sslm.convert.inputs import watch_inputs
from sslm.convert.integer_weights import read_integer_weights
from sslm.convert.source import GgufModelSource
from sslm.model.config import ModelConfig
from tests.gguf_files import random_llama_gguf

IDS = [1, 4, 250, 9, 30, 77, 12, 5]


class Balanced:
    """A source whose weights are balanced."""

    def __init__(self, source: GgufModelSource, balance: Balance) -> None:
        self._source = source
        self._balance = balance

    @property
    def config(self) -> ModelConfig:
        return self._source.config

    def tensor(self, name: str) -> np.ndarray:
        weight = self._source.tensor(name).astype(np.float64)
        return self._balance.apply(name, weight).astype(np.float32)


@pytest.fixture
def source(tmp_path: Path) -> GgufModelSource:
    path = tmp_path / "m.gguf"
    random_llama_gguf(
        path,
        seed=3,
        hidden_size=72,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=24,
        intermediate_size=100,
        vocab_size=270,
        tied=False,
        biases=True,
    )
    return GgufModelSource.open(path)


def measured(source: GgufModelSource) -> Balance:
    weights = read_integer_weights(source, lambda done, total: None)
    bits = calibrate(weights, [IDS], lambda done, total: None)
    return balance_for(source.config, watch_inputs(weights, bits, [IDS]))


def test_the_balanced_model_computes_the_same(source: GgufModelSource) -> None:
    plain = FloatReference(source).logits(IDS)
    balanced = FloatReference(Balanced(source, measured(source))).logits(IDS)
    np.testing.assert_allclose(balanced, plain, rtol=0, atol=1e-4 * np.abs(plain).max())


def test_factors_are_the_fourth_root_of_magnitudes(source: GgufModelSource) -> None:
    factors = measured(source).factors
    assert set(factors) == {
        (layer, name) for layer in (0, 1) for name in ("attention", "mixed", "mlp", "gated")
    }
    assert factors[0, "attention"].shape == (72,)
    assert factors[0, "mixed"].shape == (48,)
    assert factors[1, "gated"].shape == (100,)
    for values in factors.values():
        # The largest input has factor 1, and no input more than a factor of 10 less.
        assert values.max() == 1.0
        assert values.min() >= 1e-8 ** (1 / 8) - 1e-12
    assert np.ptp(factors[0, "gated"]) > 0.1
