"""Weights, their logarithm and log-probabilities against 200-bit arithmetic."""

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sslm.backends.reference.choosing import logprobs
from sslm.numerics.weights import WEIGHT_BITS, log_weight, weights
from sslm.program.choice import MICRO, SCORE_BITS, Choice, Decoder

RELATIVE_ERROR = mpmath.mpf(2) ** mpmath.mpf("-24.7")
"""Of a weight before it is rounded to an integer, as docs/arithmetic.md states it."""

LOGPROB_ERROR = mpmath.mpf("2.1")
"""Of a log-probability, in units of its last bit."""

GAPS = st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 2**26), st.integers(0, 2**21))
TEMPERATURES = st.one_of(st.integers(1, 2_000 * MICRO), st.integers(MICRO // 10, 2 * MICRO))


@pytest.fixture(autouse=True)
def _precision() -> object:
    with mpmath.workprec(200):
        yield


def weights_of(gaps: list[int], temperature: int) -> list[int]:
    scale = Choice(decoder=Decoder.SAMPLING, temperature=temperature).exponent_scale()
    found: list[int] = weights(np.array(gaps), scale.mantissa, scale.shift).tolist()
    return found


@given(gap=GAPS, temperature=TEMPERATURES)
@example(gap=0, temperature=1)
@example(gap=2**32 - 1, temperature=2_000 * MICRO)
def test_the_error_of_a_weight(gap: int, temperature: int) -> None:
    (found,) = weights_of([gap], temperature)
    exact = mpmath.exp(-mpmath.mpf(gap) * MICRO / 2**SCORE_BITS / temperature) * 2**WEIGHT_BITS
    assert abs(found - exact) <= exact * RELATIVE_ERROR + mpmath.mpf("0.5")


@given(gap=GAPS, temperature=TEMPERATURES)
def test_a_weight_never_grows_with_its_gap(gap: int, temperature: int) -> None:
    gaps = sorted({*range(gap, min(gap + 20, 2**32)), min(gap + 2**12, 2**32 - 1)})
    found = weights_of(gaps, temperature)
    assert found == sorted(found, reverse=True)


@given(weight=st.integers(40, 59).flatmap(lambda bits: st.integers(2**bits, 2 ** (bits + 1))))
@example(weight=2**40)
@example(weight=2**60)
def test_the_error_of_a_logarithm(weight: int) -> None:
    exact = mpmath.log(mpmath.mpf(weight) / 2**WEIGHT_BITS) * 2**SCORE_BITS
    assert abs(log_weight(weight, SCORE_BITS) - exact) < mpmath.mpf("0.51")


@given(
    spread=st.integers(1, 2**46),
    seed=st.integers(0, 1000),
    count=st.sampled_from([1, 2, 3, 50, 400]),
)
def test_the_error_of_a_log_probability(spread: int, seed: int, count: int) -> None:
    logits = np.random.default_rng(seed).integers(-spread, spread + 1, count)
    told = logprobs(logits, -40, range(count), 0)
    real = [mpmath.mpf(int(logit)) / 2**40 for logit in logits]
    total = mpmath.log(mpmath.fsum(mpmath.exp(x) for x in real))
    for value, x in zip(told.values, real, strict=True):
        assert value is not None
        assert value <= 0
        assert abs(value - (x - total) * 2**SCORE_BITS) < LOGPROB_ERROR
