"""Compiled schemas in files of their own, and many in a section; see docs/format.md, 16."""

import struct
from collections.abc import Sequence
from typing import Final

from sslm import limits
from sslm.errors.schema_files import (
    NotASchemaFileError,
    SchemaCapacityError,
    SchemaFileIntegrityError,
    SchemaFileSizeError,
    SchemaFileVersionError,
    SchemaVocabularyError,
    StoredSchemaNameError,
)
from sslm.formats.bounded_reader import U32_MAX, U64_MAX, BoundedReader
from sslm.formats.schemas.blob import HASH_SIZE_BYTES, read_head
from sslm.hashes import Bytes, hash_without, sha256_of

_DIGEST_SHOWN_CHARS: Final = 16
MAGIC: Final = b"SSLMSCHM"
FORMAT_VERSION: Final = 1
HEADER_SIZE_BYTES: Final = 64
HASH_OFFSET_BYTES: Final = 32

_HEADER: Final = struct.Struct("<8sIIQQ32s")
_COUNT: Final = struct.Struct("<II")
_SIZE: Final = struct.Struct("<Q")


def encode_schema_file(schema: bytes) -> bytes:
    """Return the file of one compiled schema, as ``encode_schema`` spells it."""
    size = HEADER_SIZE_BYTES + len(schema)
    blank = _HEADER.pack(MAGIC, FORMAT_VERSION, 0, size, 0, bytes(HASH_SIZE_BYTES))
    return _HEADER.pack(MAGIC, FORMAT_VERSION, 0, size, 0, sha256_of([blank, schema])) + schema


def read_schema_file(blob: Bytes) -> BoundedReader:
    """Check the header of a file and its hash; return a reader at the schema, the rest of it.

    Raises:
        ArtifactError: One class per defect; see ``sslm.errors.schema_files``.
    """
    view = memoryview(blob)
    reader = BoundedReader(view)
    magic = bytes(reader.take("magic", size_bytes=min(len(MAGIC), reader.size_bytes)))
    if magic != MAGIC:
        raise NotASchemaFileError(magic)
    version = reader.u32("format version", at_most=U32_MAX)
    if version != FORMAT_VERSION:
        raise SchemaFileVersionError(version, FORMAT_VERSION)
    reader.u32("features", at_most=0)
    stated = reader.u64("size of the file", at_most=U64_MAX)
    if stated != reader.size_bytes:
        raise SchemaFileSizeError(stated, reader.size_bytes)
    reader.u64("field that is kept", at_most=0)
    expected = bytes(reader.take("hash", size_bytes=HASH_SIZE_BYTES))
    found = hash_without(view, HASH_OFFSET_BYTES)
    if found != expected:
        raise SchemaFileIntegrityError(found.hex(), expected.hex())
    return reader


def encode_schema_section(named: Sequence[tuple[str, bytes]]) -> bytes:
    """Return the section that holds compiled schemas.

    Args:
        named: Name and spelling of each, in any order; names are distinct.

    Raises:
        SchemaCapacityError: If they are more than a section holds.
    """
    most = limits.STORED_SCHEMA_COUNT_MAX
    if len(named) > most:
        raise SchemaCapacityError("schemas beside it", len(named) - 1, most - 1)
    schemas = [schema for _, schema in sorted(named)]
    pieces = [_COUNT.pack(len(schemas), 0), *(_SIZE.pack(len(schema)) for schema in schemas)]
    return b"".join([*pieces, *schemas])


def read_schema_section(
    data: memoryview, *, base_offset_bytes: int
) -> dict[str, tuple[bytes, memoryview]]:
    """Return the hash of the vocabulary and the bytes of each schema by name, in order.

    Of each no more than its beginning is looked at.

    Raises:
        ArtifactError: One class per defect; see ``sslm.errors.schema_files`` and
            ``sslm.errors.reading``.
    """
    reader = BoundedReader(data, base_offset_bytes=base_offset_bytes)
    count = reader.u32("schemas", at_least=1, at_most=limits.STORED_SCHEMA_COUNT_MAX)
    reader.u32("field that is kept", at_most=0)
    most = limits.STORED_SCHEMA_SIZE_BYTES_MAX
    sizes = [reader.u64(f"size of schema {index}", at_most=most) for index in range(count)]
    found: dict[str, tuple[bytes, memoryview]] = {}
    last = ""
    for index, size in enumerate(sizes):
        at = base_offset_bytes + reader.position
        schema = reader.take(f"schema {index}", size_bytes=size)
        name, vocabulary, _ = read_head(BoundedReader(schema, base_offset_bytes=at))
        if name in found:
            raise StoredSchemaNameError(name, "is there twice")
        if name < last:
            raise StoredSchemaNameError(name, f"stands behind {last!r}")
        found[name] = vocabulary, schema
        last = name
    reader.require_end("the section of schemas")
    return found


def require_vocabulary(name: str, found: bytes, expected: bytes) -> None:
    """Raise SchemaVocabularyError unless the hashes of two vocabularies are one."""
    if found != expected:
        shown = (one.hex()[:_DIGEST_SHOWN_CHARS] for one in (found, expected))
        raise SchemaVocabularyError(name, *shown)
