"""The bounded reader: values, limits, and where it says a defect lies."""

import struct

import pytest

from sslm.errors.status import Status
from sslm.formats.bounded_reader import U8_MAX, U16_MAX, U32_MAX, U64_MAX, BoundedReader
from tests.causes import raises


def reader_of(data: bytes, *, base_offset_bytes: int = 0) -> BoundedReader:
    return BoundedReader(memoryview(data), base_offset_bytes=base_offset_bytes)


def text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def test_unsigned_numbers_are_little_endian() -> None:
    reader = reader_of(bytes.fromhex("01 0203 04050607 08090a0b0c0d0e0f"))
    assert reader.u8("a", at_most=U8_MAX) == 0x01
    assert reader.u16("b", at_most=U16_MAX) == 0x0302
    assert reader.u32("c", at_most=U32_MAX) == 0x07060504
    assert reader.u64("d", at_most=U64_MAX) == 0x0F0E0D0C0B0A0908
    assert (reader.position, reader.remaining_bytes, reader.size_bytes) == (15, 0, 15)


def test_signed_numbers_and_any_number() -> None:
    reader = reader_of(struct.pack("<iqfh", -2, -3, 1.5, -4))
    assert reader.i32("a", at_least=-2, at_most=0) == -2
    assert reader.i64("b", at_least=-3, at_most=0) == -3
    assert reader.number("c", "f") == 1.5
    assert reader.number("d", "h") == -4


def test_a_view_of_another_format_is_read_as_bytes() -> None:
    words = memoryview(struct.pack("=2I", 1, 2)).cast("I")
    assert BoundedReader(words).size_bytes == 8


def test_a_number_over_its_limit_is_named() -> None:
    reader = reader_of(b"\0\0" + struct.pack("<I", 10), base_offset_bytes=100)
    reader.take("start", size_bytes=2)
    with raises(Status.FIELD_TOO_LARGE) as caught:
        reader.u32("row count", at_most=9)
    assert caught.value.args == ("row count", 102, 10, 9)
    assert str(caught.value) == "'row count' at byte 102 is 10, at most 9 is accepted"


def test_a_number_under_its_limit_is_named() -> None:
    with raises(Status.FIELD_TOO_SMALL) as caught:
        reader_of(b"\2").u8("row count", at_least=3, at_most=9)
    assert caught.value.args == ("row count", 0, 2, 3)


@pytest.mark.parametrize("size_bytes", range(8))
def test_a_number_cut_off_is_named(size_bytes: int) -> None:
    with raises(Status.TRUNCATED_FILE) as caught:
        reader_of(bytes(size_bytes)).u64("count", at_most=U64_MAX)
    assert caught.value.args == ("count", 0, 8, size_bytes)


def test_a_count_must_fit_the_bytes_that_are_left() -> None:
    assert reader_of(struct.pack("<Q", 2) + bytes(8)).count_u64(
        "items", at_most=9, item_size_bytes=4
    )
    with raises(Status.TRUNCATED_FILE) as caught:
        reader_of(struct.pack("<Q", 3) + bytes(11)).count_u64("items", at_most=9, item_size_bytes=4)
    assert caught.value.args == ("items", 8, 12, 11)
    with raises(Status.FIELD_TOO_LARGE):
        reader_of(struct.pack("<Q", 10)).count_u64("items", at_most=9, item_size_bytes=4)


def test_spans_are_views_and_do_not_move_the_position() -> None:
    data = bytearray(b"abcdef")
    reader = BoundedReader(memoryview(data))
    span = reader.span("middle", offset_bytes=2, size_bytes=3)
    data[2] = ord("X")
    assert bytes(span) == b"Xde"
    assert reader.position == 0
    assert bytes(reader.span("nothing", offset_bytes=6, size_bytes=0)) == b""


@pytest.mark.parametrize(
    ("offset", "size", "available"), [(6, 1, 0), (0, 7, 6), (1 << 64, 1, 0), (3, 1 << 64, 3)]
)
def test_a_span_past_the_end_is_named(offset: int, size: int, available: int) -> None:
    with raises(Status.TRUNCATED_FILE) as caught:
        reader_of(b"abcdef").span("part", offset_bytes=offset, size_bytes=size)
    assert caught.value.args == ("part", offset, size, available)


def test_a_sub_reader_states_positions_in_the_file() -> None:
    sub = reader_of(b"abcdef", base_offset_bytes=10).sub_reader(
        "part", offset_bytes=2, size_bytes=2
    )
    assert bytes(sub.take("two", size_bytes=2)) == b"cd"
    with raises(Status.TRUNCATED_FILE) as caught:
        sub.u8("more", at_most=U8_MAX)
    assert caught.value.offset_bytes == 14


def test_text() -> None:
    reader = reader_of(text("größer".encode()) + b"ab")
    assert reader.utf8("name", at_most=8) == "größer"
    assert reader.utf8_of("rest", size_bytes=2) == "ab"


def test_text_over_its_limit() -> None:
    with raises(Status.FIELD_TOO_LARGE) as caught:
        reader_of(text(b"abcd")).utf8("name", at_most=3)
    assert caught.value.args == ("length of name", 0, 4, 3)


@pytest.mark.parametrize(("bad", "at"), [(b"a\xff", 1), (b"ab\xc3", 2), (b"\xed\xa0\x80", 0)])
def test_text_that_is_not_utf8(bad: bytes, at: int) -> None:
    with raises(Status.BAD_UTF8) as caught:
        reader_of(text(bad), base_offset_bytes=100).utf8("name", at_most=9)
    assert (caught.value.field, caught.value.offset_bytes) == ("name", 108 + at)


def test_text_arrays_equal_single_reads() -> None:
    words = ["", "a", "größer", "🎈" * 3, "end"]
    data = b"".join(text(word.encode()) for word in words)
    reader = reader_of(data + b"!")
    found = reader.utf8_array("words", count=5, at_most=12, total_at_most=len(data))
    assert found == tuple(words)
    assert reader.remaining_bytes == 1


def test_text_array_defects_are_named_with_the_index() -> None:
    data = text(b"ab") + text(b"cd") + text(b"e\xff")
    with raises(Status.BAD_UTF8) as bad:
        reader_of(data).utf8_array("words", count=3, at_most=9, total_at_most=99)
    assert (bad.value.field, bad.value.offset_bytes) == ("words[2]", 29)
    with raises(Status.FIELD_TOO_LARGE) as long:
        reader_of(data).utf8_array("words", count=2, at_most=1, total_at_most=99)
    assert long.value.args == ("length of words[0]", 0, 2, 1)
    with raises(Status.TRUNCATED_FILE) as short:
        reader_of(data[:-1]).utf8_array("words", count=3, at_most=9, total_at_most=99)
    assert short.value.args == ("words[2]", 28, 2, 1)
    with raises(Status.TRUNCATED_FILE) as no_length:
        reader_of(data[:24]).utf8_array("words", count=3, at_most=9, total_at_most=99)
    assert no_length.value.args == ("length of words[2]", 20, 8, 4)
    with raises(Status.FIELD_TOO_LARGE) as total:
        reader_of(data).utf8_array("words", count=2, at_most=9, total_at_most=19)
    assert total.value.args == ("size of words", 0, 20, 19)


def test_a_text_array_longer_than_the_file_reads_nothing() -> None:
    with raises(Status.TRUNCATED_FILE) as caught:
        reader_of(bytes(16)).utf8_array("words", count=3, at_most=9, total_at_most=99)
    assert caught.value.args == ("words", 0, 24, 16)


def test_seek_and_end() -> None:
    reader = reader_of(b"abc")
    reader.seek("c", offset_bytes=2)
    with raises(Status.TRAILING_BYTES) as caught:
        reader.require_end("table")
    assert caught.value.args == ("table", 2, 1)
    assert bytes(reader.take("c", size_bytes=1)) == b"c"
    reader.require_end("table")
    with raises(Status.TRUNCATED_FILE):
        reader.seek("beyond", offset_bytes=4)


def test_zero_padding() -> None:
    reader = reader_of(b"a\0\0\0b\0\7\0")
    reader.take("a", size_bytes=1)
    reader.zero_padding("gap", alignment_bytes=4)
    reader.zero_padding("nothing", alignment_bytes=4)
    assert reader.position == 4
    reader.take("b", size_bytes=1)
    with raises(Status.NON_ZERO_PADDING) as caught:
        reader.zero_padding("gap", alignment_bytes=4)
    assert caught.value.args == ("gap", 6, 7)


def test_zeros_of_a_span() -> None:
    reader = reader_of(b"a\0\0\0b")
    reader.require_zeros("gap", offset_bytes=1, size_bytes=3)
    assert reader.position == 0
    with raises(Status.NON_ZERO_PADDING) as caught:
        reader.require_zeros("gap", offset_bytes=1, size_bytes=4)
    assert caught.value.args == ("gap", 4, ord("b"))
    with raises(Status.TRUNCATED_FILE):
        reader.require_zeros("gap", offset_bytes=1, size_bytes=5)


def test_alignment() -> None:
    reader = reader_of(bytes(8))
    reader.require_aligned("part", offset_bytes=64, alignment_bytes=32)
    with raises(Status.MISALIGNED_OFFSET) as caught:
        reader.require_aligned("part", offset_bytes=65, alignment_bytes=32)
    assert caught.value.args == ("part", 65, 32)


def test_claims_may_touch_but_not_overlap() -> None:
    reader = reader_of(bytes(100))
    reader.claim("b", offset_bytes=10, size_bytes=10)
    reader.claim("a", offset_bytes=0, size_bytes=10)
    reader.claim("empty", offset_bytes=15, size_bytes=0)
    reader.require_disjoint_claims()
    reader.claim("c", offset_bytes=19, size_bytes=1)
    with raises(Status.OVERLAPPING_BYTES) as caught:
        reader.require_disjoint_claims()
    assert caught.value.args == ("b", "c", 19)


def test_bytes_that_nobody_claims_must_be_zero() -> None:
    data = bytearray(200_000)
    reader = BoundedReader(memoryview(data))
    reader.claim("outer", offset_bytes=10, size_bytes=20)
    data[10:30] = b"x" * 20
    reader.require_zero_unclaimed("gap")
    data[150_000] = 5
    with raises(Status.NON_ZERO_PADDING) as caught:
        reader.require_zero_unclaimed("gap")
    assert caught.value.args == ("gap", 150_000, 5)
