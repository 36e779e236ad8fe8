"""Header, table and identity."""

import hashlib
import struct

from sslm.errors.status import Status
from sslm.formats.sslm.container import (
    RULES,
    SectionType,
    encode_head,
    model_identity,
    read_container,
    section_places,
)
from tests.causes import raises

CONTENTS = {kind: bytes([kind]) * (kind + 1) for kind in SectionType}


def assembled(contents: dict[SectionType, bytes]) -> bytes:
    places = section_places({kind: len(content) for kind, content in contents.items()})
    digests = {kind: hashlib.sha256(content).digest() for kind, content in contents.items()}
    file = bytearray(encode_head(places, digests))
    for place in places:
        file += bytes(place.offset_bytes - len(file)) + contents[place.type]
    return bytes(file)


def test_sections_come_back() -> None:
    file = assembled(CONTENTS)
    sections = read_container(memoryview(file))
    assert {kind: bytes(section.data) for kind, section in sections.items()} == CONTENTS
    assert list(sections) == sorted(CONTENTS)
    for kind, section in sections.items():
        assert section.sha256 == hashlib.sha256(CONTENTS[kind]).digest()
        assert section.place.offset_bytes % RULES[kind].alignment_bytes == 0


def test_numbers_never_change() -> None:
    expected = {
        "CONFIG": 0,
        "PROVENANCE": 1,
        "WEIGHTS": 2,
        "GOLDEN": 11,
        "TENSORS": 16,
        "TOKENIZER": 20,
        "CHAT_TEMPLATE": 21,
        "SCHEMAS": 65,
    }
    assert {kind.name: kind.value for kind in SectionType} == expected


def test_identity_covers_what_can_change_a_token_and_no_more() -> None:
    sections = read_container(memoryview(assembled(CONTENTS)))
    identity = model_identity(sections, 1)
    assert identity != model_identity(sections, 2)
    for kind in CONTENTS:
        contents = CONTENTS | {kind: CONTENTS[kind][:-1] + b"\xaa"}
        other = model_identity(read_container(memoryview(assembled(contents))), 1)
        is_identity = kind not in (SectionType.PROVENANCE, SectionType.GOLDEN, SectionType.SCHEMAS)
        assert (other != identity) is is_identity


def test_long_section_is_hashed_whole() -> None:
    content = b"".join(struct.pack("<I", number) for number in range(50_000))
    file = assembled(CONTENTS | {SectionType.WEIGHTS: content})
    section = read_container(memoryview(file))[SectionType.WEIGHTS]
    assert section.sha256 == hashlib.sha256(content).digest()


def test_sizes_are_bounded_when_writing() -> None:
    with raises(Status.SECTION_EMPTY):
        section_places({SectionType.CONFIG: 0})
    with raises(Status.SECTION_SIZE):
        section_places({SectionType.CONFIG: 1 << 30})
