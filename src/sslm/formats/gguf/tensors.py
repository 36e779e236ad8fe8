"""Tensors of a GGUF file as float32 arrays."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sslm import limits
from sslm.errors.gguf import GgufError
from sslm.errors.status import Status
from sslm.formats.gguf.file import GgufTensor

Float32Array = NDArray[np.float32]
_ByteArray = NDArray[np.uint8]


def dequantize(tensor: GgufTensor) -> Float32Array:
    """Return all elements of *tensor*, as :func:`dequantize_rows` does, in its shape."""
    rows = dequantize_rows(tensor, first_row=0, row_count=tensor.row_count)
    return rows.reshape(tensor.shape)


def dequantize_rows(tensor: GgufTensor, *, first_row: int, row_count: int) -> Float32Array:
    """Return some rows of *tensor* as the numbers that its blocks stand for.

    Only single IEEE operations on single elements are used, so the bits are the same everywhere.

    Args:
        tensor: Of an open file.
        first_row: From 0; all dimensions but the innermost are counted as rows.
        row_count: At most what is left of ``tensor.row_count``.

    Returns:
        A new float32 array [row_count, innermost dimension], all of it finite.

    Raises:
        GgufError: If the type has no rule here, or at the first element that is infinite or not a
            number.
    """
    kind = tensor.tensor_type
    rule = _rule(tensor)
    if not 0 <= first_row <= first_row + row_count <= tensor.row_count:
        raise IndexError(f"rows {first_row} + {row_count} of {tensor.row_count}")
    row_elements, row_size_bytes = tensor.shape[-1], tensor.row_size_bytes
    blocks_per_row = row_elements // kind.block_elements
    data = np.frombuffer(
        tensor.data, np.uint8, row_count * row_size_bytes, first_row * row_size_bytes
    )
    blocks = data.reshape(row_count * blocks_per_row, kind.block_size_bytes)
    out = np.empty((len(blocks), kind.block_elements), np.float32)
    step = max(1, limits.DEQUANTIZED_CHUNK_ELEMENTS // kind.block_elements)
    for start in range(0, len(blocks), step):
        # Infinite scales give warnings here; the elements they spoil are reported below.
        with np.errstate(all="ignore"):
            out[start : start + step] = rule(blocks[start : start + step])
        _require_finite(tensor, out[start : start + step], first_row, start)
    return out.reshape(row_count, row_elements)


def _require_finite(
    tensor: GgufTensor, part: Float32Array, first_row: int, first_block: int
) -> None:
    finite = np.isfinite(part).ravel()
    if not finite.all():
        at = int(np.argmin(finite))
        before = first_row * tensor.shape[-1] + first_block * tensor.tensor_type.block_elements
        index = tuple(int(i) for i in np.unravel_index(before + at, tensor.shape))
        raise GgufError(
            Status.GGUF_NON_FINITE_WEIGHT,
            name=tensor.name,
            index=index,
            found=float(part.ravel()[at]),
        )


# Rules: uint8 [blocks, block_size_bytes] -> float32 [blocks, block_elements].

_Rule = Callable[[_ByteArray], Float32Array]


def unsupported_type(tensor: GgufTensor) -> GgufError:
    """Return the error of a tensor whose type has no rule here."""
    kind = tensor.tensor_type
    return GgufError(
        Status.GGUF_UNSUPPORTED_TENSOR_TYPE,
        name=tensor.name,
        type_id=kind.type_id,
        type_name=kind.name,
    )


def _rule(tensor: GgufTensor) -> _Rule:
    """Return the rule for the tensor's type, or raise GgufError."""
    kind = tensor.tensor_type
    if not kind.is_supported:
        raise unsupported_type(tensor)
    if kind.name in _OWN_RULES:
        return _OWN_RULES[kind.name]
    # The package takes a tenth of a second to import, so it is asked for only when it is used.
    from gguf import GGMLQuantizationType, quants

    def by_package(blocks: _ByteArray) -> Float32Array:
        try:
            # As one long row: the package works on sixteen rows at a time, whatever their length.
            row = quants.dequantize(blocks.reshape(1, -1), GGMLQuantizationType(kind.type_id))
        except (MemoryError, RecursionError):
            raise
        except Exception as error:
            # An older version of the package knows fewer types, and says so in several ways.
            raise unsupported_type(tensor) from error
        found: Float32Array = row.reshape(-1, kind.block_elements)
        return found

    return by_package


def _from_f32(blocks: _ByteArray) -> Float32Array:
    return blocks.view("<f4")


def _from_f16(blocks: _ByteArray) -> Float32Array:
    return blocks.view("<f2").astype(np.float32)


def _from_bf16(blocks: _ByteArray) -> Float32Array:
    return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _e4m3_scale(code: int) -> float:
    """Return the value of an unsigned E4M3 number (4 exponent bits of bias 7, 3 mantissa bits)."""
    exponent, mantissa = code >> 3 & 15, code & 7
    if code == 0x7F:
        return 0.0
    return mantissa / 512 if exponent == 0 else (8 + mantissa) / 8 * 2.0 ** (exponent - 7)


_E4M3_SCALES: Final = np.array([_e4m3_scale(code) for code in range(256)], np.float32)
_E2M1_VALUES: Final = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def _from_nvfp4(blocks: _ByteArray) -> Float32Array:
    """Multiply E2M1 numbers with the E4M3 scale of their sixteen.

    The package raises 2.0 to a power in vector code, whose last bit depends on the processor.
    """
    scales = _E4M3_SCALES[blocks[:, :4]].reshape(-1, 4, 1)
    pairs = blocks[:, 4:].reshape(-1, 4, 8)
    codes = np.concatenate([pairs & 15, pairs >> 4], axis=-1)
    values = np.where(codes & 8, -_E2M1_VALUES[codes & 7], _E2M1_VALUES[codes & 7])
    products: Float32Array = scales * values
    return products.reshape(-1, 64)


_OWN_RULES: Final[dict[str, _Rule]] = {
    "F32": _from_f32,
    "F16": _from_f16,
    "BF16": _from_bf16,
    "NVFP4": _from_nvfp4,
}
