"""From the parts of an artifact to a file."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from sslm.artifact.atomic_file import atomic_file
from sslm.artifact.block_writer import BlockWriter
from sslm.artifact.config_section import ConfigSection, decode_config, encode_config
from sslm.artifact.golden import Golden, decode_golden, encode_golden
from sslm.artifact.provenance import Provenance, decode_provenance, encode_provenance
from sslm.artifact.tensor_checks import check_tensor
from sslm.artifact.tokenizer_section import encode_vocabulary
from sslm.errors.artifact import ContainerError, TensorSupplyError
from sslm.errors.status import Status
from sslm.formats.sslm.container import (
    SectionPlace,
    SectionType,
    aligned,
    encode_head,
    section_places,
)
from sslm.formats.sslm.tensors import (
    TENSOR_ALIGNMENT_BYTES,
    TensorRecord,
    encode_manifest,
    manifest_size_bytes,
    read_manifest,
)
from sslm.hashes import Sha256
from sslm.model.config import ModelConfig
from sslm.model.fraction_bits import FractionBits
from sslm.program.program import ARITHMETIC_VERSION
from sslm.program.tensors import Encoding, Tensor, size_bytes
from sslm.text.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactParts:
    """All of an artifact but its tensors; see :class:`sslm.artifact.Artifact` for the fields."""

    config: ModelConfig
    fraction_bits: FractionBits
    vocabulary: Vocabulary
    provenance: Provenance
    chat_template: str | None = None
    golden: Golden | None = None
    arithmetic_version: int = ARITHMETIC_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """What must be known of a tensor before the first one is written."""

    name: str
    encoding: Encoding
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorStream:
    """Tensors that come one by one, so that not all need be in memory.

    Args:
        specs: One for each tensor, sorted by name.
        tensors: The tensors in the same order; each is used before the next one is asked for.
    """

    specs: tuple[TensorSpec, ...]
    tensors: Iterable[Tensor]

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Return the stream of tensors that are all there already."""
        in_order = [tensors[name] for name in sorted(tensors)]
        specs = tuple(
            TensorSpec(name=one.name, encoding=one.encoding, shape=one.shape) for one in in_order
        )
        return cls(specs=specs, tensors=in_order)


def write_artifact(
    path: str | os.PathLike[str], parts: ArtifactParts, tensors: TensorStream
) -> None:
    """Write an artifact; the same parts give the same bytes.

    The file gets its name when it is complete and on the disk. An existing one is replaced in one
    step; after an error or an interrupt, nothing new is left behind.

    Args:
        path: The name that the file gets; its folder must be there.
        parts: All but the tensors.
        tensors: The tensors, in ascending order of their names.

    Raises:
        TensorSupplyError: If the tensors are not those announced.
        ArtifactError: If the reader would refuse a part; its own error.
        DiskFullError: If the disk has no room.
        UnwritableFileError: If the system refuses for another reason.
    """
    _require_sorted(tensors.specs)
    contents = _encode_parts(parts)
    offsets, weights_size = _tensor_offsets(tensors.specs)
    sizes = {kind: len(content) for kind, content in contents.items()}
    sizes[SectionType.WEIGHTS] = weights_size
    sizes[SectionType.TENSORS] = manifest_size_bytes(spec.name for spec in tensors.specs)
    places = section_places(sizes)
    with atomic_file(path) as target, BlockWriter(target) as file:
        place_of = {place.type: place for place in places}
        records, weights_digest = _write_tensors(
            file, place_of[SectionType.WEIGHTS], tensors, offsets
        )
        manifest = encode_manifest(records)
        read_manifest(
            memoryview(manifest),
            base_offset_bytes=place_of[SectionType.TENSORS].offset_bytes,
            weights_size_bytes=weights_size,
        )
        contents[SectionType.TENSORS] = manifest
        digests = {SectionType.WEIGHTS: weights_digest}
        for kind, content in contents.items():
            digests[kind] = Sha256(content).digest()
            file.seek(place_of[kind].offset_bytes)
            file.write(content)
        file.seek(0)
        file.write(encode_head(places, digests))


def _encode_parts(parts: ArtifactParts) -> dict[SectionType, bytes]:
    """Encode the small sections, and read them back: what is written must be readable."""
    config = encode_config(
        ConfigSection(
            config=parts.config,
            fraction_bits=parts.fraction_bits,
            arithmetic_version=parts.arithmetic_version,
        )
    )
    decode_config(memoryview(config))
    provenance = encode_provenance(parts.provenance)
    decode_provenance(memoryview(provenance))
    token_count = len(parts.vocabulary.tokens)
    if token_count > parts.config.vocab_size:
        raise ContainerError(
            Status.SECTIONS_DISAGREE,
            place="the tokenizer",
            what="tokens",
            found=token_count,
            expected=parts.config.vocab_size,
        )
    contents = {
        SectionType.CONFIG: config,
        SectionType.PROVENANCE: provenance,
        SectionType.TOKENIZER: encode_vocabulary(parts.vocabulary),
    }
    if parts.golden is not None:
        contents[SectionType.GOLDEN] = encode_golden(parts.golden)
        decode_golden(
            memoryview(contents[SectionType.GOLDEN]), parts.config, token_count=token_count
        )
    if parts.chat_template is not None:
        contents[SectionType.CHAT_TEMPLATE] = parts.chat_template.encode("utf-8")
    return contents


def _require_sorted(specs: tuple[TensorSpec, ...]) -> None:
    names = [spec.name for spec in specs]
    expected = sorted(set(names))
    if names != expected or not names:
        raise TensorSupplyError("at least one, sorted by name, each once", str(names[:8]))


def _tensor_offsets(specs: tuple[TensorSpec, ...]) -> tuple[list[int], int]:
    """Return each tensor's offset in the section of the weights, and the section's size."""
    offsets, end = [], 0
    for spec in specs:
        offsets.append(aligned(end, TENSOR_ALIGNMENT_BYTES))
        end = offsets[-1] + size_bytes(spec.encoding, spec.shape)
    return offsets, end


def _write_tensors(
    file: BlockWriter, place: SectionPlace, stream: TensorStream, offsets: list[int]
) -> tuple[list[TensorRecord], bytes]:
    """Write the weights; return their manifest and the section's SHA-256."""
    digest = Sha256()
    records: list[TensorRecord] = []
    file.seek(place.offset_bytes)
    end = 0
    supply = iter(stream.tensors)
    for spec, offset in zip(stream.specs, offsets, strict=True):
        tensor = _next_announced(spec, supply)
        check_tensor(tensor)
        for part in (bytes(offset - end), tensor.data):
            digest.update(part)
            file.write(part)
        end = offset + tensor.data.nbytes
        records.append(
            TensorRecord(
                name=tensor.name,
                encoding=tensor.encoding,
                shape=tensor.shape,
                exponent=tensor.exponent,
                offset_bytes=offset,
                size_bytes=tensor.data.nbytes,
            )
        )
    for extra in supply:
        raise TensorSupplyError("no further one", repr(extra.name))
    return records, digest.digest()


def _next_announced(spec: TensorSpec, supply: Iterator[Tensor]) -> Tensor:
    tensor = next(supply, None)
    if tensor is None:
        raise TensorSupplyError(repr(spec.name), "no further one")
    found = TensorSpec(name=tensor.name, encoding=tensor.encoding, shape=tensor.shape)
    if found != spec:
        raise TensorSupplyError(str(spec), str(found))
    return tensor
