"""Reading tensors of the artifact as NumPy arrays."""

import numpy as np
import numpy.typing as npt

from sslm.program.tensors import (
    GROUP_COLUMNS,
    INT4_OFFSET,
    PANEL_COLUMNS,
    PANEL_ROWS,
    WORD_COLUMNS,
    Encoding,
    Tensor,
    int4_panel_size_bytes,
    int4_scales_size_bytes,
    padded,
)


def int32_values(tensor: Tensor) -> npt.NDArray[np.int32]:
    """Return an INT32 tensor in its shape, without a copy."""
    return np.frombuffer(tensor.data, dtype="<i4").reshape(tensor.shape)


def panel_rows(tensor: Tensor, first_row: int, last_row: int) -> npt.NDArray[np.float64]:
    """Return rows of a matrix as float64 [last_row - first_row, in_features].

    What is returned of PANEL_INT4 are codes times the scales of their groups, up to 448.
    float64 holds the numbers, and their sums below 2**53, exactly, and its products are fast.
    """
    rows, columns = tensor.shape
    first_panel, last_panel = first_row // PANEL_ROWS, -(-last_row // PANEL_ROWS)
    panel_size_bytes = tensor.data.nbytes // (padded(rows, PANEL_ROWS) // PANEL_ROWS)
    panels = np.frombuffer(tensor.data, dtype=np.uint8).reshape(-1, panel_size_bytes)
    panels = panels[first_panel:last_panel]
    if tensor.encoding is Encoding.PANEL_INT4:
        codes, scales = int4_codes_and_scales(panels, columns)
        weights = (codes * np.repeat(scales, GROUP_COLUMNS, axis=1)).astype(np.float64)
    else:
        weights = _int8_codes(panels).astype(np.float64)
    skipped = first_row - first_panel * PANEL_ROWS
    return weights[skipped : skipped + last_row - first_row, :columns]


def panel_row(tensor: Tensor, row: int) -> npt.NDArray[np.int64]:
    """Return one row of a matrix, as :func:`panel_rows` does, as int64 [in_features]."""
    weights: npt.NDArray[np.int64] = panel_rows(tensor, row, row + 1)[0].astype(np.int64)
    return weights


def int4_codes_and_scales(
    panels: npt.NDArray[np.uint8], columns: int
) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]]:
    """Take panels of PANEL_INT4 apart.

    Args:
        panels: uint8 [panels, bytes of a panel].
        columns: Of the matrix, without padding.

    Returns:
        Codes [panels * 16, padded columns] and scales [panels * 16, groups].
    """
    count = len(panels)
    groups = -(-columns // GROUP_COLUMNS)
    words = groups * GROUP_COLUMNS // WORD_COLUMNS
    assert panels.shape[1] == int4_panel_size_bytes(columns)
    scales = panels[:, : groups * PANEL_ROWS].reshape(count, groups, PANEL_ROWS)
    packed = panels[:, int4_scales_size_bytes(columns) :]
    packed = packed.reshape(count, words, PANEL_ROWS, WORD_COLUMNS // 2)
    # The low nibbles of a word are its first four columns, the high nibbles the other four.
    nibbles = np.concatenate([packed & 15, packed >> 4], axis=3)
    codes = nibbles.transpose(0, 2, 1, 3).reshape(count * PANEL_ROWS, -1)
    return (
        codes.astype(np.int16) - INT4_OFFSET,
        scales.transpose(0, 2, 1).reshape(count * PANEL_ROWS, groups).astype(np.int16),
    )


def _int8_codes(panels: npt.NDArray[np.uint8]) -> npt.NDArray[np.int8]:
    """Return the codes of panels of PANEL_INT8 as int8 [panels * 16, padded columns]."""
    count = len(panels)
    codes = panels.view(np.int8).reshape(count, -1, PANEL_ROWS, PANEL_COLUMNS)
    return codes.transpose(0, 2, 1, 3).reshape(count * PANEL_ROWS, -1)
