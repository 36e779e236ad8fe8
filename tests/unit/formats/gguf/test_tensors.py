"""Tensor blocks as numbers, compared with exact fractions from the block layouts."""

import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pytest

from sslm.errors.gguf import GgufError
from sslm.errors.status import Status
from sslm.formats.gguf.file import GgufFile, GgufTensor, read_gguf
from sslm.formats.gguf.tensors import dequantize, dequantize_rows
from sslm.formats.gguf.types import TENSOR_TYPES, TensorType
from tests.causes import raises
from tests.gguf_files import gguf_header, gguf_tensor, padded, write_gguf

TYPES = {kind.name: kind for kind in TENSOR_TYPES.values()}
SUPPORTED = [kind for kind in TENSOR_TYPES.values() if kind.is_supported]
UNSUPPORTED = [kind for kind in TENSOR_TYPES.values() if not kind.is_supported]


def tensor_of(kind: TensorType, shape: tuple[int, ...], data: bytes) -> GgufTensor:
    head = gguf_header(1, 0) + gguf_tensor("t", shape[::-1], kind.type_id, 0)
    return read_gguf(padded(head) + data).tensors["t"]


# Exact arithmetic: a half is 11 bits, so every product below is an exact fraction, and the
# float32 result is that fraction rounded once.


def half(bits: int) -> Fraction:
    sign = -1 if bits >> 15 else 1
    exponent, mantissa = bits >> 10 & 31, bits & 1023
    assert exponent < 31
    if exponent == 0:
        return sign * Fraction(mantissa, 1 << 24)
    return sign * Fraction(1024 + mantissa) * Fraction(2) ** (exponent - 25)


def u16(block: bytes, at: int) -> int:
    return block[at] | block[at + 1] << 8


def signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def q8_0(block: bytes) -> Iterator[Fraction]:
    d = half(u16(block, 0))
    for j in range(32):
        yield signed(block[2 + j]) * d


def nibbles(quants: bytes) -> list[int]:
    """Low halves of all bytes, then high halves."""
    return [byte & 15 for byte in quants] + [byte >> 4 for byte in quants]


def q4_0(block: bytes) -> Iterator[Fraction]:
    d = half(u16(block, 0))
    for q in nibbles(block[2:18]):
        yield (q - 8) * d


def q4_1(block: bytes) -> Iterator[Fraction]:
    d, m = half(u16(block, 0)), half(u16(block, 2))
    for q in nibbles(block[4:20]):
        yield q * d + m


def q5_0(block: bytes) -> Iterator[Fraction]:
    d, fifth = half(u16(block, 0)), int.from_bytes(block[2:6], "little")
    for j, q in enumerate(nibbles(block[6:22])):
        yield (q + 16 * (fifth >> j & 1) - 16) * d


def q5_1(block: bytes) -> Iterator[Fraction]:
    d, m = half(u16(block, 0)), half(u16(block, 2))
    fifth = int.from_bytes(block[4:8], "little")
    for j, q in enumerate(nibbles(block[8:24])):
        yield (q + 16 * (fifth >> j & 1)) * d + m


def six_bit_pairs(s: bytes) -> list[tuple[int, int]]:
    """Scale and minimum of the eight sub-blocks of a K block."""
    first = [(s[j] & 63, s[j + 4] & 63) for j in range(4)]
    last = [
        ((s[j + 4] & 15) | (s[j - 4] >> 6) << 4, (s[j + 4] >> 4) | (s[j] >> 6) << 4)
        for j in range(4, 8)
    ]
    return first + last


def q4_k(block: bytes) -> Iterator[Fraction]:
    d, d_min = half(u16(block, 0)), half(u16(block, 2))
    pairs = six_bit_pairs(block[4:16])
    for element in range(256):
        chunk, inside = divmod(element, 64)
        byte = block[16 + 32 * chunk + inside % 32]
        scale, minimum = pairs[element // 32]
        yield d * scale * (byte >> 4 if inside >= 32 else byte & 15) - d_min * minimum


def q5_k(block: bytes) -> Iterator[Fraction]:
    d, d_min = half(u16(block, 0)), half(u16(block, 2))
    pairs, high, low = six_bit_pairs(block[4:16]), block[16:48], block[48:176]
    for element in range(256):
        chunk, inside = divmod(element, 64)
        byte = low[32 * chunk + inside % 32]
        q = byte >> 4 if inside >= 32 else byte & 15
        q += 16 * (high[inside % 32] >> (element // 32) & 1)
        scale, minimum = pairs[element // 32]
        yield d * scale * q - d_min * minimum


def q6_k(block: bytes) -> Iterator[Fraction]:
    low, high, scales = block[:128], block[128:192], block[192:208]
    d = half(u16(block, 208))
    for element in range(256):
        part, inside = divmod(element, 128)
        quarter, lane = divmod(inside, 32)
        byte = low[64 * part + 32 * (quarter % 2) + lane]
        q = (byte >> 4 if quarter >= 2 else byte & 15) - 32
        q += 16 * (high[32 * part + lane] >> 2 * quarter & 3)
        yield d * signed(scales[element // 16]) * q


def bf16(block: bytes) -> Iterator[Fraction]:
    yield Fraction(struct.unpack("<f", b"\0\0" + block)[0])


def f16(block: bytes) -> Iterator[Fraction]:
    yield half(u16(block, 0))


# Type -> (rule, byte offsets of its halves).
EXACT: dict[str, tuple[Callable[[bytes], Iterator[Fraction]], tuple[int, ...]]] = {
    "F16": (f16, (0,)),
    "BF16": (bf16, ()),
    "Q8_0": (q8_0, (0,)),
    "Q4_0": (q4_0, (0,)),
    "Q4_1": (q4_1, (0, 2)),
    "Q5_0": (q5_0, (0,)),
    "Q5_1": (q5_1, (0, 2)),
    "Q4_K": (q4_k, (0, 2)),
    "Q5_K": (q5_k, (0, 2)),
    "Q6_K": (q6_k, (208,)),
}


def as_float32(value: Fraction) -> float:
    exact = float(value)
    assert Fraction(exact) == value
    rounded: float = struct.unpack("<f", struct.pack("<f", exact))[0]
    return rounded


def random_block(random: Random, kind: TensorType) -> bytes:
    """Random bytes whose scales are finite."""
    block = bytearray(random.randbytes(kind.block_size_bytes))
    for at in EXACT[kind.name][1]:
        block[at + 1] &= 0xFB  # One bit of the exponent is zero, so it is not all ones.
    if kind.name == "BF16":
        block[1] &= 0xBF
    return bytes(block)


@pytest.mark.parametrize("name", EXACT)
def test_blocks_equal_exact_fractions(name: str) -> None:
    kind, random = TYPES[name], Random(name)
    count = max(24, 600 // kind.block_elements)
    blocks = [random_block(random, kind) for _ in range(count)]
    expected = [as_float32(value) for block in blocks for value in EXACT[name][0](block)]
    tensor = tensor_of(kind, (count // 2, 2 * kind.block_elements), b"".join(blocks))
    found = dequantize(tensor)
    assert found.dtype == np.float32
    assert found.shape == tensor.shape
    assert found.ravel().tolist() == expected


def test_published_half_values() -> None:
    """Values from the table of examples in Wikipedia's "Half-precision floating-point format"."""
    assert [half(bits) for bits in (0x0001, 0x03FF, 0x0400, 0x3555, 0x3BFF, 0x3C01, 0x7BFF)] == [
        Fraction(1, 2**24),
        Fraction(1023, 2**24),
        Fraction(1, 2**14),
        Fraction(1365, 4096),
        Fraction(2047, 2048),
        Fraction(1025, 1024),
        Fraction(65504),
    ]


def test_f32_keeps_every_bit() -> None:
    data = struct.pack("<4I", 0x00000001, 0x80000000, 0x7F7FFFFF, 0x3DCCCCCD)
    assert dequantize(tensor_of(TYPES["F32"], (4,), data)).tobytes() == data


def test_nvfp4_equals_its_definition() -> None:
    """E2M1 values times an unsigned E4M3 scale for each sixteen (OCP MX and FP8 formats)."""
    random = Random(4)
    values = [Fraction(halves, 2) for halves in (0, 1, 2, 3, 4, 6, 8, 12)]
    blocks = [random.randbytes(36) for _ in range(40)]
    expected: list[float] = []
    for block in blocks:
        for part in range(4):
            exponent, mantissa = block[part] >> 3 & 15, block[part] & 7
            scale = Fraction(mantissa, 512)
            if exponent:
                scale = Fraction(8 + mantissa, 8) * Fraction(2) ** (exponent - 7)
            if block[part] == 0x7F:
                scale = Fraction(0)
            for code in nibbles(block[4 + 8 * part : 12 + 8 * part]):
                expected.append(as_float32((-1 if code & 8 else 1) * values[code & 7] * scale))
    found = dequantize(tensor_of(TYPES["NVFP4"], (40, 64), b"".join(blocks)))
    assert found.ravel().tolist() == expected


def test_the_package_knows_the_sizes_and_rules_of_every_supported_type() -> None:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

    for kind in SUPPORTED:
        number = GGMLQuantizationType(kind.type_id)
        assert number.name == kind.name
        assert GGML_QUANT_SIZES[number] == (kind.block_elements, kind.block_size_bytes)
        found = quants.dequantize(np.zeros((1, kind.block_size_bytes), np.uint8), number)
        assert found.shape == (1, kind.block_elements)


@pytest.mark.parametrize("kind", SUPPORTED, ids=lambda kind: kind.name)
def test_any_bytes_are_numbers_or_a_named_error(kind: TensorType) -> None:
    random = Random(kind.type_id)
    numbers = []
    for _ in range(60):
        data = random.randbytes(3 * kind.block_size_bytes)
        try:
            numbers.append(dequantize(tensor_of(kind, (3, kind.block_elements), data)))
        except GgufError as error:
            if error.status is not Status.GGUF_NON_FINITE_WEIGHT:
                raise
    assert numbers
    assert all(np.isfinite(found).all() for found in numbers)


@pytest.mark.parametrize("kind", UNSUPPORTED, ids=lambda kind: kind.name)
def test_types_without_a_rule_are_refused_by_name(kind: TensorType) -> None:
    tensor = tensor_of(kind, (kind.block_elements,), bytes(kind.block_size_bytes))
    with raises(Status.GGUF_UNSUPPORTED_TENSOR_TYPE) as caught:
        dequantize(tensor)
    assert caught.value.args == ("t", kind.type_id, kind.name)


@pytest.mark.parametrize("bits", [0x7C00, 0xFC00, 0x7E00])
def test_a_weight_that_is_not_finite_is_named_by_its_index(bits: int) -> None:
    data = struct.pack("<12H", *[0x3C00] * 7, bits, *[0x3C00] * 3, bits)
    tensor = tensor_of(TYPES["F16"], (2, 2, 3), data)
    with raises(Status.GGUF_NON_FINITE_WEIGHT) as caught:
        dequantize(tensor)
    assert caught.value.index == (1, 0, 1)
    with raises(Status.GGUF_NON_FINITE_WEIGHT) as caught:
        dequantize_rows(tensor, first_row=3, row_count=1)
    assert caught.value.index == (1, 1, 2)
    assert dequantize_rows(tensor, first_row=0, row_count=2).tolist() == [[1, 1, 1]] * 2


def test_the_index_is_right_beyond_the_first_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sslm.limits.DEQUANTIZED_CHUNK_ELEMENTS", 64)
    block = struct.pack("<H", 0x3C00) + bytes(32)
    spoiled = struct.pack("<H", 0x7C00) + bytes([1] * 32)
    tensor = tensor_of(TYPES["Q8_0"], (5, 64), block * 7 + spoiled + block * 2)
    with raises(Status.GGUF_NON_FINITE_WEIGHT) as caught:
        dequantize(tensor)
    assert (caught.value.index, caught.value.found) == ((3, 32), float("inf"))


def q4_1_file(path: Path) -> GgufFile:
    random = Random(9)
    data = b"".join(random_block(random, TYPES["Q4_1"]) for _ in range(6 * 7 * 3))
    head = gguf_header(1, 0) + gguf_tensor("t", (96, 7, 6), 3, 0)
    path.write_bytes(padded(head) + data)
    return read_gguf(path)


def test_rows_equal_the_rows_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with q4_1_file(tmp_path / "a.gguf") as file:
        tensor = file.tensors["t"]
        whole = dequantize(tensor).reshape(42, 96)
        monkeypatch.setattr("sslm.limits.DEQUANTIZED_CHUNK_ELEMENTS", 96)
        assert np.array_equal(dequantize(tensor).reshape(42, 96), whole)
        for first, count in [(0, 42), (0, 1), (41, 1), (5, 17), (42, 0)]:
            rows = dequantize_rows(tensor, first_row=first, row_count=count)
            assert np.array_equal(rows, whole[first : first + count])
        for first, count in [(-1, 1), (0, 43), (42, 1), (3, -1)]:
            with pytest.raises(IndexError):
                dequantize_rows(tensor, first_row=first, row_count=count)


def test_arrays_are_copies_that_outlive_the_file(tmp_path: Path) -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    path = write_gguf(tmp_path / "a.gguf", {}, {"t": ("F32", weights)})
    with read_gguf(path) as file:
        found = dequantize(file.tensors["t"])
    found[0, 0] = 9
    assert found.tolist() == [[9, 1, 2], [3, 4, 5]]
    assert path.read_bytes()[-32:-8] == weights.tobytes()
