"""Saved sequences have one spelling, and each defect of it has its own error."""

import hashlib
import struct
from array import array
from dataclasses import replace

import pytest

from sslm import limits
from sslm.errors.base import ArtifactError
from sslm.errors.records import SavedBiasOrderError, SavedDecoderError
from sslm.errors.saves import (
    NotASaveError,
    SaveFeatureError,
    SaveIntegrityError,
    SavePartSizeError,
    SaveSizeError,
    SaveStateKindError,
    SaveVersionError,
)
from sslm.errors.status import Status
from sslm.formats.choice import encode_choice
from sslm.formats.saves.contents import SavedSequence
from sslm.formats.saves.reader import read_save
from sslm.formats.saves.writer import encode_save
from tests.causes import Kind, kind_of, raises
from tests.saves import (
    CHOICE,
    CHOSEN,
    CHOSEN_IDS_ONLY,
    FOLLOW_IDS,
    FOLLOWING,
    IDS_ONLY,
    MEMORY,
    MID_CHUNK,
    SAVED,
    reseal_save,
)

EMPTY = replace(
    SAVED,
    memory=replace(
        MEMORY,
        token_ids=array("i"),
        selected=None,
        last_residual=b"",
        pages=(),
        states=(),
        fixed=b"",
    ),
)

RECORDS = pytest.mark.parametrize(
    "saved",
    [SAVED, MID_CHUNK, IDS_ONLY, EMPTY, CHOSEN, CHOSEN_IDS_ONLY, FOLLOWING, FOLLOW_IDS],
    ids=["rest", "chunk", "ids", "empty", "chosen", "chosen ids", "following", "follow ids"],
)


@RECORDS
def test_what_is_written_is_read(saved: SavedSequence) -> None:
    assert read_save(encode_save(saved)) == saved


@RECORDS
def test_every_byte_counts(saved: SavedSequence) -> None:
    """Without the hash, a changed byte is refused or read as another record: none is ignored."""
    blob = encode_save(saved)
    for offset in range(len(blob)):
        changed = bytearray(blob)
        changed[offset] ^= 0x10
        sealed = reseal_save(bytes(changed))
        if 32 <= offset < 64:
            assert sealed == blob
            continue
        try:
            found = read_save(sealed)
        except ArtifactError:
            continue
        assert found != saved
        assert encode_save(found) == sealed


@RECORDS
def test_a_change_that_is_not_sealed_is_refused(saved: SavedSequence) -> None:
    blob = encode_save(saved)
    for offset in range(len(blob)):
        changed = bytearray(blob)
        changed[offset] ^= 0x01
        with pytest.raises(ArtifactError):
            read_save(bytes(changed))


@RECORDS
def test_a_part_is_refused(saved: SavedSequence) -> None:
    blob = encode_save(saved)
    for size in range(len(blob)):
        with raises(NotASaveError, Status.TRUNCATED_FILE, SaveSizeError):
            read_save(blob[:size])
    with pytest.raises(SaveSizeError) as caught:
        read_save(blob + b"\0")
    assert (caught.value.stated_bytes, caught.value.found_bytes) == (len(blob), len(blob) + 1)


def test_the_layout_is_the_documented_one() -> None:
    """A save of ids, byte by byte: a change of the layout is a change of the version."""
    blank = b"".join(
        [
            b"SSLMSAVE",
            struct.pack("<IIQII", 1, 0, 164, 1, 0),
            bytes(32),
            b"m" * 32,
            bytes(32),
            struct.pack("<IIIIQ", 0, 0, 3, 0, 3),
            struct.pack("<3i", 1, 2, 3),
        ]
    )
    expected = blank[:32] + hashlib.sha256(blank).digest() + blank[64:]
    assert encode_save(IDS_ONLY) == expected


def test_the_layout_of_memory_is_the_documented_one() -> None:
    blob = encode_save(MID_CHUNK)
    assert struct.unpack_from("<IIIIQ", blob, 128) == (65, 2, 2, 0, 3)
    assert struct.unpack_from("<iIIIQQ6Q", blob, 152) == (-2, 3, 1, 0, 8, 2, 1, 2, 3, 4, 5, 6)
    assert blob[232:264] == MEMORY.link
    assert struct.unpack_from("<IIQQQQQ", blob, 264) == (3, 0, 24, 64, 20, 128, 9)
    assert struct.unpack_from("<12I", blob, 312) == (1, 1, 2, 3, 2, 1, 2, 3, 3, 2, 1, 5)
    assert struct.unpack_from("<69i", blob, 360) == (*range(65), 5, 6, 9, 8)
    # 360 + 276 = 636, and each part begins at the next multiple of 64.
    assert blob[636:704] == bytes(4) + b"r" * 24 + bytes(40)
    assert blob[704:788] == b"d" * 64 + b"f" * 20
    assert blob[788:] == bytes(44) + b"p" * 128 + b"t" * 9


def test_the_layout_of_a_choice_is_the_documented_one() -> None:
    blob, without = encode_save(CHOSEN_IDS_ONLY), encode_save(IDS_ONLY)
    assert struct.unpack_from("<I", blob, 12) == (4,)
    choice = b"".join(encode_choice(CHOICE))
    assert blob[152:] == struct.pack("<II", 60, 0) + choice + without[152:]
    # What follows is where it would be without, but for what is aligned.
    long, short = encode_save(CHOSEN), encode_save(SAVED)
    assert struct.unpack_from("<I", long, 12) == (5,)
    assert long[160 + len(choice) :][:160] == short[152:312]


def _changed(saved: SavedSequence, layout: str, offset: int, value: int) -> bytes:
    blob = bytearray(encode_save(saved))
    struct.pack_into(layout, blob, offset, value)
    return reseal_save(bytes(blob))


@pytest.mark.parametrize(
    ("saved", "layout", "offset", "value", "kind"),
    [
        pytest.param(SAVED, "<B", 0, 0x73, NotASaveError, id="magic"),
        pytest.param(SAVED, "<I", 8, 2, SaveVersionError, id="version"),
        pytest.param(SAVED, "<Q", 16, 1, SaveSizeError, id="size"),
        pytest.param(SAVED, "<I", 28, 1, Status.NON_ZERO_PADDING, id="reserved of the header"),
        pytest.param(IDS_ONLY, "<I", 128, 1, Status.FIELD_TOO_LARGE, id="computed without memory"),
        pytest.param(
            IDS_ONLY, "<I", 132, 1, Status.FIELD_TOO_LARGE, id="in progress without memory"
        ),
        pytest.param(SAVED, "<I", 128, (1 << 20) + 1, Status.FIELD_TOO_LARGE, id="too many tokens"),
        pytest.param(SAVED, "<I", 132, 65, Status.FIELD_TOO_LARGE, id="too many rows"),
        pytest.param(SAVED, "<I", 140, 1, Status.NON_ZERO_PADDING, id="reserved of the counts"),
        pytest.param(SAVED, "<Q", 144, (1 << 62) + 1, Status.FIELD_TOO_LARGE, id="forced tokens"),
        pytest.param(SAVED, "<i", 152, -4, Status.FIELD_TOO_SMALL, id="chosen token"),
        pytest.param(SAVED, "<I", 156, 1, Status.FIELD_TOO_LARGE, id="segment without a chunk"),
        pytest.param(SAVED, "<I", 160, 1, Status.FIELD_TOO_LARGE, id="scored row without a chunk"),
        pytest.param(
            MID_CHUNK, "<I", 156, 0, Status.FIELD_TOO_SMALL, id="chunk before its beginning"
        ),
        pytest.param(
            MID_CHUNK, "<I", 160, 3, Status.FIELD_TOO_LARGE, id="scored row past the chunk"
        ),
        pytest.param(MID_CHUNK, "<I", 164, 1, Status.NON_ZERO_PADDING, id="reserved of the chunk"),
        pytest.param(SAVED, "<Q", 184, (1 << 62) + 1, Status.FIELD_TOO_LARGE, id="saturations"),
        pytest.param(SAVED, "<I", 264, 4097, Status.FIELD_TOO_LARGE, id="too many states"),
        pytest.param(SAVED, "<I", 268, 1, Status.NON_ZERO_PADDING, id="reserved of the states"),
        pytest.param(SAVED, "<Q", 272, 1 << 40, Status.TRUNCATED_FILE, id="residual past the end"),
        pytest.param(SAVED, "<I", 312, 4, SaveStateKindError, id="kind of state"),
        pytest.param(SAVED, "<B", 625, 1, Status.NON_ZERO_PADDING, id="padding"),
        pytest.param(
            CHOSEN, "<I", 152, (1 << 20) + 1, Status.FIELD_TOO_LARGE, id="answer past all"
        ),
        pytest.param(CHOSEN, "<I", 156, 1, Status.NON_ZERO_PADDING, id="reserved of the answer"),
        pytest.param(FOLLOW_IDS, "<I", 192, (1 << 20) + 1, Status.FIELD_TOO_LARGE, id="content"),
        pytest.param(FOLLOW_IDS, "<I", 196, 1, Status.NON_ZERO_PADDING, id="schema's zeros"),
        pytest.param(CHOSEN, "<I", 160, 3, SavedDecoderError, id="decoder"),
        pytest.param(CHOSEN, "<I", 212, 1, Status.FIELD_TOO_LARGE, id="reserved of the biases"),
        pytest.param(CHOSEN, "<i", 224, 3, SavedBiasOrderError, id="order of biases"),
        pytest.param(SAVED, "<Q", 304, 8, Status.TRAILING_BYTES, id="a shorter tail"),
        pytest.param(SAVED, "<Q", 304, 10, Status.TRUNCATED_FILE, id="a longer tail"),
    ],
)
def test_a_defect_is_named(
    saved: SavedSequence, layout: str, offset: int, value: int, kind: Kind
) -> None:
    with pytest.raises(ArtifactError) as caught:
        read_save(_changed(saved, layout, offset, value))
    assert kind_of(caught.value) is kind


def test_damage_is_told_from_change() -> None:
    blob = bytearray(encode_save(SAVED))
    blob[-1] ^= 1
    with pytest.raises(SaveIntegrityError):
        read_save(bytes(blob))


def test_unknown_features_are_refused_by_name() -> None:
    with pytest.raises(SaveFeatureError) as caught:
        read_save(_changed(SAVED, "<I", 12, 1 | 2 | 4 | 8 | 1 << 31))
    assert caught.value.names == "adapter state, feature 31"


def test_digests_without_a_chunk_are_refused() -> None:
    blob = encode_save(MID_CHUNK)
    # The rows become pending ones: the same bytes otherwise.
    changed = bytearray(blob)
    struct.pack_into("<II", changed, 132, 0, 4)
    struct.pack_into("<III", changed, 156, 0, 0, 0)
    with pytest.raises(SavePartSizeError) as caught:
        read_save(reseal_save(bytes(changed)))
    assert (caught.value.part, caught.value.found_bytes) == ("digests", 64)


def test_nothing_is_allocated_for_what_is_not_there() -> None:
    """2**20 tokens are announced by a save of 164 bytes."""
    with raises(Status.TRUNCATED_FILE):
        read_save(_changed(IDS_ONLY, "<I", 136, limits.CONTEXT_TOKENS_MAX))


def test_a_record_is_whole() -> None:
    with pytest.raises(SavePartSizeError):
        replace(SAVED, model_id=b"m" * 31)
    with pytest.raises(SavePartSizeError):
        replace(SAVED, adapter=b"")
    with pytest.raises(SavePartSizeError):
        replace(MEMORY, link=b"")
    with pytest.raises(SavePartSizeError):
        replace(MEMORY, saturations=(0,) * 5)
    with pytest.raises(SavePartSizeError):
        replace(MEMORY, pages=(b"",))
