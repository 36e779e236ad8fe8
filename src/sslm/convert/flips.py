"""Rounding weights so that the errors of a row cancel on the inputs that really occur.

Rounding each weight to the nearest code makes the error of a row's sum as large as chance has it;
and since inputs have strong common directions, it shifts every sum of the row the same way. Going
to the other neighbour of a few codes costs little and can undo most of it. Which codes pay best
is found greedily, one at a time, by the exact change of the squared error over the calibration
inputs (the objective of arXiv:2210.17323, with a search that needs no inverse).

Errors and correlations are integers, so the choice is the same on every machine.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]

FLIP_COUNT_MAX: Final = 16
"""Moves of the codes of one row. More gain little and take longer."""

ERROR_BITS: Final = 10
"""A difference of one code is 2**10, so that an error is an integer of 10 bits."""

_BLOCK_ROWS: Final = 48
"""Rows of one block, so that its work arrays stay in the processor's cache."""


def flip_codes(codes: Float64Array, exact: Float64Array, correlations: Float64Array) -> None:
    """Move codes to their other neighbour where that lowers the squared error, in place.

    Args:
        codes: Integers in -127 … 127, float64 [out_features, in_features].
        exact: What they stand for, in units of a code; each within half a code.
        correlations: Integers, float64 [in_features, in_features], of at most
            ``53 - ERROR_BITS - log2(in_features)`` bits: then every sum here is exact.
    """
    for start in range(0, len(codes), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        _flip_block(codes[block], exact[block], correlations)


def _flip_block(codes: Float64Array, exact: Float64Array, correlations: Float64Array) -> None:
    unit = float(1 << ERROR_BITS)
    errors = np.rint((exact - codes) * unit)
    # A code at the end of the range has no neighbour beyond it.
    errors[(np.abs(codes) >= 127) & (np.sign(codes) == np.sign(errors))] = 0.0
    gradients = errors @ correlations
    own = np.diagonal(correlations) * (unit / 2)
    signs = np.sign(errors)
    gains = np.empty_like(errors)
    rows = np.arange(len(codes))
    for _ in range(FLIP_COUNT_MAX):
        # Moving code k by its error's sign changes the squared error by -2 * unit * gain.
        np.multiply(signs, gradients, out=gains)
        gains -= own
        columns = gains.argmax(axis=1)
        moves = np.where(gains[rows, columns] > 0, signs[rows, columns], 0.0)
        if not moves.any():
            break
        codes[rows, columns] += moves
        errors[rows, columns] -= moves * unit
        signs[rows, columns] = np.sign(errors[rows, columns])
        gradients -= (moves * unit)[:, None] * correlations[columns]
