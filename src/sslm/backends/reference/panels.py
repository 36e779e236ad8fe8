"""Reading tensors of the artifact as NumPy arrays."""

import numpy as np
import numpy.typing as npt

from sslm.program.tensors import PANEL_COLUMNS, PANEL_ROWS, Tensor, padded


def int32_values(tensor: Tensor) -> npt.NDArray[np.int32]:
    """Return an INT32 tensor in its shape, without a copy."""
    return np.frombuffer(tensor.data, dtype="<i4").reshape(tensor.shape)


def panel_rows(tensor: Tensor, first_row: int, last_row: int) -> npt.NDArray[np.float64]:
    """Return rows of a PANEL_INT8 tensor as float64 [last_row - first_row, in_features].

    float64 holds the codes, and their sums below 2**53, exactly, and its products are fast.
    """
    columns = tensor.shape[1]
    panel_size = PANEL_ROWS * padded(columns, PANEL_COLUMNS)
    first_panel, last_panel = first_row // PANEL_ROWS, -(-last_row // PANEL_ROWS)
    codes = np.frombuffer(tensor.data, dtype=np.int8)[
        first_panel * panel_size : last_panel * panel_size
    ]
    panels = codes.reshape(last_panel - first_panel, -1, PANEL_ROWS, PANEL_COLUMNS)
    rows = panels.transpose(0, 2, 1, 3).reshape((last_panel - first_panel) * PANEL_ROWS, -1)
    skipped = first_row - first_panel * PANEL_ROWS
    return rows[skipped : skipped + last_row - first_row, :columns].astype(np.float64)


def panel_row(tensor: Tensor, row: int) -> npt.NDArray[np.int64]:
    """Return one row of a PANEL_INT8 tensor as int64 [in_features]."""
    codes: npt.NDArray[np.int64] = panel_rows(tensor, row, row + 1)[0].astype(np.int64)
    return codes
