"""The type numbers of GGUF with the sizes they stand for."""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class ValueType(IntEnum):
    """Types of metadata values, by their number in the file."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


NUMBER_CODES: Final = {
    ValueType.UINT8: "B",
    ValueType.INT8: "b",
    ValueType.UINT16: "H",
    ValueType.INT16: "h",
    ValueType.UINT32: "I",
    ValueType.INT32: "i",
    ValueType.FLOAT32: "f",
    ValueType.UINT64: "Q",
    ValueType.INT64: "q",
    ValueType.FLOAT64: "d",
}
"""Value type of a number -> its letter in :mod:`struct` syntax."""

ITEM_SIZES_BYTES: Final = {
    **{kind: struct.calcsize(f"<{code}") for kind, code in NUMBER_CODES.items()},
    ValueType.BOOL: 1,
    ValueType.STRING: 8,
}
"""Value type -> bytes of one array item, for a string the least, which is its length alone."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """One way to store the elements of a tensor: rows of equal blocks."""

    type_id: int
    """Number in the file."""
    name: str
    """As ggml has it, in capitals."""
    block_elements: int
    """Elements of one block; a row holds whole blocks."""
    block_size_bytes: int
    """Bytes of one block."""
    is_supported: bool
    """Whether the elements can be turned into float32 here."""


def _by_id(rows: tuple[tuple[int, str, int, int], ...], *, is_supported: bool) -> list[TensorType]:
    return [TensorType(*row, is_supported) for row in rows]


TENSOR_TYPES: Final = {
    kind.type_id: kind
    for kind in _by_id(
        (
            (0, "F32", 1, 4),
            (1, "F16", 1, 2),
            (2, "Q4_0", 32, 18),
            (3, "Q4_1", 32, 20),
            (6, "Q5_0", 32, 22),
            (7, "Q5_1", 32, 24),
            (8, "Q8_0", 32, 34),
            (10, "Q2_K", 256, 84),
            (11, "Q3_K", 256, 110),
            (12, "Q4_K", 256, 144),
            (13, "Q5_K", 256, 176),
            (14, "Q6_K", 256, 210),
            (16, "IQ2_XXS", 256, 66),
            (17, "IQ2_XS", 256, 74),
            (18, "IQ3_XXS", 256, 98),
            (19, "IQ1_S", 256, 50),
            (20, "IQ4_NL", 32, 18),
            (21, "IQ3_S", 256, 110),
            (22, "IQ2_S", 256, 82),
            (23, "IQ4_XS", 256, 136),
            (29, "IQ1_M", 256, 56),
            (30, "BF16", 1, 2),
            (34, "TQ1_0", 256, 54),
            (35, "TQ2_0", 256, 66),
            (39, "MXFP4", 32, 17),
            (40, "NVFP4", 64, 36),
        ),
        is_supported=True,
    )
    + _by_id(
        (
            (9, "Q8_1", 32, 36),
            (15, "Q8_K", 256, 292),
            (24, "I8", 1, 1),
            (25, "I16", 1, 2),
            (26, "I32", 1, 4),
            (27, "I64", 1, 8),
            (28, "F64", 1, 8),
            (41, "Q1_0", 128, 18),
            (42, "Q2_0", 64, 18),
            (142, "PQ2_0", 128, 34),
            (143, "PTQ1_0", 128, 28),
        ),
        is_supported=False,
    )
}
"""Number -> type, for every type whose layout is known."""

REMOVED_TENSOR_TYPES: Final = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}
"""Number -> name, for the types that ggml took out again."""
