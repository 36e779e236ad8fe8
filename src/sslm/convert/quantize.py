"""Float weights to integer tensors: int8 panels, row scales, gains.

Every float operation here is one that IEEE 754 rounds exactly (division, multiplication, scaling
by a power of two, rounding to integer), so the written bytes are the same on every machine.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sslm.convert.flips import Float64Array, flip_codes
from sslm.numerics.rounding import rshift_round
from sslm.program.tensors import (
    GROUP_COLUMNS,
    INT4_OFFSET,
    PANEL_COLUMNS,
    PANEL_ROWS,
    int4_panel_size_bytes,
    int4_scales_size_bytes,
    padded,
)

Float32Array = npt.NDArray[np.float32]
Int32Array = npt.NDArray[np.int32]
Int8Array = npt.NDArray[np.int8]

WEIGHT_CODE_MAX: Final = 127
MANTISSA_BITS: Final = 24
GAIN_BITS: Final = 23
_EXPONENT_OF_ZEROS: Final = 48


@dataclass(frozen=True, slots=True)
class Mantissas:
    """Integers at one binary exponent: ``value = mantissa * 2**-exponent``."""

    values: Int32Array
    exponent: int

    def at_most(self, exponent: int) -> "Mantissas":
        """Return the same values at this exponent or below, rounded if bits must go."""
        shift = self.exponent - exponent
        if shift <= 0:
            return self
        values = rshift_round(self.values.astype(np.int64), shift)
        return Mantissas(values.astype(np.int32), exponent)


def quantize_rows(
    weights: Float32Array | Float64Array, correlations: Float64Array | None = None
) -> tuple[Int8Array, Float64Array]:
    """Round each row to codes -127 … 127 of its own scale.

    Args:
        weights: float32 or float64 [out_features, in_features], finite.
        correlations: Of the inputs, to let the errors of a row cancel; None rounds to nearest.

    Returns:
        Codes int8 of the same shape and scales float64 [out_features], so that
        ``weights ~ codes * scales``; a row of zeros has scale 0.
    """
    rows = weights.astype(np.float64)
    scales = np.abs(rows).max(axis=1) / WEIGHT_CODE_MAX
    divisors = np.where(scales > 0, scales, 1.0)
    rows /= divisors[:, None]
    codes = np.rint(rows)
    if correlations is not None:
        flip_codes(codes, rows, correlations)
    return codes.astype(np.int8), scales


def to_mantissas(values: Float64Array, bits: int) -> Mantissas:
    """Round to integers below ``2**bits`` in magnitude, at the largest exponent that allows it.

    Args:
        values: float64 [n], finite.
        bits: From 1 to 31.
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0:
        return Mantissas(np.zeros(len(values), dtype=np.int32), _EXPONENT_OF_ZEROS)
    exponent = bits - math.frexp(largest)[1]
    if round(math.ldexp(largest, exponent)) >= 1 << bits:
        exponent -= 1
    return Mantissas(np.rint(np.ldexp(values, exponent)).astype(np.int32), exponent)


def pack_panels(codes: Int8Array) -> bytes:
    """Lay int8 [rows, columns] out in panels of 16 rows by 4 columns, padded with zeros."""
    rows, columns = codes.shape
    full = np.zeros((padded(rows, PANEL_ROWS), padded(columns, PANEL_COLUMNS)), dtype=np.int8)
    full[:rows, :columns] = codes
    panels = full.reshape(-1, PANEL_ROWS, full.shape[1] // PANEL_COLUMNS, PANEL_COLUMNS)
    return panels.transpose(0, 2, 1, 3).tobytes()


def pack_int4_panels(codes: Int8Array, scales: Int8Array) -> bytes:
    """Lay codes and scales out as docs/format.md has it, 7.1: scales of 16 rows, then their codes.

    Args:
        codes: int8 [rows, columns] in -7 … 7.
        scales: int8 [rows, ceil(columns / 32)] in 1 … 64.
    """
    rows, columns = codes.shape
    count, groups = padded(rows, PANEL_ROWS) // PANEL_ROWS, scales.shape[1]
    all_codes = np.zeros((count * PANEL_ROWS, groups * GROUP_COLUMNS), dtype=np.int8)
    all_codes[:rows, :columns] = codes
    all_scales = np.ones((count * PANEL_ROWS, groups), dtype=np.uint8)
    all_scales[:rows] = scales
    nibbles = (all_codes + INT4_OFFSET).astype(np.uint8).reshape(count, PANEL_ROWS, -1, 2, 4)
    words = nibbles[:, :, :, 0] | nibbles[:, :, :, 1] << 4
    panels = np.zeros((count, int4_panel_size_bytes(columns)), dtype=np.uint8)
    by_group = all_scales.reshape(count, PANEL_ROWS, groups).transpose(0, 2, 1)
    panels[:, : groups * PANEL_ROWS] = by_group.reshape(count, -1)
    by_word = words.transpose(0, 2, 1, 3)
    panels[:, int4_scales_size_bytes(columns) :] = by_word.reshape(count, -1)
    return panels.tobytes()
