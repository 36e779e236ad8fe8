"""A model file with compiled schemas besides what it had."""

import os
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Final

from sslm.artifact.atomic_file import atomic_file
from sslm.artifact.block_writer import BlockWriter
from sslm.artifact.prepared_schema import PreparedSchema
from sslm.artifact.reading import read_artifact
from sslm.errors.schema_files import SchemaNameTakenError
from sslm.formats.sslm.container import (
    SectionType,
    encode_head,
    read_container,
    section_places,
)
from sslm.hashes import Sha256
from sslm.memory import HUGE_PAGE_SIZE_BYTES
from sslm.progress import Progress, untold

_PIECE_SIZE_BYTES: Final = 8 * HUGE_PAGE_SIZE_BYTES


def add_schemas(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    schemas: Sequence[PreparedSchema],
    *,
    is_replaced: bool = False,
    on_progress: Progress = untold,
) -> None:
    """Write a model file with more schemas; its ``model_id`` stays, and all else that it holds.

    The source is not changed. The target is there whole or not at all.

    Args:
        source: Of a model file, checked as it is when it is opened to run.
        target: The name that the new file gets.
        schemas: Compiled for that model's vocabulary; in any order.
        is_replaced: Whether a file of that name is replaced, in one step.
        on_progress: Called with bytes written and in all.

    Raises:
        SchemaNameTakenError: If two schemas would have one name.
        SchemaVocabularyError: If one was compiled for another vocabulary.
        SchemaCapacityError: If they are more than a file holds.
        OutputExistsError, OutputNotFileError: If the target cannot have that name.
        DiskFullError, UnwritableFileError: If the system has no room, or refuses.
        ArtifactError: If the source is not one we accept.
    """
    with read_artifact(source) as artifact:
        _require_new_names(set(artifact.schemas), schemas)
        for schema in schemas:
            schema.require_vocabulary(artifact.vocabulary_sha256)
        section = artifact.schemas.with_others(schemas)
        found = read_container(artifact.file.view)
        contents: dict[SectionType, memoryview] = {kind: found[kind].data for kind in found}
        digests = {kind: found[kind].sha256 for kind in found}
        contents[SectionType.SCHEMAS] = memoryview(section)
        digests[SectionType.SCHEMAS] = Sha256(section).digest()
        with atomic_file(target, is_replaced=is_replaced) as file:
            _write(file, contents, digests, on_progress)


def _write(
    file: BinaryIO,
    contents: Mapping[SectionType, memoryview],
    digests: Mapping[SectionType, bytes],
    on_progress: Progress,
) -> None:
    places = section_places({kind: content.nbytes for kind, content in contents.items()})
    total = places[-1].end_bytes
    with BlockWriter(file) as writer:
        for place in places:
            writer.seek(place.offset_bytes)
            for start in range(0, place.size_bytes, _PIECE_SIZE_BYTES):
                on_progress(place.offset_bytes + start, total)
                writer.write(contents[place.type][start : start + _PIECE_SIZE_BYTES])
        writer.seek(0)
        writer.write(encode_head(places, digests))
    on_progress(total, total)


def _require_new_names(taken: set[str], schemas: Sequence[PreparedSchema]) -> None:
    for schema in schemas:
        if schema.name in taken:
            raise SchemaNameTakenError(schema.name)
        taken.add(schema.name)
