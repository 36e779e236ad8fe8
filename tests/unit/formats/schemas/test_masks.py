"""Masks of compiled schemas: one spelling each, and nothing else is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm.errors.schema_files import SchemaMaskError, SchemaNumbersError
from sslm.formats.schemas.masks import encode_masks, mask_order, mask_size_bytes, read_masks
from sslm.formats.whole_numbers import NumberSource, encode_numbers, read_numbers

VOCAB_SIZE = 70
U32_MAX = (1 << 32) - 1


def mask(*ids: int) -> bytes:
    return sum(1 << one for one in ids).to_bytes(mask_size_bytes(VOCAB_SIZE), "little")


def decoded(data: bytes, count: int) -> tuple[bytes, ...]:
    return read_masks(memoryview(data), count=count, vocab_size=VOCAB_SIZE)


@given(st.sets(st.frozensets(st.integers(0, VOCAB_SIZE - 1)), max_size=12))
def test_masks_come_back(sets: set[frozenset[int]]) -> None:
    masks = tuple(sorted((mask(*ids) for ids in sets), key=mask_order))
    data = encode_masks(masks)
    assert decoded(data, len(masks)) == masks
    assert len(data) <= len(masks) * (1 + mask_size_bytes(VOCAB_SIZE))


def test_spelling() -> None:
    many = mask(*range(0, 70, 2))
    masks = (many, mask(*range(0, 66, 2)), mask(3, 69), mask())
    expected = b"\0" + many + bytes([2, 2, 66, 1]) + bytes([1, 2, 3, 65]) + bytes([1, 0])
    assert encode_masks(masks) == expected
    assert decoded(expected, 4) == masks


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (bytes([1, 1, 3]), 2),  # One is missing.
        (bytes([1, 1, 3, 1, 0, 0]), 2),  # A byte is left.
        (bytes([1, 1, 3, 1, 2, 3, 4]), 2),  # The larger one comes last.
        (bytes([1, 1, 3, 1, 1, 3]), 2),  # Twice the same.
        (bytes([3, 1, 3]), 1),  # No form.
        (bytes([2, 1, 3]), 1),  # Differences from nothing are its ids.
        (bytes([1, 1, 70]), 1),  # Beyond the vocabulary.
        (bytes([1, 2, 69, 0]), 1),
        (b"\0" + bytes(8) + bytes([64]), 1),  # An id beyond the vocabulary, 70.
        (b"\0" + mask(3), 1),  # Its ids are shorter.
        (b"\0" + bytes(11), 1),  # Cut.
        (bytes([1, 2, 3]), 1),
        (bytes([1, 1, 0x83, 0]), 1),  # 3, spelled with a digit too many.
        (bytes([1, 1, 0x83]), 1),
        (bytes([1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]), 1),
        (bytes([1, 12]) + bytes([5] + [0] * 11), 1),  # As it is would be as short.
    ],
)
def test_other_spellings_are_refused(data: bytes, count: int) -> None:
    with pytest.raises(SchemaMaskError):
        decoded(data, count)


@given(st.lists(st.integers(0, U32_MAX) | st.integers(0, 300)))
def test_numbers_come_back(numbers: list[int]) -> None:
    assert read_numbers("part", memoryview(encode_numbers(numbers))) == numbers


def test_numbers_have_one_spelling() -> None:
    assert encode_numbers([0, 127, 128, 300, U32_MAX]) == bytes.fromhex("007f8001ac02ffffffff0f")
    for data in ("8000", "80", "ff808000", "8080808010", "ffffffffff01"):
        with pytest.raises(SchemaNumbersError):
            read_numbers("part", memoryview(bytes.fromhex(data)))


def test_numbers_are_bounded_one_by_one() -> None:
    source = NumberSource("part", memoryview(bytes([3, 4, 5])))
    assert source.take("first", 3) == 3
    with pytest.raises(SchemaNumbersError, match=r"wrong at 1: second is 4, at most 3"):
        source.take("second", 3)
    source = NumberSource("part", memoryview(bytes([3, 4])))
    source.take("first", 9)
    with pytest.raises(SchemaNumbersError, match="1 numbers more than are used"):
        source.require_end()
    with pytest.raises(SchemaNumbersError, match="third is missing"):
        source.take("third", 9)
