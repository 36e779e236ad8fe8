"""Records have one spelling, and each defect of it has its own error."""

import hashlib
import struct
from array import array
from dataclasses import replace
from typing import Any

import pytest

from sslm import limits
from sslm.errors.base import ArtifactError
from sslm.errors.records import (
    NotARecordError,
    RecordFeatureError,
    RecordIntegrityError,
    RecordSizeError,
    RecordValueError,
    RecordVersionError,
    SavedBiasOrderError,
    SavedDecoderError,
)
from sslm.errors.status import Status
from sslm.formats.bounded_reader import BoundedReader
from sslm.formats.choice import CHOICE_SIZE_BYTES, DECODERS, encode_choice, read_choice
from sslm.formats.records.reader import read_record
from sslm.formats.records.writer import (
    RecordFinish,
    SavedRecord,
    encode_record,
    record_size_bytes,
)
from sslm.program.choice import Choice, Decoder
from tests.causes import Kind, raises
from tests.records import PLAIN_CHOICE, RECORD, RICH_CHOICE, RICH_RECORD, SCHEMA_RECORD
from tests.saves import reseal_save, resize_save

RECORDS = pytest.mark.parametrize(
    "saved", [RECORD, RICH_RECORD, SCHEMA_RECORD], ids=["plain", "rich", "schema"]
)


@RECORDS
def test_what_is_written_is_read(saved: SavedRecord) -> None:
    assert read_record(encode_record(saved)) == saved


@RECORDS
def test_every_byte_counts(saved: SavedRecord) -> None:
    """Without the hash, a changed byte is refused or read as another record: none is ignored."""
    blob = encode_record(saved)
    for offset in range(len(blob)):
        changed = bytearray(blob)
        changed[offset] ^= 0x10
        sealed = reseal_save(bytes(changed))
        if 32 <= offset < 64:
            assert sealed == blob
            continue
        try:
            found = read_record(sealed)
        except ArtifactError:
            continue
        assert found != saved
        assert encode_record(found) == sealed


@RECORDS
def test_a_change_that_is_not_sealed_is_refused(saved: SavedRecord) -> None:
    blob = encode_record(saved)
    for offset in range(len(blob)):
        changed = bytearray(blob)
        changed[offset] ^= 0x01
        error = RecordIntegrityError if offset >= 32 else ArtifactError
        with raises(error):
            read_record(bytes(changed))


@RECORDS
def test_a_part_is_refused(saved: SavedRecord) -> None:
    blob = encode_record(saved)
    for size in range(len(blob)):
        with raises(NotARecordError, Status.TRUNCATED_FILE, RecordSizeError):
            read_record(blob[:size])
        if size >= 128:
            with raises(Status.TRUNCATED_FILE, Status.TRAILING_BYTES):
                read_record(resize_save(blob[:size]))
    with pytest.raises(RecordSizeError) as caught:
        read_record(blob + b"\0")
    assert (caught.value.stated_bytes, caught.value.found_bytes) == (len(blob), len(blob) + 1)
    with raises(Status.TRAILING_BYTES):
        read_record(resize_save(blob + b"\0"))


def test_the_layout_is_the_documented_one() -> None:
    """A record, byte by byte: a change of the layout is a change of the version."""
    texts = b"".join(struct.pack("<Q", len(text)) + text for text in (b"\n", "né".encode()))
    blank = b"".join(
        [
            b"SSLMRCRD",
            struct.pack("<IIQII", 1, 1, 376, 1, 0),
            bytes(32),
            b"m" * 32,
            b"d" * 32,
            struct.pack("<10I", 3, 2, 64, 5, 0, 2, 1, 2, 2, 3),
            struct.pack("<IIiiIIII", 1, 1_100_000, -500_000, 250_000, 700_000, 40, 950_000, 10_000),
            struct.pack("<QIIII", (7 << 32) + 9, 29_491, 3, 2, 0),
            struct.pack("<4i", 3, -5_000_000, 40, 250_000),
            struct.pack("<2i3i2i", 2, 9, 1, 20, 3, 4, 5),
            bytes(range(64)),
            bytes(range(24)),
            texts,
        ]
    )
    expected = blank[:32] + hashlib.sha256(blank).digest() + blank[64:]
    assert encode_record(RICH_RECORD) == expected


def test_the_layout_of_a_schema_is_the_documented_one() -> None:
    blob, plain = encode_record(SCHEMA_RECORD), encode_record(RECORD)
    assert blob[8:24] == struct.pack("<IIQ", 1, 2, len(plain) + 48 + len("side-1"))
    assert blob[148:152] == struct.pack("<I", 4)
    assert blob[len(plain) :] == b"s" * 32 + struct.pack("<IIQ", 0, 1, 6) + b"side-1"
    assert blob[64:148] == plain[64:148]
    assert blob[152 : len(plain)] == plain[152:]


@RECORDS
def test_the_size_is_known_before(saved: SavedRecord) -> None:
    texts = sum(8 + len(text.encode()) for text in saved.stop)
    options = 8 * len(saved.choice.bias) + 4 * len(saved.stop_token_ids) + texts
    options += saved.schema.size_bytes if saved.schema else 0
    size = record_size_bytes(
        len(saved.prompt_ids), len(saved.token_ids), saved.segment_count, options
    )
    assert size == len(encode_record(saved))


@pytest.mark.parametrize(
    ("offset", "content", "error"),
    [
        (0, b"SSLMSAVE", NotARecordError),
        (8, struct.pack("<I", 2), RecordVersionError),
        (12, struct.pack("<I", 4), RecordFeatureError),
        (16, struct.pack("<Q", 1 << 63), RecordSizeError),
        (28, b"\1", Status.NON_ZERO_PADDING),
        (128, struct.pack("<I", 0), Status.FIELD_TOO_SMALL),
        (132, struct.pack("<I", 0), Status.FIELD_TOO_SMALL),
        (132, struct.pack("<I", limits.CONTEXT_TOKENS_MAX), Status.TRUNCATED_FILE),
        (136, struct.pack("<I", 4), RecordValueError),
        (140, struct.pack("<I", 1), RecordValueError),
        (144, struct.pack("<I", 2), Status.FIELD_TOO_LARGE),
        (148, struct.pack("<I", 3), RecordValueError),
        (148, struct.pack("<I", 5), Status.FIELD_TOO_LARGE),
        (152, struct.pack("<I", 2), RecordValueError),
        (156, struct.pack("<I", limits.VOCAB_SIZE_MAX + 1), Status.FIELD_TOO_LARGE),
        (160, struct.pack("<I", limits.STOP_COUNT_MAX + 1), Status.FIELD_TOO_LARGE),
        (164, struct.pack("<I", 0), Status.FIELD_TOO_SMALL),
        (168, struct.pack("<I", len(DECODERS)), SavedDecoderError),
        (172, struct.pack("<I", 0), Status.FIELD_TOO_SMALL),
        (184, struct.pack("<I", 0), Status.FIELD_TOO_SMALL),
        (192, struct.pack("<I", 1_000_001), Status.FIELD_TOO_LARGE),
        (212, struct.pack("<I", 0), Status.FIELD_TOO_SMALL),
        (220, b"\1", Status.FIELD_TOO_LARGE),
        (224, struct.pack("<i", -1), Status.FIELD_TOO_SMALL),
        (232, struct.pack("<i", 3), SavedBiasOrderError),
        (240, struct.pack("<i", 9), RecordValueError),
        (248, struct.pack("<i", -1), RecordValueError),
        (260, struct.pack("<i", -2), RecordValueError),
        (356, struct.pack("<Q", 4097), Status.FIELD_TOO_LARGE),
        (356, struct.pack("<Q", 0), RecordValueError),
        (364, b"\xff", Status.BAD_UTF8),
    ],
)
def test_a_defect_has_its_error(offset: int, content: bytes, error: Kind) -> None:
    blob = bytearray(encode_record(RICH_RECORD))
    blob[offset : offset + len(content)] = content
    with raises(error):
        read_record(reseal_save(bytes(blob)))


@pytest.mark.parametrize(
    ("offset", "content", "error"),
    [
        (-22, struct.pack("<I", 2), Status.FIELD_TOO_LARGE),
        (-18, struct.pack("<I", 2), Status.FIELD_TOO_LARGE),
        (-18, struct.pack("<I", 0), RecordValueError),
        (-14, struct.pack("<Q", 5), Status.TRAILING_BYTES),
        (-14, struct.pack("<Q", 7), Status.TRUNCATED_FILE),
        (-14, struct.pack("<Q", 1 << 40), Status.FIELD_TOO_LARGE),
        (-6, b" ", RecordValueError),
        (-6, b"\xff", Status.BAD_UTF8),
    ],
)
def test_a_defect_of_a_schema_has_its_error(offset: int, content: bytes, error: Kind) -> None:
    blob = bytearray(encode_record(SCHEMA_RECORD))
    blob[len(blob) + offset : len(blob) + offset + len(content)] = content
    with raises(error):
        read_record(reseal_save(bytes(blob)))


def test_features_are_named() -> None:
    blob = bytearray(encode_record(RECORD))
    blob[12] = 2 + 4 + 8
    with pytest.raises(RecordFeatureError, match="has adapter, feature 3,"):
        read_record(reseal_save(bytes(blob)))


def test_digests_of_segments_need_their_feature() -> None:
    blob = bytearray(encode_record(RECORD))
    blob[164] = 1
    with raises(Status.FIELD_TOO_LARGE):
        read_record(reseal_save(bytes(blob)))


def test_no_larger_record_is_written_than_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(encode_record(RECORD))
    monkeypatch.setattr(limits, "RECORD_SIZE_BYTES_MAX", size - 1)
    with pytest.raises(RecordValueError, match=f"{size} bytes"):
        encode_record(RECORD)


@pytest.mark.parametrize(
    "change",
    [
        {"links": bytes(159)},
        {"digest": bytes(31)},
        {"model_id": bytes(33)},
        {"segment_count": 1},
        {"max_tokens": 4},
        {"context_tokens": 7},
        {"token_ids": array("i"), "links": b""},
        {"stop_index": 1},
        {"finish": RecordFinish.SCHEMA},
        {"finish": RecordFinish.DEAD_END},
    ],
    ids=lambda change: next(iter(change)),
)
def test_parts_that_do_not_belong_together(change: dict[str, object]) -> None:
    with pytest.raises(RecordValueError):
        replace(RECORD, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [{"digest": bytes(31)}, {"name": ""}, {"name": "a b"}, {"name": "a" * 65}],
    ids=repr,
)
def test_what_no_recorded_schema_can_be(change: dict[str, Any]) -> None:
    assert SCHEMA_RECORD.schema is not None
    with pytest.raises(RecordValueError):
        replace(SCHEMA_RECORD.schema, **change)
    ended = replace(SCHEMA_RECORD.schema, allows_ends=True)
    with pytest.raises(RecordValueError, match="a dead end"):
        replace(SCHEMA_RECORD, schema=ended)


@pytest.mark.parametrize("saved", [PLAIN_CHOICE, RICH_CHOICE], ids=["plain", "rich"])
def test_a_choice_is_read_as_written(saved: object) -> None:
    blob = b"".join(encode_choice(saved))  # type: ignore[arg-type]
    assert len(blob) == CHOICE_SIZE_BYTES + 8 * len(saved.bias)  # type: ignore[attr-defined]
    assert read_choice(BoundedReader(memoryview(blob))) == saved


def test_a_saved_choice_has_the_fields_of_a_choice() -> None:
    assert set(PLAIN_CHOICE.__slots__) == set(Choice.__slots__)
    assert [Decoder[name.upper()] for name in DECODERS] == list(Decoder)
    default = Choice()
    assert all(getattr(PLAIN_CHOICE, name) == getattr(default, name) for name in Choice.__slots__)
