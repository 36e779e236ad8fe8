"""Constant tensors as a program names them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from sslm.errors.program import TensorShapeError

PANEL_ROWS = 16
PANEL_COLUMNS = 4
GROUP_COLUMNS = 32
"""Columns of int4 codes that share a scale."""
WORD_COLUMNS = 8
"""Columns of int4 codes of one row that share a word of four bytes."""
INT4_CODE_MAX = 7
INT4_OFFSET = 8
"""A nibble holds a code plus this."""
INT4_SCALE_MAX = 64
INT4_MANTISSA_BITS = 23
"""Of the row scales of int4 matrices: their sums leave room for no more."""
_SCALES_ALIGNMENT_BYTES = 64


class Encoding(IntEnum):
    """How the elements of a tensor lie in memory. The numbers are those of the file format."""

    INT32 = 1
    """Little-endian int32, row-major."""
    PANEL_INT8 = 2
    """int8 codes in panels of 16 rows by 4 columns, both padded with zeros."""
    PANEL_INT4 = 3
    """4-bit codes with scales of groups of 32 columns, in panels of 16 rows: scales, then codes."""

    @property
    def is_matrix(self) -> bool:
        """Whether the elements are the weights of a matrix, in panels."""
        return self is not Encoding.INT32


def padded(count: int, multiple: int) -> int:
    """Round *count* up to a multiple of *multiple*."""
    return -(-count // multiple) * multiple


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tensor:
    """One constant tensor: its bytes, and what they stand for.

    Args:
        name: Canonical name, such as ``layers.3.q_proj`` or ``layers.3.q_proj.mantissas``.
        encoding: How the elements lie in ``data``.
        shape: Logical sizes, outermost first, without padding.
        exponent: Binary exponent ``e`` of all elements (``value = element * 2**-e``), for tensors
            that are mantissas or gains; 0 where it has no meaning.
        data: Exactly ``size_bytes(encoding, shape)`` read-only bytes, aligned to 64 or better.
    """

    name: str
    encoding: Encoding
    shape: tuple[int, ...]
    exponent: int
    data: memoryview

    def __post_init__(self) -> None:
        expected = size_bytes(self.encoding, self.shape)
        if self.data.nbytes != expected:
            raise TensorShapeError(self.name, self.shape, self.data.nbytes, expected)


def int4_scales_size_bytes(columns: int) -> int:
    """Return the bytes of the scales that begin a panel of int4 codes, padding included."""
    return padded(-(-columns // GROUP_COLUMNS) * PANEL_ROWS, _SCALES_ALIGNMENT_BYTES)


def int4_panel_size_bytes(columns: int) -> int:
    """Return the bytes of 16 rows of int4 codes with their scales."""
    return int4_scales_size_bytes(columns) + padded(columns, GROUP_COLUMNS) * PANEL_ROWS // 2


def size_bytes(encoding: Encoding, shape: tuple[int, ...]) -> int:
    """Return the bytes that a tensor of this shape takes, padding included."""
    if encoding is Encoding.PANEL_INT4:
        rows, columns = shape
        return padded(rows, PANEL_ROWS) // PANEL_ROWS * int4_panel_size_bytes(columns)
    if encoding is Encoding.PANEL_INT8:
        rows, columns = shape
        return padded(rows, PANEL_ROWS) * padded(columns, PANEL_COLUMNS)
    count = 1
    for extent in shape:
        count *= extent
    return 4 * count


Tensors = Mapping[str, Tensor]
