"""Compiled schemas in files of their own."""

import os

from sslm import limits
from sslm.artifact.atomic_file import atomic_file
from sslm.artifact.file_bytes import CopiedFile
from sslm.artifact.prepared_schema import PreparedSchema, decode_schema
from sslm.artifact.saved_files import beginning_of
from sslm.errors.schema_files import NotASchemaFileError
from sslm.formats.schemas.containers import (
    HEADER_SIZE_BYTES,
    MAGIC,
    encode_schema_file,
    read_schema_file,
)


def write_prepared_schema(
    path: str | os.PathLike[str], schema: PreparedSchema, *, is_replaced: bool = True
) -> None:
    """Write a schema to a file, which is there whole or not at all.

    Args:
        path: The file's name.
        schema: What it is to hold.
        is_replaced: Whether a file of that name is replaced, in one step.

    Raises:
        OutputExistsError: If there is one, and it may not be.
        DiskFullError, UnwritableFileError: If the system has no room, or refuses.
        ArgumentError: If something lies there that is no regular file.
    """
    with atomic_file(path, is_replaced=is_replaced) as file:
        file.write(encode_schema_file(schema.encoded))


def read_prepared_schema(path: str | os.PathLike[str]) -> PreparedSchema:
    """Read the schema of a file, and check all of it that can be checked without a vocabulary.

    Raises:
        NotASchemaFileError: If it begins otherwise; no more of it was read.
        ArtifactError: One class per defect; see ``sslm.errors.schema_files``.
        MemoryBudgetError: If it is larger than compiled schemas are.
        CopyMemoryError, FieldError, UnreadableFileError: As
            :func:`sslm.artifact.saved_files.read_saved_file` does.
    """
    found = beginning_of(path, len(MAGIC))
    if found != MAGIC:
        raise NotASchemaFileError(found)
    most = HEADER_SIZE_BYTES + limits.STORED_SCHEMA_SIZE_BYTES_MAX
    return decode_schema(read_schema_file(CopiedFile(path, size_at_most_bytes=most).view))
