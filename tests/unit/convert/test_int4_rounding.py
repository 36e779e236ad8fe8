"""Four-bit rounding follows its rule exactly, and lowers the error of the outputs."""

import numpy as np
import pytest

from sslm.convert import int4_rounding
from sslm.convert.int4_rounding import CORRELATION_BITS, SWEEP_COUNT, Int4Rows, round_to_int4

UNIT = 16
Row = list[int]


def rounded(number: float) -> int:
    """Halves go to the even integer, as IEEE 754 has it."""
    return round(number)


def clipped(number: int, lowest: int, highest: int) -> int:
    return min(max(number, lowest), highest)


def plain_row(exact: list[float], h: list[Row]) -> tuple[Row, Row]:
    """One row in Python numbers, as slowly as it is said; columns are whole groups."""
    groups = range(len(exact) // 32)
    largest = max(h[k][k] for k in range(len(exact)))
    shift = max(0, largest.bit_length() - 20)
    scales = [plain_scale(exact[32 * g : 32 * g + 32], h, 32 * g, shift) for g in groups]
    codes = [clipped(rounded(x / scales[k // 32]), -7, 7) for k, x in enumerate(exact)]
    errors = [rounded((x - codes[k] * scales[k // 32]) * UNIT) for k, x in enumerate(exact)]
    gradients = [sum(e * row[k] for e, row in zip(errors, h, strict=True)) for k in range(len(h))]
    for _ in range(SWEEP_COUNT):
        for g in groups:
            columns = range(32 * g, 32 * g + 32)
            before = [codes[k] * scales[g] for k in columns]
            near = {k: gradients[k] for k in columns}
            for k in columns:
                better = clipped(rounded(near[k] / (scales[g] * h[k][k] * UNIT)) + codes[k], -7, 7)
                step = (codes[k] - better) * scales[g] * UNIT
                codes[k] = better
                for other in columns:
                    near[other] += h[other][k] * step
            curvature = sum(h[a][b] * codes[a] * codes[b] for a in columns for b in columns)
            slope = sum(rounded(near[k] / 128) * codes[k] for k in columns) * 128 / UNIT
            scales[g] = clipped(scales[g] + rounded(slope / (curvature or 1)), 1, 64)
            for k, old in zip(columns, before, strict=True):
                move = (old - codes[k] * scales[g]) * UNIT
                gradients = [one + h[j][k] * move for j, one in enumerate(gradients)]
    return codes, scales


def plain_scale(exact: list[float], h: list[Row], first: int, shift: int) -> int:
    reaching = -(-max(map(abs, exact)) // 7)
    best = (float("inf"), 1)
    for sixteenths in (10, 11, 12, 13, 14, 16):
        scale = clipped(rounded(reaching * sixteenths / 16), 1, 64)
        squared = 0
        for k, x in enumerate(exact):
            error = rounded((x - clipped(rounded(x / scale), -7, 7) * scale) * UNIT)
            squared += error * error * ((h[first + k][first + k] >> shift) + 1)
        best = min(best, (squared, scale), key=lambda one: one[0])
    return best[1]


def correlations_of(random: np.random.Generator, columns: int, tokens: int = 200) -> np.ndarray:
    inputs = random.integers(-300, 300, (tokens, columns))
    inputs += random.integers(-250, 250, columns) + random.integers(-200, 200, (tokens, 1))
    return (inputs.T @ inputs + 1000 * np.eye(columns)).astype(np.float64)


@pytest.mark.parametrize("seed", range(4))
def test_the_search_is_the_one_that_is_described(seed: int) -> None:
    random = np.random.default_rng(seed)
    weights = random.normal(size=(5, 64)) * random.uniform(0.2, 2, (5, 64))
    h = correlations_of(random, 64)
    found = round_to_int4(weights, h)
    np.testing.assert_array_equal(found.units, np.abs(weights).max(axis=1) / 448)
    for n, row in enumerate(weights / found.units[:, None]):
        expected = plain_row(row.tolist(), h.astype(int).tolist())
        assert (found.codes[n].tolist(), found.scales[n].tolist()) == expected


def restored(rows: Int4Rows) -> np.ndarray:
    spread = np.repeat(rows.scales.astype(np.float64), 32, axis=1)[:, : rows.codes.shape[1]]
    return rows.codes * spread * rows.units[:, None]


def test_the_error_of_the_outputs_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(7)
    weights = random.normal(size=(300, 100))
    h = correlations_of(random, 100, tokens=400)
    errors = []
    for sweeps in (0, 1, 2, 4):
        monkeypatch.setattr(int4_rounding, "SWEEP_COUNT", sweeps)
        difference = restored(round_to_int4(weights, h)) - weights
        errors.append(np.einsum("nk,kl,nl->", difference, h, difference))
    assert errors[1] < 0.7 * errors[0]
    assert sorted(errors, reverse=True) == errors


@pytest.mark.parametrize("columns", [1, 31, 33, 70])
def test_shapes_and_bounds(columns: int) -> None:
    random = np.random.default_rng(columns)
    weights = random.normal(size=(200, columns)) ** 3
    weights[3] = 0
    found = round_to_int4(weights, correlations_of(random, columns))
    assert found.codes.shape == weights.shape
    assert found.scales.shape == (200, -(-columns // 32))
    assert np.abs(found.codes).max() <= 7
    assert (found.scales.min(), found.scales.max() <= 64) == (1, True)
    assert not found.codes[3].any()
    assert found.units[3] == 0
    assert np.abs(restored(found) - weights).max() <= np.abs(weights).max()


def test_the_largest_numbers_stay_exact() -> None:
    """Sums at their bounds give what Python integers give."""
    random = np.random.default_rng(3)
    signs = np.where(random.random(64) < 0.5, -1.0, 1.0)
    h = np.outer(signs, signs) * 2.0 ** (CORRELATION_BITS - 7)
    h[np.diag_indices(64)] += 12345.0
    weights = random.choice([-1.0, 1.0, 0.3], (3, 64))
    found = round_to_int4(weights, h)
    for n, row in enumerate(weights / found.units[:, None]):
        expected = plain_row(row.tolist(), h.astype(int).tolist())
        assert (found.codes[n].tolist(), found.scales[n].tolist()) == expected
