"""Constant tensors as a program names them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from sslm.errors.program import TensorShapeError

PANEL_ROWS = 16
PANEL_COLUMNS = 4


class Encoding(IntEnum):
    """How the elements of a tensor lie in memory. The numbers are those of the file format."""

    INT32 = 1
    """Little-endian int32, row-major."""
    PANEL_INT8 = 2
    """int8 codes in panels of 16 rows by 4 columns, both padded with zeros."""


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


def size_bytes(encoding: Encoding, shape: tuple[int, ...]) -> int:
    """Return the bytes that a tensor of this shape takes, padding included."""
    if encoding is Encoding.PANEL_INT8:
        rows, columns = shape
        return padded(rows, PANEL_ROWS) * padded(columns, PANEL_COLUMNS)
    count = 1
    for extent in shape:
        count *= extent
    return 4 * count


Tensors = Mapping[str, Tensor]
