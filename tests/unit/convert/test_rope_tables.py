"""Rotary tables against 200-bit real arithmetic."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sslm.convert.rope_tables import rope_tables
from sslm.model.config import ModelConfig, RopePairing, RopeScaling, RopeScalingKind

POSITIONS = 8192
CONFIG = ModelConfig(
    architecture="llama",
    vocab_size=5,
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=1,
    num_attention_heads=1,
    num_key_value_heads=1,
    head_dim=10,
    rotary_dim=8,
    rope_theta=Fraction(10000),
    rope_scaling=None,
    rope_pairing=RopePairing.INTERLEAVED,
    rms_norm_eps=Fraction(1, 1 << 17),
    max_position_embeddings=POSITIONS,
    tie_word_embeddings=True,
)
LINEAR = RopeScaling(kind=RopeScalingKind.LINEAR, factor=Fraction(5, 2))
LLAMA3 = RopeScaling(kind=RopeScalingKind.LLAMA3)
FACTORS = [1.0, 1.25, float(np.float32(7.3)), 32.0]
SAMPLE = [*range(66), 127, 1000, 4095, 4096, 5555, 8190, 8191]


def nearest(config: ModelConfig, position: int, pair: int, divisor: Fraction) -> tuple[int, int]:
    with mpmath.workprec(200):
        base = mpmath.mpf(config.rope_theta.numerator) / config.rope_theta.denominator
        theta = base ** (-mpmath.mpf(2 * pair) / config.rotary_dim)
        angle = position * theta * divisor.denominator / divisor.numerator
        unit = mpmath.mpf(1 << 30)
        return int(mpmath.nint(mpmath.cos(angle) * unit)), int(
            mpmath.nint(mpmath.sin(angle) * unit)
        )


@pytest.mark.parametrize(
    ("theta", "scaling", "factors"),
    [
        (10000, None, None),
        (100000, None, None),
        (10000, LINEAR, None),
        (500000, LLAMA3, FACTORS),
    ],
    ids=["base 10000", "base 100000", "linear", "llama3"],
)
def test_entries_are_correctly_rounded(
    theta: int, scaling: RopeScaling | None, factors: list[float] | None
) -> None:
    config = replace(CONFIG, rope_theta=Fraction(theta), rope_scaling=scaling)
    cos, sin = rope_tables(config, factors)
    assert cos.shape == sin.shape == (POSITIONS, 4)
    assert cos.dtype == sin.dtype == np.int32
    for pair in range(4):
        divisor = Fraction(1)
        if scaling is not None:
            divisor = Fraction(factors[pair]) if factors else Fraction(5, 2)
        for position in SAMPLE:
            found = int(cos[position, pair]), int(sin[position, pair])
            assert found == nearest(config, position, pair, divisor)


def test_the_first_position_is_not_turned() -> None:
    cos, sin = rope_tables(replace(CONFIG, max_position_embeddings=1), None)
    assert cos.tolist() == [[1 << 30] * 4]
    assert sin.tolist() == [[0] * 4]


def test_entries_stay_within_one() -> None:
    cos, sin = rope_tables(replace(CONFIG, rope_theta=Fraction(1)), None)
    assert max(np.abs(cos).max(), np.abs(sin).max()) <= 1 << 30
    # A base of 1 turns every pair alike.
    assert (cos == cos[:, :1]).all()


def test_progress_counts_pairs() -> None:
    seen: list[tuple[int, int]] = []
    small = replace(CONFIG, max_position_embeddings=3)
    rope_tables(small, None, lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
