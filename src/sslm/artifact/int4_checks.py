"""What the arithmetic relies on in panels of int4 codes, checked at the speed of memory."""

from collections.abc import Mapping
from typing import Final

from sslm.errors.artifact import ContainerError
from sslm.errors.showing import int_range
from sslm.errors.status import Status
from sslm.limits import INT4_COLUMNS_MAX
from sslm.program.tensors import (
    GROUP_COLUMNS,
    INT4_MANTISSA_BITS,
    INT4_SCALE_MAX,
    PANEL_ROWS,
    WORD_COLUMNS,
    Encoding,
    Tensor,
    int4_panel_size_bytes,
    int4_scales_size_bytes,
)

INT4_MANTISSA_MAX: Final = (1 << INT4_MANTISSA_BITS) - 1

_WORD_SIZE_BYTES: Final = 4
_GROUP_SIZE_BYTES: Final = GROUP_COLUMNS // 2 * PANEL_ROWS
_ZERO_CODES: Final = 0x88
_GOOD_SCALES: Final = bytes(range(1, INT4_SCALE_MAX + 1))
_SCALES: Final = int_range(1, INT4_SCALE_MAX)
_PADDING_SCALE: Final = "1, as its row only pads a panel"
_GOOD_CODES: Final = bytes(pair for pair in range(256) if pair & 0x0F and pair & 0xF0)


def check_int4_panels(tensor: Tensor) -> None:
    """Check every byte of a PANEL_INT4 tensor.

    Raises:
        ContainerError: If a row has more columns than the arithmetic proves sums for.
        ContainerError: If the scale of a group is not 1 … 64, or that of a padding row not 1.
        ContainerError: If a code is -8.
        ContainerError: If a code that pads rows or columns, or a byte that pads the scales, is
            not zero.
    """
    columns = tensor.shape[1]
    if columns > INT4_COLUMNS_MAX:
        raise ContainerError(
            Status.SSLM_TENSOR_COLUMNS, name=tensor.name, found=columns, highest=INT4_COLUMNS_MAX
        )
    scale_count = -(-columns // GROUP_COLUMNS) * PANEL_ROWS
    codes_start, panel_size = int4_scales_size_bytes(columns), int4_panel_size_bytes(columns)
    gap = bytes(codes_start - scale_count)
    unused_columns = _unused_columns(columns)
    for start in range(0, tensor.data.nbytes, panel_size):
        panel = bytes(tensor.data[start : start + panel_size])
        if panel[:scale_count].translate(None, _GOOD_SCALES):
            at = next(at for at in range(scale_count) if panel[at] not in _GOOD_SCALES)
            raise ContainerError(
                Status.SSLM_GROUP_SCALE,
                name=tensor.name,
                offset_bytes=start + at,
                found=panel[at],
                expected=_SCALES,
            )
        if panel[scale_count:codes_start] != gap:
            raise ContainerError(
                Status.SSLM_PANEL_PADDING,
                name=tensor.name,
                what="bytes after the scales",
                offset_bytes=start + scale_count,
            )
        if panel[codes_start:].translate(None, _GOOD_CODES):
            at = next(at for at in range(codes_start, panel_size) if panel[at] not in _GOOD_CODES)
            raise ContainerError(Status.SSLM_INT4_CODE, name=tensor.name, offset_bytes=start + at)
        if unused_columns:
            last = panel_size - _GROUP_SIZE_BYTES
            codes = int.from_bytes(panel[last:], "little") ^ _ZERO_CODE_GROUP
            if codes & unused_columns:
                raise ContainerError(
                    Status.SSLM_PANEL_PADDING,
                    name=tensor.name,
                    what="columns",
                    offset_bytes=start + last,
                )
    _check_padding_rows(tensor, scale_count)


_ZERO_CODE_GROUP: Final = int.from_bytes(bytes([_ZERO_CODES]) * _GROUP_SIZE_BYTES, "little")


def _unused_columns(columns: int) -> int:
    """Return a mask of the nibbles of the last group that pad columns, as bytes little-endian."""
    used = columns % GROUP_COLUMNS or GROUP_COLUMNS
    group = bytearray()
    for first in range(0, GROUP_COLUMNS, WORD_COLUMNS):
        word = bytes(
            0x0F * (low >= used) | 0xF0 * (low + WORD_COLUMNS // 2 >= used)
            for low in range(first, first + WORD_COLUMNS // 2)
        )
        group += word * PANEL_ROWS
    return int.from_bytes(group, "little")


def _check_padding_rows(tensor: Tensor, scale_count: int) -> None:
    """Check the last panel, the only one that can have padding rows."""
    rows, columns = tensor.shape
    used = rows % PANEL_ROWS
    if not used:
        return
    start = tensor.data.nbytes - int4_panel_size_bytes(columns)
    for at in range(start + used, start + scale_count, PANEL_ROWS):
        found = bytes(tensor.data[at : at + PANEL_ROWS - used])
        if found.strip(b"\x01"):
            wrong = next(index for index, scale in enumerate(found) if scale != 1)
            raise ContainerError(
                Status.SSLM_GROUP_SCALE,
                name=tensor.name,
                offset_bytes=at + wrong,
                found=found[wrong],
                expected=_PADDING_SCALE,
            )
    first = start + int4_scales_size_bytes(columns) + used * _WORD_SIZE_BYTES
    zeros = bytes([_ZERO_CODES]) * (PANEL_ROWS - used) * _WORD_SIZE_BYTES
    for at in range(first, tensor.data.nbytes, PANEL_ROWS * _WORD_SIZE_BYTES):
        if tensor.data[at : at + len(zeros)] != zeros:
            raise ContainerError(
                Status.SSLM_PANEL_PADDING, name=tensor.name, what="rows", offset_bytes=at
            )


def check_int4_mantissas(tensors: Mapping[str, Tensor]) -> None:
    """Check that the row scales of int4 matrices have the 23 bits that their sums leave room for.

    Raises:
        ContainerError: If one has more.
    """
    for name, mantissas in tensors.items():
        matrix = name.removesuffix(".mantissas")
        if matrix == name:
            continue
        # A head without a matrix of its own has the embedding's codes.
        if matrix == "lm_head" and matrix not in tensors:
            matrix = "embed"
        if matrix in tensors and tensors[matrix].encoding is Encoding.PANEL_INT4:
            numbers = mantissas.data.cast("i")
            if numbers.nbytes and max(numbers) > INT4_MANTISSA_MAX:
                wrong = next(at for at, one in enumerate(numbers) if one > INT4_MANTISSA_MAX)
                raise ContainerError(
                    Status.SSLM_TENSOR_VALUE,
                    name=name,
                    index=wrong,
                    found=numbers[wrong],
                    lowest=0,
                    highest=INT4_MANTISSA_MAX,
                )
