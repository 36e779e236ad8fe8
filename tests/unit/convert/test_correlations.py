"""Correlations are exact integers of what the matrices are multiplied with."""

from pathlib import Path

import numpy as np
import pytest

from sslm.convert.balance import balance_for, no_balance
from sslm.convert.calibrate import calibrate
from sslm.convert.correlations import Correlations, Int4Correlations
from sslm.convert.flips import ERROR_BITS
from sslm.convert.inputs import Inputs, site_of, watch_inputs
from sslm.convert.int4_rounding import CORRELATION_BITS
from sslm.convert.integer_weights import read_integer_weights
from sslm.convert.source import GgufModelSource
from sslm.model.config import ModelConfig
from tests.data import shared_data

TEXTS = [[1, 403, 407, 261, 378, 432, 383], [1, 20, 300, 41, 500]]


@pytest.fixture(scope="module")
def seen() -> tuple[ModelConfig, Inputs]:
    path: Path = shared_data("stories260K/stories260K-F32.gguf")
    with GgufModelSource.open(path) as source:
        weights = read_integer_weights(source, lambda done, total: None)
    bits = calibrate(weights, TEXTS, lambda done, total: None)
    return source.config, watch_inputs(weights, bits, TEXTS)


def test_every_input_is_seen_once_per_token(seen: tuple[ModelConfig, Inputs]) -> None:
    config, inputs = seen
    names = {"attention", "mixed", "mlp", "gated"}
    layers = range(config.num_hidden_layers)
    assert set(inputs.sites()) == {(-1, "head"), *((i, name) for i in layers for name in names)}
    for site in inputs.sites():
        assert len(inputs.rows(site)) == 12, site


def test_correlations_are_integers_that_leave_room(seen: tuple[ModelConfig, Inputs]) -> None:
    config, inputs = seen
    balance = balance_for(config, inputs)
    correlations = Correlations(inputs, balance, "embed")
    for name in ("layers.0.q_proj", "layers.2.o_proj", "layers.1.down_proj", "embed"):
        found = correlations.of(name)
        assert found is not None
        np.testing.assert_array_equal(found, np.rint(found))
        np.testing.assert_array_equal(found, found.T)
        # Sums over a row, times errors of ERROR_BITS bits, are exact in float64.
        assert np.abs(found).sum(axis=1).max() * 2**ERROR_BITS < 2**53
        assert np.linalg.eigvalsh(found).min() > 0
        rows = inputs.rows(site_of(config, name, "embed") or (0, "")) / balance.of_input(
            site_of(config, name, "embed") or (0, "")
        )
        plain = rows.T @ rows
        damped = found - np.eye(len(found)) * np.floor(np.trace(found) / 11 / len(found))
        cosine = (damped * plain).sum() / np.linalg.norm(damped) / np.linalg.norm(plain)
        assert cosine > 0.999


def test_correlations_for_int4_leave_more_room(seen: tuple[ModelConfig, Inputs]) -> None:
    config, inputs = seen
    correlations = Int4Correlations(inputs, no_balance(config), "embed")
    for name in ("layers.0.q_proj", "layers.2.o_proj", "layers.1.down_proj", "embed"):
        found = correlations.of(name)
        assert found is not None
        np.testing.assert_array_equal(found, np.rint(found))
        np.testing.assert_array_equal(found, found.T)
        assert np.abs(found).sum(axis=1).max() <= 2**CORRELATION_BITS
        assert found.diagonal().min() >= 1
        rows = inputs.rows(site_of(config, name, "embed") or (0, ""))
        plain = rows.T @ rows
        damped = found - np.eye(len(found)) * np.floor(np.trace(found) * 2 / 7 / len(found))
        cosine = (damped * plain).sum() / np.linalg.norm(damped) / np.linalg.norm(plain)
        assert cosine > 0.999


def test_a_lookup_has_no_input(seen: tuple[ModelConfig, Inputs]) -> None:
    config, inputs = seen
    correlations = Correlations(inputs, balance_for(config, inputs), "lm_head")
    assert correlations.of("embed") is None
