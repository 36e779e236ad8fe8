"""The manifest of an artifact's tensors: names, shapes, places; see docs/format.md, 7."""

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sslm import limits
from sslm.errors.artifact import ContainerError
from sslm.errors.status import Status
from sslm.formats.bounded_reader import U32_MAX, BoundedReader

RANK_MAX: Final = 4
TENSOR_ALIGNMENT_BYTES: Final = 256

_HEAD: Final = struct.Struct("<II")
_ROW: Final = struct.Struct("<IIIiIIIIQQ")
_NAME: Final = re.compile(r"[0-9A-Za-z_.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRecord:
    """One row of the manifest.

    Args:
        name: Of letters, digits, ``.`` and ``_``.
        encoding: Number of the layout of the elements.
        shape: One to four extents, outermost first, each at least 1.
        exponent: Binary exponent of all elements.
        offset_bytes: Of the first byte in the section of the weights.
        size_bytes: Padding of panels included.
    """

    name: str
    encoding: int
    shape: tuple[int, ...]
    exponent: int
    offset_bytes: int
    size_bytes: int


def encode_manifest(records: Iterable[TensorRecord]) -> bytes:
    """Return the section's bytes for records that are sorted by name."""
    rows, names = [], []
    for record in records:
        name = record.name.encode("ascii")
        extents = (*record.shape, *(0,) * (RANK_MAX - len(record.shape)))
        rows.append(
            _ROW.pack(
                len(name),
                record.encoding,
                len(record.shape),
                record.exponent,
                *extents,
                record.offset_bytes,
                record.size_bytes,
            )
        )
        names.append(name)
    return _HEAD.pack(len(rows), 0) + b"".join(rows) + b"".join(names)


def manifest_size_bytes(names: Iterable[str]) -> int:
    """Return the size of the section for tensors of these names."""
    return _HEAD.size + sum(_ROW.size + len(name) for name in names)


def read_manifest(
    data: memoryview, *, base_offset_bytes: int, weights_size_bytes: int
) -> tuple[TensorRecord, ...]:
    """Read and check the manifest.

    Args:
        data: The section.
        base_offset_bytes: Where it lies in the file, for errors.
        weights_size_bytes: Size of the section that holds the tensors, which they must fill.

    Raises:
        ArtifactError: One class per defect; encodings and sizes are the caller's to check.
    """
    reader = BoundedReader(data, base_offset_bytes=base_offset_bytes)
    count = reader.u32("tensor count", at_most=limits.SSLM_TENSOR_COUNT_MAX, at_least=1)
    reserved = reader.u32("reserved field of the manifest", at_most=U32_MAX)
    if reserved:
        raise ContainerError(
            Status.SSLM_RESERVED,
            field="reserved field of the manifest",
            offset_bytes=base_offset_bytes + 4,
            found=reserved,
        )
    rows = reader.take("tensor rows", size_bytes=_ROW.size * count)
    records: list[TensorRecord] = []
    end = 0
    for index, row in enumerate(_ROW.iter_unpack(rows)):
        name = _read_name(reader, index, row[0])
        if records and name <= records[-1].name:
            raise ContainerError(Status.SSLM_TENSOR_ORDER, name=name, previous=records[-1].name)
        record = _record_of(name, row)
        expected = -(-end // TENSOR_ALIGNMENT_BYTES) * TENSOR_ALIGNMENT_BYTES
        if record.offset_bytes != expected:
            raise ContainerError(
                Status.SSLM_TENSOR_PLACE,
                name=name,
                found_bytes=record.offset_bytes,
                expected_bytes=expected,
            )
        end = record.offset_bytes + record.size_bytes
        records.append(record)
    reader.require_end("the names of the tensors")
    if end != weights_size_bytes:
        raise ContainerError(Status.SSLM_WEIGHTS_SIZE, end_bytes=end, size_bytes=weights_size_bytes)
    return tuple(records)


def _read_name(reader: BoundedReader, index: int, size_bytes: int) -> str:
    if size_bytes > limits.SSLM_TENSOR_NAME_SIZE_BYTES_MAX:
        raise ContainerError(
            Status.SSLM_TENSOR_NAME_SIZE,
            index=index,
            size_bytes=size_bytes,
            at_most=limits.SSLM_TENSOR_NAME_SIZE_BYTES_MAX,
        )
    raw = bytes(reader.take(f"name of tensor {index}", size_bytes=size_bytes))
    name = raw.decode("ascii", errors="backslashreplace")
    if not _NAME.fullmatch(name):
        raise ContainerError(Status.SSLM_TENSOR_NAME, index=index, name=name)
    return name


def _record_of(name: str, row: tuple[int, ...]) -> TensorRecord:
    _, encoding, rank, exponent, *extents, offset, size = row
    if not 1 <= rank <= RANK_MAX:
        raise ContainerError(
            Status.SSLM_TENSOR_RANK, name=name, found=rank, at_least=1, at_most=RANK_MAX
        )
    bound = limits.SSLM_TENSOR_EXPONENT_MAX
    if not -bound <= exponent <= bound:
        raise ContainerError(Status.SSLM_TENSOR_EXPONENT, name=name, found=exponent, bound=bound)
    if 0 in extents[:rank] or any(extents[rank:]):
        raise ContainerError(
            Status.SSLM_TENSOR_EXTENT, name=name, extents=tuple(extents), rank=rank
        )
    return TensorRecord(
        name=name,
        encoding=encoding,
        shape=tuple(extents[:rank]),
        exponent=exponent,
        offset_bytes=offset,
        size_bytes=size,
    )
