"""What the arithmetic relies on in the numbers of a tensor, whatever program uses it.

All of it is checked on copies of a few kilobytes at a time, which stay in the processor's cache:
the bytes are searched at the speed of memory, without NumPy.
"""

from array import array
from typing import Final

from sslm.artifact.int4_checks import check_int4_panels
from sslm.errors.artifact import ContainerError
from sslm.errors.status import Status
from sslm.program.tensors import PANEL_COLUMNS, PANEL_ROWS, Encoding, Tensor, padded

_CHUNK_SIZE_BYTES: Final = 1 << 16
_PANEL_SIZE_BYTES: Final = PANEL_ROWS * PANEL_COLUMNS
_REFUSED_CODE: Final = b"\x80"

_RANGES: Final = {
    "mantissas": (0, (1 << 24) - 1),
    "bias": (1 - (1 << 31), (1 << 31) - 1),
    "norm": (-(1 << 23), 1 << 23),
    "cos": (-(1 << 30), 1 << 30),
    "sin": (-(1 << 30), 1 << 30),
}
"""Bounds of int32 tensors by the end of their name; see docs/format.md, 7.2."""


def check_tensor(tensor: Tensor) -> None:
    """Check every number of a tensor.

    Raises:
        ContainerError: If a code is -128, or an int4 code -8.
        ContainerError: If the scale of a group of int4 codes is out of its bounds.
        ContainerError: If a matrix of int4 codes has too many columns.
        ContainerError: If a row or column that pads the panels is not zero.
        ContainerError: If the name of an int32 tensor does not say what it holds.
        ContainerError: If a number of an int32 tensor is out of the bounds of its role.
    """
    if tensor.encoding is Encoding.PANEL_INT8:
        _check_codes(tensor)
        _check_padding_columns(tensor)
        _check_padding_rows(tensor)
    elif tensor.encoding is Encoding.PANEL_INT4:
        check_int4_panels(tensor)
    else:
        _check_int32(tensor, *_range_of(tensor.name))


def _check_codes(tensor: Tensor) -> None:
    for start in range(0, tensor.data.nbytes, _CHUNK_SIZE_BYTES):
        found = bytes(tensor.data[start : start + _CHUNK_SIZE_BYTES]).find(_REFUSED_CODE)
        if found >= 0:
            raise ContainerError(
                Status.SSLM_WEIGHT_CODE, name=tensor.name, offset_bytes=start + found
            )


def _check_padding_columns(tensor: Tensor) -> None:
    """Check the last panel of each block of rows, the only one that can have padding columns."""
    columns = tensor.shape[1]
    used = columns % PANEL_COLUMNS
    if not used:
        return
    padding = bytes(used) + b"\xff" * (PANEL_COLUMNS - used)
    mask = int.from_bytes(padding * PANEL_ROWS, "little")
    block_size = padded(columns, PANEL_COLUMNS) * PANEL_ROWS
    for end in range(block_size, tensor.data.nbytes + 1, block_size):
        start = end - _PANEL_SIZE_BYTES
        if int.from_bytes(tensor.data[start:end], "little") & mask:
            raise ContainerError(
                Status.SSLM_PANEL_PADDING, name=tensor.name, what="columns", offset_bytes=start
            )


def _check_padding_rows(tensor: Tensor) -> None:
    """Check every panel of the last block of rows, the only one that can have padding rows."""
    rows, columns = tensor.shape
    used = rows % PANEL_ROWS
    if not used:
        return
    block_size = padded(columns, PANEL_COLUMNS) * PANEL_ROWS
    first = tensor.data.nbytes - block_size + used * PANEL_COLUMNS
    zeros = bytes((PANEL_ROWS - used) * PANEL_COLUMNS)
    for start in range(first, tensor.data.nbytes, _PANEL_SIZE_BYTES):
        if tensor.data[start : start + len(zeros)] != zeros:
            raise ContainerError(
                Status.SSLM_PANEL_PADDING, name=tensor.name, what="rows", offset_bytes=start
            )


def _range_of(name: str) -> tuple[int, int]:
    last = name.rpartition(".")[2]
    for ending, bounds in _RANGES.items():
        if last.endswith(ending):
            return bounds
    raise ContainerError(Status.SSLM_TENSOR_ROLE, name=name, known=", ".join(_RANGES))


def _check_int32(tensor: Tensor, lowest: int, highest: int) -> None:
    """Find chunks whose numbers may be out of bounds by their high bytes; look closer at those."""
    # All 2**24 numbers with one of these high bytes are within the bounds.
    safe = bytes(
        high & 0xFF
        for high in range(-128, 128)
        if lowest <= high << 24 and (high << 24) + 0xFF_FFFF <= highest
    )
    for start in range(0, tensor.data.nbytes, _CHUNK_SIZE_BYTES):
        chunk = bytes(tensor.data[start : start + _CHUNK_SIZE_BYTES])
        if not chunk[3::4].translate(None, safe):
            continue
        numbers = array("i", chunk)
        if min(numbers) < lowest or max(numbers) > highest:
            wrong = next(at for at, one in enumerate(numbers) if not lowest <= one <= highest)
            raise ContainerError(
                Status.SSLM_TENSOR_VALUE,
                name=tensor.name,
                index=start // 4 + wrong,
                found=numbers[wrong],
                lowest=lowest,
                highest=highest,
            )
