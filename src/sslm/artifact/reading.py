"""From a file to a verified artifact."""

import os
from collections.abc import Mapping
from types import MappingProxyType

from sslm.artifact.artifact import Artifact
from sslm.artifact.config_section import decode_config
from sslm.artifact.file_bytes import CopiedFile, FileBytes, LentBytes
from sslm.artifact.golden import decode_golden
from sslm.artifact.int4_checks import check_int4_mantissas
from sslm.artifact.provenance import decode_provenance
from sslm.artifact.stored_schemas import NO_SCHEMAS, StoredSchemas
from sslm.artifact.tensor_checks import check_tensor
from sslm.artifact.tokenizer_section import decode_vocabulary
from sslm.errors.artifact import ContainerError
from sslm.errors.status import Status
from sslm.formats.bounded_reader import BoundedReader
from sslm.formats.mapped_file import MappedFile
from sslm.formats.sslm.container import Section, SectionType, model_identity, read_container
from sslm.formats.sslm.tensors import TensorRecord, read_manifest
from sslm.program.tensors import Encoding, Tensor, size_bytes


def read_artifact(
    path: str | os.PathLike[str] | memoryview,
    *,
    mmap: bool = True,
    copy_at_most_bytes: int | None = None,
) -> Artifact:
    """Open an artifact and check all of it that can be checked without running it.

    Whether the tensors are those that the model needs is for the program that is built from them.

    Args:
        path: Of a ``.sslm`` file; or its bytes, which are used where they lie.
        mmap: Whether to use the file's own pages. Nobody may then change or shorten the file while
            the artifact is open: what was verified would no longer be what is used, and a read
            beyond the new end kills the process. Otherwise the file is copied, then verified.
        copy_at_most_bytes: Largest copy, or None for no bound.

    Raises:
        ArtifactError: One class per defect; see ``sslm.errors.artifact``, ``reading``, ``model``
            and ``text``.
        MemoryBudgetError: If a copy would be larger than its bound.
        CopyMemoryError: If there is no memory for a copy.
    """
    file: FileBytes
    if isinstance(path, memoryview):
        file = LentBytes(path, is_copied=not mmap, copy_at_most_bytes=copy_at_most_bytes)
    elif mmap:
        file = MappedFile(path)
    else:
        file = CopiedFile(path, size_at_most_bytes=copy_at_most_bytes)
    try:
        return artifact_from(file)
    except BaseException:
        file.close()
        raise


def artifact_from(file: FileBytes) -> Artifact:
    """Do as :func:`read_artifact` does with the bytes of a file; they stay open on an error."""
    sections = read_container(file.view)
    head = decode_config(sections[SectionType.CONFIG].data)
    vocabulary_section = sections[SectionType.TOKENIZER]
    vocabulary = decode_vocabulary(
        vocabulary_section.data, base_offset_bytes=vocabulary_section.place.offset_bytes
    )
    if len(vocabulary.tokens) > head.config.vocab_size:
        raise ContainerError(
            Status.SECTIONS_DISAGREE,
            place="the tokenizer",
            what="tokens",
            found=len(vocabulary.tokens),
            expected=head.config.vocab_size,
        )
    # JSON first: while it is parsed it takes many times its size, and tensors many records.
    provenance = decode_provenance(sections[SectionType.PROVENANCE].data)
    golden_section = sections.get(SectionType.GOLDEN)
    golden = (
        None
        if golden_section is None
        else decode_golden(golden_section.data, head.config, token_count=len(vocabulary.tokens))
    )
    return Artifact(
        config=head.config,
        fraction_bits=head.fraction_bits,
        arithmetic_version=head.arithmetic_version,
        tensors=_read_tensors(sections),
        vocabulary=vocabulary,
        chat_template=_read_template(sections.get(SectionType.CHAT_TEMPLATE)),
        provenance=provenance,
        golden=golden,
        schemas=_read_schemas(sections),
        vocabulary_sha256=vocabulary_section.sha256,
        model_id=model_identity(sections, head.arithmetic_version),
        file_size_bytes=file.view.nbytes,
        file=file,
    )


def _read_template(section: Section | None) -> str | None:
    if section is None:
        return None
    reader = BoundedReader(section.data, base_offset_bytes=section.place.offset_bytes)
    return reader.utf8_of("chat template", size_bytes=reader.size_bytes)


def _read_schemas(sections: Mapping[SectionType, Section]) -> StoredSchemas:
    section = sections.get(SectionType.SCHEMAS)
    if section is None:
        return NO_SCHEMAS
    return StoredSchemas.read(
        section.data,
        base_offset_bytes=section.place.offset_bytes,
        vocabulary_sha256=sections[SectionType.TOKENIZER].sha256,
    )


def _read_tensors(sections: Mapping[SectionType, Section]) -> Mapping[str, Tensor]:
    manifest, weights = sections[SectionType.TENSORS], sections[SectionType.WEIGHTS]
    records = read_manifest(
        manifest.data,
        base_offset_bytes=manifest.place.offset_bytes,
        weights_size_bytes=weights.data.nbytes,
    )
    reader = BoundedReader(weights.data, base_offset_bytes=weights.place.offset_bytes)
    tensors = {record.name: _read_tensor(record, reader) for record in records}
    reader.require_zero_unclaimed("between tensors")
    for tensor in tensors.values():
        check_tensor(tensor)
    check_int4_mantissas(tensors)
    return MappingProxyType(tensors)


def _read_tensor(record: TensorRecord, weights: BoundedReader) -> Tensor:
    if record.encoding not in list(Encoding):
        raise ContainerError(Status.SSLM_TENSOR_ENCODING, name=record.name, found=record.encoding)
    encoding = Encoding(record.encoding)
    if encoding.is_matrix and len(record.shape) != 2:
        raise ContainerError(
            Status.SSLM_TENSOR_RANK,
            name=record.name,
            found=len(record.shape),
            at_least=2,
            at_most=2,
        )
    expected = size_bytes(encoding, record.shape)
    if record.size_bytes != expected:
        raise ContainerError(
            Status.SSLM_TENSOR_SIZE,
            name=record.name,
            shape=record.shape,
            found_bytes=record.size_bytes,
            expected_bytes=expected,
        )
    data = weights.claim(
        record.name, offset_bytes=record.offset_bytes, size_bytes=record.size_bytes
    )
    return Tensor(
        name=record.name,
        encoding=encoding,
        shape=record.shape,
        exponent=record.exponent,
        data=data,
    )
