"""Rounding weights to four bits so that the outputs, not the weights, come out right.

Every row is rounded to codes and scales of groups that lower the squared error of its sums over the
calibration inputs. From rounding to nearest on, each code in turn takes the value that is best for
all the others as they are, and after each group so does its scale (cyclic coordinate descent on the
objective of arXiv:2210.17323, as in arXiv:2309.01885): the errors of a row undo one another.

Errors and correlations are integers, and every sum of products stays below 2**53, so that the
choice is the same on every machine whatever order BLAS sums in.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from sslm.convert.flips import Float64Array
from sslm.convert.quantize import Int8Array
from sslm.program.tensors import GROUP_COLUMNS, INT4_CODE_MAX, INT4_SCALE_MAX, padded

SWEEP_COUNT: Final = 4
"""Rounds of all columns. Later ones move few codes."""

CORRELATION_BITS: Final = 37
"""The magnitudes of one row of the correlations sum to less than two to this."""

_ERROR_UNIT: Final = 16.0
"""An error of one unit of its row is this integer; errors are then below 2**14."""

_CANDIDATES: Final = (10, 11, 12, 13, 14, 16)
"""Scales that are tried first, in sixteenths of the one that just reaches the largest weight."""

_SQUARE_WEIGHT_BITS: Final = 20
_GRADIENT_SHIFT_BITS: Final = 7
_BLOCK_ROWS: Final = 192
"""Rows of one block, so that its work arrays stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Int4Rows:
    """A rounded matrix: ``weights ~ codes * scales of their groups * units of their rows``.

    Args:
        codes: int8 [out_features, in_features] in -7 … 7.
        scales: int8 [out_features, groups] in 1 … 64.
        units: float64 [out_features]; 0 for a row of zeros.
    """

    codes: Int8Array
    scales: Int8Array
    units: Float64Array


def round_to_int4(weights: Float64Array, correlations: Float64Array) -> Int4Rows:
    """Round a matrix.

    Args:
        weights: float64 [out_features, in_features], finite.
        correlations: Of the inputs: integers, float64 [in_features, in_features], symmetric, with
            a diagonal of at least 1 and rows as ``CORRELATION_BITS`` says.
    """
    rows, columns = weights.shape
    width = padded(columns, GROUP_COLUMNS)
    # Columns that only pad have weights of zero and inputs that go with no other.
    full = np.eye(width)
    full[:columns, :columns] = correlations
    codes = np.empty((rows, width), dtype=np.int8)
    scales = np.empty((rows, width // GROUP_COLUMNS), dtype=np.int8)
    units = np.abs(weights).max(axis=1) / (INT4_CODE_MAX * INT4_SCALE_MAX)
    for start in range(0, rows, _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        divisors = np.where(units[block] > 0, units[block], 1.0)
        exact = np.zeros((width, len(divisors)))
        exact[:columns] = weights[block].T / divisors
        descent = _Descent(exact, full)
        for _ in range(SWEEP_COUNT):
            descent.sweep()
        codes[block], scales[block] = descent.codes.T, descent.scales.T
    return Int4Rows(codes[:, :columns], scales, units)


class _Descent:
    """Codes [columns, rows] and scales [groups, rows] of a block of rows, as they improve.

    Args:
        exact: What they stand for, in units of each row: at most 448.
        correlations: Of all columns, padding included.
    """

    def __init__(self, exact: Float64Array, correlations: Float64Array) -> None:
        self._correlations = correlations
        self._own = np.diagonal(correlations).copy()
        self.scales = self._first_scales(exact)
        spread = np.repeat(self.scales, GROUP_COLUMNS, axis=0)
        self.codes = _nearest(exact, spread)
        errors = np.rint((exact - self.codes * spread) * _ERROR_UNIT)
        self._gradients = correlations @ errors

    def _first_scales(self, exact: Float64Array) -> Float64Array:
        """Choose each scale by the error of its group alone, as if inputs were independent."""
        groups = exact.reshape(-1, GROUP_COLUMNS, exact.shape[1])
        shift = max(0, int(np.frexp(self._own.max())[1]) - _SQUARE_WEIGHT_BITS)
        importance = np.floor(np.ldexp(self._own, -shift)) + 1.0
        importance = importance.reshape(-1, GROUP_COLUMNS, 1)
        reaching = np.ceil(np.abs(groups).max(axis=1) / INT4_CODE_MAX)
        best = np.full(reaching.shape, np.inf)
        scales: Float64Array = np.ones_like(reaching)
        for sixteenths in _CANDIDATES:
            tried = np.clip(np.rint(reaching * (sixteenths / 16)), 1, INT4_SCALE_MAX)
            spread = tried[:, None, :]
            errors = np.rint((groups - _nearest(groups, spread) * spread) * _ERROR_UNIT)
            errors *= errors
            errors *= importance
            # Integers below 2**53, so that no order of summation matters.
            squared = errors.sum(axis=1)
            is_better = squared < best
            best[is_better] = squared[is_better]
            scales[is_better] = tried[is_better]
        return scales

    def sweep(self) -> None:
        """Improve every code once, and after each group its scale."""
        for group in range(len(self.scales)):
            columns = slice(group * GROUP_COLUMNS, (group + 1) * GROUP_COLUMNS)
            self._improve(group, columns)

    def _improve(self, group: int, columns: slice) -> None:
        near = self._correlations[columns, columns]
        own = self._own[columns] * _ERROR_UNIT
        gradients, codes = self._gradients[columns].copy(), self.codes[columns]
        scales = self.scales[group]
        before = codes * scales
        change = np.empty_like(gradients)
        for index in range(GROUP_COLUMNS):
            better = gradients[index] / (scales * own[index])
            np.rint(better, out=better)
            better += codes[index]
            np.clip(better, -INT4_CODE_MAX, INT4_CODE_MAX, out=better)
            step = (codes[index] - better) * scales
            if not step.any():
                continue
            codes[index] = better
            step *= _ERROR_UNIT
            np.multiply(near[:, index, None], step, out=change)
            gradients += change
        self.scales[group] = _better_scales(codes, scales, gradients, near)
        moves = (before - codes * self.scales[group]) * _ERROR_UNIT
        self._gradients += self._correlations[:, columns] @ moves


def _nearest(exact: Float64Array, scales: Float64Array) -> Float64Array:
    """Return the codes next to *exact* at scales that broadcast with it."""
    codes: Float64Array = np.rint(exact / scales)
    np.clip(codes, -INT4_CODE_MAX, INT4_CODE_MAX, out=codes)
    return codes


def _better_scales(
    codes: Float64Array, scales: Float64Array, gradients: Float64Array, near: Float64Array
) -> Float64Array:
    """Return the scale of a group, [rows], that is best for its codes, [32, rows], as they are."""
    curvature = ((near @ codes) * codes).sum(axis=0)
    # Cut so short that their sums are exact too.
    short = np.rint(np.ldexp(gradients, -_GRADIENT_SHIFT_BITS))
    slope = (short * codes).sum(axis=0) * (2.0**_GRADIENT_SHIFT_BITS / _ERROR_UNIT)
    step = np.rint(slope / np.where(curvature > 0, curvature, 1.0))
    better: Float64Array = np.clip(scales + step, 1, INT4_SCALE_MAX)
    return better
