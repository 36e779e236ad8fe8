"""Codes move to their other neighbour where, and only where, that lowers the error."""

import itertools

import numpy as np
import pytest

from sslm.convert.flips import ERROR_BITS, FLIP_COUNT_MAX, flip_codes
from sslm.convert.quantize import quantize_rows


def correlations_of(inputs: np.ndarray) -> np.ndarray:
    found: np.ndarray = (inputs.T @ inputs).astype(np.float64)
    return found


def squared_error(codes: np.ndarray, exact: np.ndarray, correlations: np.ndarray) -> np.ndarray:
    """The objective, in units of 2**-20, with errors rounded as the module rounds them."""
    errors = np.rint((exact - codes) * (1 << ERROR_BITS))
    found: np.ndarray = np.einsum("nk,kl,nl->n", errors, correlations, errors)
    return found


def plain_flips(code: list[int], exact: list[float], h: list[list[int]]) -> list[int]:
    """The greedy search over one row, in Python integers and as slowly as it is said."""
    unit = 1 << ERROR_BITS
    code = list(code)
    for _ in range(FLIP_COUNT_MAX):
        errors = [round((e - c) * unit) for e, c in zip(exact, code, strict=True)]
        best, best_change = None, 0
        for k, error in enumerate(errors):
            step = (error > 0) - (error < 0)
            slope = sum(a * b for a, b in zip(errors, h[k], strict=True))
            change = h[k][k] * unit * unit - 2 * unit * step * slope
            if step and change < best_change:
                best, best_change = (k, step), change
        if best is None:
            break
        code[best[0]] += best[1]
    return code


@pytest.mark.parametrize("seed", range(8))
def test_the_search_is_the_one_that_is_described(seed: int) -> None:
    random = np.random.default_rng(seed)
    exact = np.round(random.uniform(-120, 120, (60, 9)) * 1024) / 1024
    inputs = random.integers(-50, 50, (12, 9)) + random.integers(-40, 40, 9)
    h = correlations_of(inputs)
    codes = np.rint(exact)
    flip_codes(codes, exact, h)
    for row, found in zip(exact.tolist(), codes.tolist(), strict=True):
        assert found == plain_flips([round(x) for x in row], row, h.astype(int).tolist())


def test_the_error_never_grows() -> None:
    random = np.random.default_rng(1)
    exact = random.uniform(-120, 120, (100, 40))
    h = correlations_of(random.integers(-200, 300, (70, 40)))
    codes = np.rint(exact)
    before = squared_error(codes, exact, h)
    flip_codes(codes, exact, h)
    after = squared_error(codes, exact, h)
    assert (after <= before).all()
    assert after.sum() < 0.7 * before.sum()
    assert np.abs(codes - exact).max() <= 1


def test_uncorrelated_inputs_round_to_nearest() -> None:
    random = np.random.default_rng(2)
    exact = random.uniform(-120, 120, (10, 12))
    codes = np.rint(exact)
    flip_codes(codes, exact, np.diag(random.integers(1, 100, 12).astype(np.float64)))
    np.testing.assert_array_equal(codes, np.rint(exact))


def test_codes_stay_in_range() -> None:
    """Rows at the end of the range, and inputs that would like them to go on."""
    rows = [list(row) for row in itertools.product((127.0, -127.0, 126.75, 0.25), repeat=3)]
    weights = np.array(rows)
    codes, scales = quantize_rows(weights, np.full((3, 3), 1000.0) + np.eye(3))
    assert codes.min() == -127
    assert codes.max() == 127
    assert scales.max() == 1.0
