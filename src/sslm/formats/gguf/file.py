"""GGUF files: bytes to checked metadata and tensor records."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Final

from sslm import limits
from sslm.closing import Closing
from sslm.errors.gguf import GgufError
from sslm.errors.reading import FieldError
from sslm.errors.status import Status
from sslm.formats.bounded_reader import U32_MAX, U64_MAX, BoundedReader
from sslm.formats.gguf.metadata import GgufMetadata, MetadataArray, MetadataValue, Scalar
from sslm.formats.gguf.types import (
    ITEM_SIZES_BYTES,
    NUMBER_CODES,
    REMOVED_TENSOR_TYPES,
    TENSOR_TYPES,
    TensorType,
    ValueType,
)
from sslm.formats.mapped_file import MappedFile

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_ALIGNMENT_KEY: Final = "general.alignment"
_DEFAULT_ALIGNMENT_BYTES: Final = 32

# The least that one entry takes: what a count promises is compared with what is left.
_KEY_ENTRY_SIZE_BYTES_MIN: Final = 8 + 1 + 4 + 1
_TENSOR_ENTRY_SIZE_BYTES_MIN: Final = 8 + 1 + 4 + 8 + 4 + 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufTensor:
    """A named tensor whose place and size in the file are checked."""

    name: str
    shape: tuple[int, ...]
    """Outermost dimension first; one to four, none of them zero."""
    tensor_type: TensorType
    data: memoryview
    """Exactly the bytes of the tensor: rows of whole blocks, no copy."""

    @property
    def row_count(self) -> int:
        """Number of rows: the product of all dimensions but the innermost."""
        return prod(self.shape[:-1])

    @property
    def row_size_bytes(self) -> int:
        """Bytes of one row."""
        return _row_size_bytes(self.shape, self.tensor_type)


class GgufFile(Closing):
    """An open GGUF file; a context manager.

    Attributes:
        version: Of the format, 2 or 3.
        alignment_bytes: Of the tensor data.
        metadata: Values by key.
        tensors: Name -> tensor, in the order of the file.
        content: The whole file.
    """

    def __init__(
        self,
        *,
        version: int,
        alignment_bytes: int,
        metadata: GgufMetadata,
        tensors: dict[str, GgufTensor],
        content: memoryview,
        mapped_file: MappedFile | None,
    ) -> None:
        self.version = version
        self.alignment_bytes = alignment_bytes
        self.metadata = metadata
        self.tensors: Mapping[str, GgufTensor] = MappingProxyType(tensors)
        self.content = content
        self._mapped_file = mapped_file

    def close(self) -> None:
        """Give the file back; may be called again. Metadata stays, tensor data does not.

        An array that somebody made over tensor data keeps the file mapped until it is dropped.
        """
        if self._mapped_file is not None:
            for tensor in self.tensors.values():
                with suppress(BufferError):
                    tensor.data.release()
            self._mapped_file.close()


def read_gguf(source: str | os.PathLike[str] | bytes | memoryview) -> GgufFile:
    """Check a GGUF file of version 2 or 3 and return its records.

    Args:
        source: Path of a file, which is mapped and must not change until the result is closed;
            or the content itself.

    Returns:
        The metadata, and tensors whose data are views into the file.

    Raises:
        UnreadableFileError: If the file cannot be opened.
        ArtifactError: Of the class for the defect found; see sslm.errors.gguf and
            sslm.errors.reading.

    See the GGUF specification of ggml, docs/gguf.md.
    """
    if isinstance(source, bytes | memoryview):
        return _parse(memoryview(source).toreadonly(), None)
    mapped_file = MappedFile(source)
    try:
        return _parse(mapped_file.view, mapped_file)
    except BaseException:
        mapped_file.close()
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _TensorEntry:
    """What the header says about one tensor."""

    name: str
    shape: tuple[int, ...]
    tensor_type: TensorType
    relative_offset_bytes: int


def _parse(content: memoryview, mapped_file: MappedFile | None) -> GgufFile:
    reader = BoundedReader(content)
    version = _read_version(reader)
    tensor_count = reader.count_u64(
        "tensor count",
        at_most=limits.GGUF_TENSOR_COUNT_MAX,
        item_size_bytes=_TENSOR_ENTRY_SIZE_BYTES_MIN,
    )
    key_count = reader.count_u64(
        "metadata key count",
        at_most=limits.GGUF_KEY_COUNT_MAX,
        item_size_bytes=_KEY_ENTRY_SIZE_BYTES_MIN,
    )
    values = _read_metadata(reader, key_count)
    metadata = GgufMetadata(values)
    alignment_bytes = _alignment_bytes(metadata)
    entries: dict[str, _TensorEntry] = {}
    for index in range(tensor_count):
        entry = _read_tensor_entry(reader, index)
        if entry.name in entries:
            raise GgufError(
                Status.GGUF_DUPLICATE_TENSOR, name=entry.name, offset_bytes=reader.position
            )
        entries[entry.name] = entry
    tensors = _locate_all(reader, entries.values(), alignment_bytes)
    return GgufFile(
        version=version,
        alignment_bytes=alignment_bytes,
        metadata=metadata,
        tensors=tensors,
        content=content,
        mapped_file=mapped_file,
    )


def _read_version(reader: BoundedReader) -> int:
    magic = bytes(reader.take("magic", size_bytes=min(4, reader.size_bytes)))
    if magic != _MAGIC:
        raise GgufError(Status.GGUF_MAGIC, found=magic)
    version = reader.u32("version", at_most=U32_MAX)
    # Small numbers have their low half set; in the other byte order it comes out as zero.
    if version and version & 0xFFFF == 0:
        raise GgufError(
            Status.GGUF_BIG_ENDIAN, version=int.from_bytes(version.to_bytes(4, "little"), "big")
        )
    if version not in _VERSIONS:
        raise GgufError(Status.GGUF_VERSION, found=version)
    return version


def _alignment_bytes(metadata: GgufMetadata) -> int:
    found = metadata.u32_or(_ALIGNMENT_KEY, _DEFAULT_ALIGNMENT_BYTES, at_most=U32_MAX)
    at_least, at_most = limits.GGUF_ALIGNMENT_BYTES_MIN, limits.GGUF_ALIGNMENT_BYTES_MAX
    if not at_least <= found <= at_most or found & (found - 1):
        raise GgufError(Status.GGUF_ALIGNMENT, found=found, at_least=at_least, at_most=at_most)
    return found


# Metadata.


def _read_metadata(reader: BoundedReader, key_count: int) -> dict[str, MetadataValue]:
    values: dict[str, MetadataValue] = {}
    start, budget = reader.position, limits.GGUF_METADATA_SIZE_BYTES_MAX
    for index in range(key_count):
        key = reader.utf8(f"metadata key {index}", at_most=limits.GGUF_KEY_SIZE_BYTES_MAX)
        if not key or not key.isascii() or not key.isprintable():
            raise GgufError(Status.GGUF_KEY, key=key, offset_bytes=reader.position)
        if key in values:
            raise GgufError(Status.GGUF_DUPLICATE_KEY, key=key, offset_bytes=reader.position)
        values[key] = _read_value(reader, key, start + budget)
        if reader.position > start + budget:
            raise FieldError(
                Status.FIELD_TOO_LARGE,
                field="size of metadata",
                offset_bytes=start,
                found=reader.position - start,
                at_most=budget,
            )
    return values


def _read_value_type(reader: BoundedReader, key: str) -> ValueType:
    offset = reader.position
    type_id = reader.u32(f"type of {key}", at_most=U32_MAX)
    try:
        return ValueType(type_id)
    except ValueError:
        raise GgufError(
            Status.GGUF_UNKNOWN_VALUE_TYPE, key=key, type_id=type_id, offset_bytes=offset
        ) from None


def _read_value(reader: BoundedReader, key: str, end_at_most: int) -> MetadataValue:
    value_type = _read_value_type(reader, key)
    if value_type is ValueType.ARRAY:
        return MetadataValue(value_type, _read_array(reader, key, end_at_most))
    return MetadataValue(value_type, _read_scalar(reader, key, value_type))


def _read_scalar(reader: BoundedReader, key: str, value_type: ValueType) -> Scalar:
    if value_type is ValueType.STRING:
        return reader.utf8(key, at_most=limits.GGUF_STRING_SIZE_BYTES_MAX)
    if value_type is ValueType.BOOL:
        return _read_bools(reader, key, 1) == b"\1"
    return reader.number(key, NUMBER_CODES[value_type])


def _read_array(reader: BoundedReader, key: str, end_at_most: int) -> MetadataArray:
    offset = reader.position
    item_type = _read_value_type(reader, key)
    if item_type is ValueType.ARRAY:
        raise GgufError(Status.GGUF_NESTED_ARRAY, key=key, offset_bytes=offset)
    item_size_bytes = ITEM_SIZES_BYTES[item_type]
    count = reader.count_u64(
        f"item count of {key}",
        at_most=limits.GGUF_ARRAY_COUNT_MAX,
        item_size_bytes=item_size_bytes,
    )
    content: bytes | tuple[str, ...]
    if item_type is ValueType.STRING:
        content = reader.utf8_array(
            key,
            count=count,
            at_most=limits.GGUF_STRING_SIZE_BYTES_MAX,
            total_at_most=max(0, end_at_most - reader.position),
        )
    elif item_type is ValueType.BOOL:
        content = _read_bools(reader, key, count)
    else:
        content = bytes(reader.take(key, size_bytes=count * item_size_bytes))
    return MetadataArray(item_type, count, content)


def _read_bools(reader: BoundedReader, key: str, count: int) -> bytes:
    start = reader.position
    content = bytes(reader.take(key, size_bytes=count))
    wrong = content.translate(None, b"\0\1")
    if wrong:
        raise GgufError(
            Status.GGUF_BOOL, key=key, found=wrong[0], offset_bytes=start + content.index(wrong[:1])
        )
    return content


# Tensors.


def _row_size_bytes(shape: tuple[int, ...], tensor_type: TensorType) -> int:
    return shape[-1] // tensor_type.block_elements * tensor_type.block_size_bytes


def _read_tensor_entry(reader: BoundedReader, index: int) -> _TensorEntry:
    name = reader.utf8(f"name of tensor {index}", at_most=limits.GGUF_TENSOR_NAME_SIZE_BYTES_MAX)
    if not name or not name.isprintable():
        raise GgufError(Status.GGUF_TENSOR_NAME, name=name, offset_bytes=reader.position)
    shape = _read_shape(reader, name)
    tensor_type = _tensor_type(name, reader.u32(f"type of tensor {name}", at_most=U32_MAX))
    if shape[-1] % tensor_type.block_elements:
        raise GgufError(
            Status.GGUF_PARTIAL_BLOCK,
            name=name,
            row_elements=shape[-1],
            type_name=tensor_type.name,
            block_elements=tensor_type.block_elements,
        )
    return _TensorEntry(
        name=name,
        shape=shape,
        tensor_type=tensor_type,
        relative_offset_bytes=reader.u64(f"offset of tensor {name}", at_most=U64_MAX),
    )


def _read_shape(reader: BoundedReader, name: str) -> tuple[int, ...]:
    count = reader.u32(f"dimension count of tensor {name}", at_most=U32_MAX)
    if not 1 <= count <= limits.GGUF_DIMENSION_COUNT_MAX:
        raise GgufError(
            Status.GGUF_DIMENSION_COUNT,
            name=name,
            found=count,
            at_most=limits.GGUF_DIMENSION_COUNT_MAX,
        )
    sizes = [
        reader.u64(f"dimension {index} of tensor {name}", at_most=U64_MAX) for index in range(count)
    ]
    # GGUF lists the innermost dimension first. Reverse here once, so nobody else has to know.
    shape = tuple(reversed(sizes))
    if 0 in shape:
        raise GgufError(Status.GGUF_EMPTY_DIMENSION, name=name, shape=shape)
    if prod(shape) > limits.GGUF_TENSOR_ELEMENT_COUNT_MAX:
        raise GgufError(
            Status.GGUF_TENSOR_TOO_LARGE,
            name=name,
            shape=shape,
            at_most=limits.GGUF_TENSOR_ELEMENT_COUNT_MAX,
        )
    return shape


def _tensor_type(name: str, type_id: int) -> TensorType:
    if type_id in REMOVED_TENSOR_TYPES:
        raise GgufError(
            Status.GGUF_REMOVED_TENSOR_TYPE,
            name=name,
            type_id=type_id,
            type_name=REMOVED_TENSOR_TYPES[type_id],
        )
    if type_id not in TENSOR_TYPES:
        raise GgufError(Status.GGUF_UNKNOWN_TENSOR_TYPE, name=name, type_id=type_id)
    return TENSOR_TYPES[type_id]


def _locate_all(
    reader: BoundedReader, entries: Iterable[_TensorEntry], alignment_bytes: int
) -> dict[str, GgufTensor]:
    """Return the tensors with their bytes; together they must fill the rest of the file.

    Each starts where the one listed before it ends, padded to the alignment, as llama.cpp has it.
    The last one ends the file, padded or not. So a wrong type, shape or offset of any one shows.
    """
    found: dict[str, GgufTensor] = {}
    ends: dict[str, int] = {}
    data_start = padded_end = _padded(reader.position, alignment_bytes)
    before = "the start of the tensor data"
    for entry in entries:
        offset = data_start + entry.relative_offset_bytes
        reader.require_aligned(entry.name, offset_bytes=offset, alignment_bytes=alignment_bytes)
        if offset != padded_end:
            raise GgufError(
                Status.GGUF_TENSOR_OFFSET,
                name=entry.name,
                offset_bytes=offset,
                expected_bytes=padded_end,
                before=before,
            )
        found[entry.name] = _locate(reader, entry, offset)
        ends[entry.name] = offset + found[entry.name].data.nbytes
        padded_end = _padded(ends[entry.name], alignment_bytes)
        before = f"the padded end of {entry.name!r} ({entry.tensor_type.name})"
    if found and padded_end < reader.size_bytes:
        *_, last = found.values()
        raise GgufError(
            Status.GGUF_DATA_END,
            name=last.name,
            type_name=last.tensor_type.name,
            expected_bytes=padded_end,
            file_size_bytes=reader.size_bytes,
        )
    # Offsets come first: of a wrong type, they tell more than weights where padding should be.
    for name, end in ends.items():
        size_bytes = min(_padded(end, alignment_bytes), reader.size_bytes) - end
        reader.require_zeros(f"after tensor {name}", offset_bytes=end, size_bytes=size_bytes)
    reader.require_disjoint_claims()
    return found


def _locate(reader: BoundedReader, entry: _TensorEntry, offset: int) -> GgufTensor:
    size_bytes = prod(entry.shape[:-1]) * _row_size_bytes(entry.shape, entry.tensor_type)
    if offset + size_bytes > reader.size_bytes:
        raise GgufError(
            Status.GGUF_TENSOR_PAST_END,
            name=entry.name,
            offset_bytes=offset,
            size_bytes=size_bytes,
            file_size_bytes=reader.size_bytes,
        )
    return GgufTensor(
        name=entry.name,
        shape=entry.shape,
        tensor_type=entry.tensor_type,
        data=reader.claim(entry.name, offset_bytes=offset, size_bytes=size_bytes),
    )


def _padded(size_bytes: int, alignment_bytes: int) -> int:
    return -(-size_bytes // alignment_bytes) * alignment_bytes
