"""The outer form of ``.sslm`` files: header, section table, hash; see docs/format.md, 1 to 3."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from sslm import limits
from sslm.errors.artifact import ContainerError
from sslm.errors.reading import FieldError
from sslm.errors.status import Status
from sslm.formats.bounded_reader import U32_MAX, U64_MAX, BoundedReader
from sslm.hashes import Sha256, sha256_of

MAGIC: Final = b"SSLM"
_CONVERTED: Final = ("no .sslm file", "convert other model files with `sslm convert`")
_SAVES: Final = {
    b"SSLMCHAT": ("a saved session", "open its model, and pass the bytes to restore_session"),
    b"SSLMSAVE": ("a saved sequence", "open its model, and restore the bytes with that"),
    b"SSLMSCHM": ("a compiled schema", "put it into a model file with `sslm schema add`"),
}
"""What else begins with these letters, and what is to be done with it."""
FORMAT_VERSION: Final = 16
HEADER_SIZE_BYTES: Final = 64
ROW_SIZE_BYTES: Final = 40
HASH_OFFSET_BYTES: Final = 32
HASH_SIZE_BYTES: Final = 32
DTYPE_RAW: Final = 0
"""The one element type in use: bytes, whose structure the section's own chapter gives."""

_HEADER: Final = struct.Struct("<4sIIIIIQ32s")
_ROW: Final = struct.Struct("<IIQQQII")


class SectionType(IntEnum):
    """What a section holds. The numbers follow the published container where it has the thing."""

    CONFIG = 0
    PROVENANCE = 1
    WEIGHTS = 2
    GOLDEN = 11
    TENSORS = 16
    TOKENIZER = 20
    CHAT_TEMPLATE = 21
    SCHEMAS = 65


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRule:
    """What the format fixes for one type of section.

    Args:
        alignment_bytes: Of its first byte in the file.
        size_bytes_max: Largest size accepted.
        is_required: Whether every file has it.
        is_identity: Whether its bytes can change a token, and so belong to the model's identity.
    """

    alignment_bytes: int
    size_bytes_max: int
    is_required: bool
    is_identity: bool


def _rule(size_bytes_max: int, required: bool, identity: bool, alignment: int = 64) -> SectionRule:
    return SectionRule(
        alignment_bytes=alignment,
        size_bytes_max=size_bytes_max,
        is_required=required,
        is_identity=identity,
    )


_MANIFEST_SIZE_BYTES_MAX: Final = 8 + limits.SSLM_TENSOR_COUNT_MAX * (
    48 + limits.SSLM_TENSOR_NAME_SIZE_BYTES_MAX
)

RULES: Final[Mapping[SectionType, SectionRule]] = MappingProxyType(
    {
        SectionType.CONFIG: _rule(limits.SSLM_CONFIG_SIZE_BYTES_MAX, True, True),
        SectionType.PROVENANCE: _rule(limits.SSLM_PROVENANCE_SIZE_BYTES_MAX, True, False),
        SectionType.WEIGHTS: _rule(U64_MAX, True, True, alignment=4096),
        SectionType.GOLDEN: _rule(limits.SSLM_GOLDEN_SIZE_BYTES_MAX, False, False),
        SectionType.TENSORS: _rule(_MANIFEST_SIZE_BYTES_MAX, True, True),
        SectionType.TOKENIZER: _rule(limits.SSLM_TOKENIZER_SIZE_BYTES_MAX, True, True),
        SectionType.CHAT_TEMPLATE: _rule(limits.SSLM_TEMPLATE_SIZE_BYTES_MAX, False, True),
        SectionType.SCHEMAS: _rule(limits.SSLM_SCHEMAS_SIZE_BYTES_MAX, False, False),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionPlace:
    """Where a section lies in its file."""

    type: SectionType
    offset_bytes: int
    size_bytes: int

    @property
    def end_bytes(self) -> int:
        """The byte after the last one."""
        return self.offset_bytes + self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Section:
    """One section: its bytes, unchecked inside, and their SHA-256."""

    place: SectionPlace
    data: memoryview
    sha256: bytes


def aligned(offset_bytes: int, alignment_bytes: int) -> int:
    """Round *offset_bytes* up to a multiple of *alignment_bytes*."""
    return -(-offset_bytes // alignment_bytes) * alignment_bytes


def section_places(sizes_bytes: Mapping[SectionType, int]) -> tuple[SectionPlace, ...]:
    """Place sections of the given sizes: ascending types, each at its first aligned byte.

    Raises:
        ContainerError: If a size is 0.
        ContainerError: If a size is above the limit for its type.
    """
    end = HEADER_SIZE_BYTES + ROW_SIZE_BYTES * len(sizes_bytes)
    places = []
    for kind in sorted(sizes_bytes):
        _require_size(kind, sizes_bytes[kind])
        start = aligned(end, RULES[kind].alignment_bytes)
        places.append(
            SectionPlace(type=kind, offset_bytes=start, size_bytes=sizes_bytes[kind]),
        )
        end = places[-1].end_bytes
    return tuple(places)


def encode_head(places: tuple[SectionPlace, ...], digests: Mapping[SectionType, bytes]) -> bytes:
    """Return header and section table for sections with the given SHA-256 digests."""
    table = b"".join(
        _ROW.pack(
            place.type,
            DTYPE_RAW,
            place.offset_bytes,
            place.size_bytes,
            place.size_bytes,
            RULES[place.type].alignment_bytes,
            0,
        )
        for place in places
    )
    header = _header(len(places), places[-1].end_bytes, bytes(HASH_SIZE_BYTES))
    content = _content_hash(header + table, [digests[place.type] for place in places])
    return _header(len(places), places[-1].end_bytes, content) + table


def read_container(view: memoryview) -> Mapping[SectionType, Section]:
    """Check everything about a file but the inside of its sections, and return these.

    Args:
        view: The whole file.

    Returns:
        The sections by type, in the file's order. Their bytes are views, not copies.

    Raises:
        ArtifactError: One class per defect; see ``sslm.errors.artifact`` and
            ``sslm.errors.reading``. The hash is compared last, once the sections are known.
    """
    reader = BoundedReader(view)
    section_count, stated_hash = _read_header(reader)
    places = _read_table(reader, section_count)
    for kind, rule in RULES.items():
        if rule.is_required and all(place.type is not kind for place in places):
            raise ContainerError(Status.SECTION_MISSING, section=kind.name)
    sections = {}
    for place in places:
        data = reader.claim(
            place.type.name, offset_bytes=place.offset_bytes, size_bytes=place.size_bytes
        )
        sections[place.type] = Section(place=place, data=data, sha256=sha256_of([data]))
    head_size = HEADER_SIZE_BYTES + ROW_SIZE_BYTES * section_count
    head = bytearray(reader.claim("header and table", offset_bytes=0, size_bytes=head_size))
    head[HASH_OFFSET_BYTES:HEADER_SIZE_BYTES] = bytes(HASH_SIZE_BYTES)
    found_hash = _content_hash(head, [section.sha256 for section in sections.values()])
    if found_hash != stated_hash:
        raise ContainerError(
            Status.SSLM_INTEGRITY, found=found_hash.hex(), stated=stated_hash.hex()
        )
    reader.require_zero_unclaimed("between sections")
    return MappingProxyType(sections)


def model_identity(sections: Mapping[SectionType, Section], arithmetic_version: int) -> bytes:
    """Return the 32-byte name of what can change a token; see docs/format.md, "model_id"."""
    digest = Sha256(b"sslm model\0" + struct.pack("<I", arithmetic_version))
    for kind in sorted(sections):
        if RULES[kind].is_identity:
            section = sections[kind]
            digest.update(struct.pack("<IQ", kind, section.place.size_bytes) + section.sha256)
    return digest.digest()


def _header(section_count: int, file_size_bytes: int, content_hash: bytes) -> bytes:
    return _HEADER.pack(
        MAGIC,
        FORMAT_VERSION,
        HEADER_SIZE_BYTES,
        section_count,
        0,
        0,
        file_size_bytes,
        content_hash,
    )


def _content_hash(head: bytes | bytearray, section_digests: list[bytes]) -> bytes:
    return Sha256(bytes(head) + b"".join(section_digests)).digest()


def _read_header(reader: BoundedReader) -> tuple[int, bytes]:
    """Return the section count and the stated hash; leave the reader at the table."""
    magic = bytes(reader.take("magic", size_bytes=min(4, reader.size_bytes)))
    if magic != MAGIC:
        raise _not_a_model(magic, *_CONVERTED)
    version = reader.u32("format version", at_most=U32_MAX)
    start = magic + version.to_bytes(4, "little")
    if start in _SAVES:
        raise _not_a_model(start, *_SAVES[start])
    if version != FORMAT_VERSION:
        raise ContainerError(Status.SSLM_VERSION, found=version, expected=FORMAT_VERSION)
    header_size = reader.u32("header size", at_most=U32_MAX)
    if header_size != HEADER_SIZE_BYTES:
        raise ContainerError(Status.SSLM_HEADER_SIZE, found=header_size, expected=HEADER_SIZE_BYTES)
    section_count = reader.u32("section count", at_most=limits.SSLM_SECTION_COUNT_MAX, at_least=1)
    flags = reader.u32("flags", at_most=U32_MAX)
    if flags:
        raise ContainerError(Status.SSLM_FLAGS, found=flags)
    _require_reserved(reader, "reserved field of the header", reader.position)
    file_size = reader.u64("file size", at_most=U64_MAX)
    if file_size != reader.size_bytes:
        raise ContainerError(
            Status.SSLM_FILE_SIZE, stated_bytes=file_size, found_bytes=reader.size_bytes
        )
    return section_count, bytes(reader.take("hash", size_bytes=HASH_SIZE_BYTES))


def _not_a_model(found: bytes, looks_like: str, remedy: str) -> ContainerError:
    return ContainerError(Status.SSLM_MAGIC, found=found, looks_like=looks_like, remedy=remedy)


def _read_table(reader: BoundedReader, section_count: int) -> list[SectionPlace]:
    rows = reader.take("section table", size_bytes=ROW_SIZE_BYTES * section_count)
    file_size = reader.size_bytes
    end, owner = reader.position, "the section table"
    places: list[SectionPlace] = []
    for index in range(section_count):
        row = BoundedReader(
            rows[ROW_SIZE_BYTES * index : ROW_SIZE_BYTES * (index + 1)],
            base_offset_bytes=HEADER_SIZE_BYTES + ROW_SIZE_BYTES * index,
        )
        place = _read_row(row, index)
        _check_order(places, place, index)
        expected = aligned(end, RULES[place.type].alignment_bytes)
        name = place.type.name
        if place.offset_bytes < end:
            raise ContainerError(
                Status.SECTION_OVERLAP,
                section=name,
                offset_bytes=place.offset_bytes,
                previous=owner,
                end_bytes=end,
            )
        if place.offset_bytes != expected:
            raise ContainerError(
                Status.SECTION_GAP,
                section=name,
                offset_bytes=place.offset_bytes,
                expected_bytes=expected,
            )
        if place.end_bytes > file_size:
            raise ContainerError(
                Status.SECTION_BOUNDS,
                section=name,
                offset_bytes=place.offset_bytes,
                size_bytes=place.size_bytes,
                file_bytes=file_size,
            )
        places.append(place)
        end, owner = place.end_bytes, name
    if end != file_size:
        raise FieldError(
            Status.TRAILING_BYTES,
            field="the last section",
            offset_bytes=end,
            extra_bytes=file_size - end,
        )
    return places


def _read_row(row: BoundedReader, index: int) -> SectionPlace:
    number = row.u32("section type", at_most=U32_MAX)
    if number not in SectionType.__members__.values():
        raise ContainerError(Status.SECTION_TYPE, index=index, found=number)
    kind = SectionType(number)
    rule = RULES[kind]
    dtype = row.u32("element type", at_most=U32_MAX)
    if dtype != DTYPE_RAW:
        raise ContainerError(
            Status.SECTION_DTYPE, section=kind.name, found=dtype, expected=DTYPE_RAW
        )
    offset = row.u64("section offset", at_most=U64_MAX)
    size = row.u64("section size", at_most=U64_MAX)
    _require_size(kind, size)
    element_count = row.u64("element count", at_most=U64_MAX)
    if element_count != size:
        raise ContainerError(
            Status.SECTION_ELEMENT_COUNT, section=kind.name, found=element_count, size_bytes=size
        )
    alignment = row.u32("section alignment", at_most=U32_MAX)
    if alignment != rule.alignment_bytes:
        raise ContainerError(
            Status.SECTION_ALIGNMENT,
            section=kind.name,
            found=alignment,
            expected=rule.alignment_bytes,
        )
    if offset % alignment:
        raise FieldError(
            Status.MISALIGNED_OFFSET,
            field=kind.name,
            offset_bytes=offset,
            alignment_bytes=alignment,
        )
    reserved_offset = HEADER_SIZE_BYTES + ROW_SIZE_BYTES * index + row.position
    _require_reserved(row, "reserved field of a section", reserved_offset)
    return SectionPlace(type=kind, offset_bytes=offset, size_bytes=size)


def _require_size(kind: SectionType, size_bytes: int) -> None:
    if size_bytes == 0:
        raise ContainerError(Status.SECTION_EMPTY, section=kind.name)
    if size_bytes > RULES[kind].size_bytes_max:
        raise ContainerError(
            Status.SECTION_SIZE,
            section=kind.name,
            size_bytes=size_bytes,
            at_most=RULES[kind].size_bytes_max,
        )


def _check_order(places: list[SectionPlace], place: SectionPlace, index: int) -> None:
    if any(place.type is other.type for other in places):
        raise ContainerError(Status.SECTION_DUPLICATE, index=index, section=place.type.name)
    if places and place.type < places[-1].type:
        raise ContainerError(
            Status.SECTION_ORDER,
            index=index,
            section=place.type.name,
            previous=places[-1].type.name,
        )


def _require_reserved(reader: BoundedReader, name: str, offset_bytes: int) -> None:
    value = reader.u32(name, at_most=U32_MAX)
    if value:
        raise ContainerError(
            Status.SSLM_RESERVED, field=name, offset_bytes=offset_bytes, found=value
        )
