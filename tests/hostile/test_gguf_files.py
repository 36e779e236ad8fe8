"""Broken GGUF files: each defect has its own error, raised quickly and in little memory."""

import pickle
import struct
import tracemalloc
from collections.abc import Callable
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from sslm import limits
from sslm.errors.base import SslmError
from sslm.errors.status import Status
from sslm.formats.gguf.file import read_gguf
from sslm.formats.gguf.tensors import dequantize
from sslm.formats.gguf.types import TENSOR_TYPES, TensorType
from tests.call_count import CallCount
from tests.causes import Kind, kind_of, raises
from tests.gguf_files import (
    Typed,
    encode_value,
    gguf_bytes,
    gguf_header,
    gguf_key,
    gguf_string,
    gguf_tensor,
    padded,
    random_llama_gguf,
)

F32, Q8_0, U32, BOOL, STRING, ARRAY = 0, 8, 4, 7, 8, 9


def refused(data: bytes, error: Kind) -> SslmError:
    """Read *data*; return the error, which is exactly of kind *error* and cheap."""
    tracemalloc.start()
    try:
        with raises(error) as caught, CallCount() as calls:
            read_gguf(data)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert kind_of(caught.value) is error
    assert calls.count < 10_000
    assert peak_bytes < 100_000 + 8 * len(data)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    found: SslmError = caught.value
    return found


def with_keys(*entries: bytes) -> bytes:
    return gguf_header(0, len(entries)) + b"".join(entries)


def with_tensors(*entries: bytes, data: bytes = b"") -> bytes:
    return padded(gguf_header(len(entries), 0) + b"".join(entries)) + data


def array(item_type: int, count: int, content: bytes = b"") -> bytes:
    return struct.pack("<IQ", item_type, count) + content


# The beginning.


@pytest.mark.parametrize("start", [b"", b"GGU", b"GGML", b"FUGG", b"version https://git-lfs"])
def test_gguf_magic_error(start: bytes) -> None:
    assert refused(start, Status.GGUF_MAGIC).args == (start[:4],)


@pytest.mark.parametrize("version", [0, 1, 4, 0xFFFFFFFF])
def test_gguf_version_error(version: int) -> None:
    assert refused(gguf_header(0, 0, version=version), Status.GGUF_VERSION).args == (version,)


def test_gguf_big_endian_error() -> None:
    data = b"GGUF" + struct.pack(">IQQ", 3, 0, 0)
    assert refused(data, Status.GGUF_BIG_ENDIAN).args == (3,)


# Counts that the file cannot hold.


@pytest.mark.parametrize("count", [1 << 40, 1 << 63, (1 << 64) - 1, 65537])
def test_field_too_large_error_for_the_tensor_count(count: int) -> None:
    error = refused(gguf_header(count, 0) + bytes(1000), Status.FIELD_TOO_LARGE)
    assert error.args == ("tensor count", 8, count, 65536)


@pytest.mark.parametrize("count", [1 << 40, (1 << 64) - 1, 65537])
def test_field_too_large_error_for_the_key_count(count: int) -> None:
    error = refused(gguf_header(0, count) + bytes(1000), Status.FIELD_TOO_LARGE)
    assert error.args == ("metadata key count", 16, count, 65536)


def test_truncated_file_error_for_the_tensor_count() -> None:
    error = refused(gguf_header(65536, 0) + bytes(1000), Status.TRUNCATED_FILE)
    assert error.args == ("tensor count", 16, 65536 * 33, 1008)


def test_truncated_file_error_for_the_key_count() -> None:
    error = refused(gguf_header(0, 65536) + bytes(1000), Status.TRUNCATED_FILE)
    assert error.args == ("metadata key count", 24, 65536 * 14, 1000)


@pytest.mark.parametrize("item_type", [0, 3, 4, 6, 7, 8, 10, 12])
@pytest.mark.parametrize("count", [1 << 40, (1 << 64) - 1])
def test_field_too_large_error_for_an_item_count(item_type: int, count: int) -> None:
    data = with_keys(gguf_key("k", ARRAY, array(item_type, count, bytes(1000))))
    error = refused(data, Status.FIELD_TOO_LARGE)
    assert error.args == ("item count of k", 24 + 9 + 4 + 4, count, limits.GGUF_ARRAY_COUNT_MAX)


@pytest.mark.parametrize(("item_type", "size_bytes"), [(0, 1), (4, 4), (7, 1), (8, 8), (12, 8)])
def test_truncated_file_error_for_an_item_count(item_type: int, size_bytes: int) -> None:
    count = limits.GGUF_ARRAY_COUNT_MAX
    data = with_keys(gguf_key("k", ARRAY, array(item_type, count, bytes(1000))))
    error = refused(data, Status.TRUNCATED_FILE)
    assert error.args == ("item count of k", 49, count * size_bytes, 1000)


# Metadata.


@pytest.mark.parametrize("size", [65536, 1 << 40, (1 << 64) - 1])
def test_field_too_large_error_for_a_key(size: int) -> None:
    error = refused(with_keys(struct.pack("<Q", size) + bytes(100)), Status.FIELD_TOO_LARGE)
    assert error.args == ("length of metadata key 0", 24, size, 65535)


def test_field_too_large_error_for_a_string() -> None:
    data = with_keys(gguf_key("k", STRING, struct.pack("<Q", 1 << 40) + bytes(100)))
    error = refused(data, Status.FIELD_TOO_LARGE)
    assert error.args == ("length of k", 37, 1 << 40, limits.GGUF_STRING_SIZE_BYTES_MAX)


def test_field_too_large_error_for_all_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GGUF_METADATA_SIZE_BYTES_MAX", 100)
    numbers = gguf_key("k", *encode_value([1] * 20))
    error = refused(with_keys(numbers), Status.FIELD_TOO_LARGE)
    assert error.args == ("size of metadata", 24, len(numbers), 100)
    texts = gguf_key("k", *encode_value(["abc"] * 8))
    error = refused(with_keys(texts), Status.FIELD_TOO_LARGE)
    assert (error.args[0], error.args[3]) == ("size of k", 100 - 25)
    assert len(read_gguf(with_keys(gguf_key("k", *encode_value(["abc"] * 6)))).metadata) == 1


@pytest.mark.parametrize("key", ["", "größe", "a\nb", "a\0"])
def test_gguf_key_error(key: str) -> None:
    assert refused(with_keys(gguf_key(key, *encode_value(1))), Status.GGUF_KEY).args[0] == key


def test_bad_utf8_error_in_a_key() -> None:
    error = refused(with_keys(gguf_key(b"ab\xff", *encode_value(1))), Status.BAD_UTF8)
    assert error.args[:2] == ("metadata key 0", 34)


def test_bad_utf8_error_in_a_string() -> None:
    error = refused(with_keys(gguf_key("k", STRING, gguf_string(b"\xc3("))), Status.BAD_UTF8)
    assert error.args[:2] == ("k", 45)


def test_bad_utf8_error_in_an_array() -> None:
    content = gguf_string("ok") + gguf_string(b"a\x80")
    error = refused(with_keys(gguf_key("k", ARRAY, array(STRING, 2, content))), Status.BAD_UTF8)
    assert error.args[:2] == ("k[1]", 49 + 10 + 8 + 1)


def test_gguf_duplicate_key_error() -> None:
    entry = gguf_key("k", *encode_value(1))
    assert refused(with_keys(entry, entry), Status.GGUF_DUPLICATE_KEY).args[0] == "k"


@pytest.mark.parametrize("type_id", [13, 255, 0xFFFFFFFF])
def test_gguf_unknown_value_type_error(type_id: int) -> None:
    error = refused(with_keys(gguf_key("k", type_id, bytes(8))), Status.GGUF_UNKNOWN_VALUE_TYPE)
    assert error.args == ("k", type_id, 33)
    data = with_keys(gguf_key("k", ARRAY, array(type_id, 1, bytes(8))))
    assert refused(data, Status.GGUF_UNKNOWN_VALUE_TYPE).args == ("k", type_id, 37)


def test_gguf_nested_array_error() -> None:
    data = with_keys(gguf_key("k", ARRAY, array(ARRAY, 1, array(U32, 1, bytes(4)))))
    assert refused(data, Status.GGUF_NESTED_ARRAY).args == ("k", 37)


@pytest.mark.parametrize("found", [2, 255])
def test_gguf_bool_error(found: int) -> None:
    data = with_keys(gguf_key("k", BOOL, bytes([found])))
    assert refused(data, Status.GGUF_BOOL).args == ("k", found, 37)
    data = with_keys(gguf_key("k", ARRAY, array(BOOL, 4, bytes([0, 1, found, 0]))))
    assert refused(data, Status.GGUF_BOOL).args == ("k", found, 51)


@pytest.mark.parametrize("found", [0, 1, 4, 12, 33, 1 << 17, (1 << 32) - 1])
def test_gguf_alignment_error(found: int) -> None:
    data = with_keys(gguf_key("general.alignment", *encode_value(found)))
    assert refused(data, Status.GGUF_ALIGNMENT).args == (found, 8, 65536)


def test_gguf_wrong_value_type_error_for_the_alignment() -> None:
    data = with_keys(gguf_key("general.alignment", *encode_value(Typed("u64", 32))))
    refused(data, Status.GGUF_WRONG_VALUE_TYPE)


# Tensors.


def test_field_too_large_error_for_a_tensor_name() -> None:
    longest = gguf_bytes({}, {"n" * 64: ("F32", np.zeros(1, np.float32))})
    assert list(read_gguf(longest).tensors) == ["n" * 64]
    error = refused(with_tensors(gguf_tensor("n" * 65, [1], F32, 0)), Status.FIELD_TOO_LARGE)
    assert error.args == ("length of name of tensor 0", 24, 65, 64)


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb"])
def test_gguf_tensor_name_error(name: str) -> None:
    data = with_tensors(gguf_tensor(name, [1], F32, 0), data=bytes(4))
    assert refused(data, Status.GGUF_TENSOR_NAME).args[0] == name


def test_bad_utf8_error_in_a_tensor_name() -> None:
    refused(with_tensors(gguf_tensor(b"\xff", [1], F32, 0), data=bytes(4)), Status.BAD_UTF8)


def test_gguf_duplicate_tensor_error() -> None:
    first, second = gguf_tensor("t", [1], F32, 0), gguf_tensor("t", [1], F32, 32)
    data = with_tensors(first, second, data=bytes(64))
    assert refused(data, Status.GGUF_DUPLICATE_TENSOR).args[0] == "t"


@pytest.mark.parametrize("count", [0, 5, 0xFFFFFFFF])
def test_gguf_dimension_count_error(count: int) -> None:
    entry = gguf_string("t") + struct.pack("<I", count) + bytes(60)
    assert refused(with_tensors(entry), Status.GGUF_DIMENSION_COUNT).args == ("t", count, 4)


@pytest.mark.parametrize("sizes", [[0], [4, 0], [0, 1 << 63]])
def test_gguf_empty_dimension_error(sizes: list[int]) -> None:
    data = with_tensors(gguf_tensor("t", sizes, F32, 0))
    assert refused(data, Status.GGUF_EMPTY_DIMENSION).args == ("t", tuple(reversed(sizes)))


@pytest.mark.parametrize(
    "sizes", [[(1 << 64) - 1], [1 << 32] * 2, [1 << 63, 2], [1 << 16] * 4, [1 << 32, 1, 1 << 31, 2]]
)
def test_gguf_tensor_too_large_error(sizes: list[int]) -> None:
    """Among them products that are zero in 64 bits."""
    data = with_tensors(gguf_tensor("t", sizes, F32, 0))
    assert refused(data, Status.GGUF_TENSOR_TOO_LARGE).args[:2] == ("t", tuple(reversed(sizes)))


@pytest.mark.parametrize("type_id", [43, 141, 144, 0xFFFFFFFF])
def test_gguf_unknown_tensor_type_error(type_id: int) -> None:
    data = with_tensors(gguf_tensor("t", [256], type_id, 0), data=bytes(2048))
    assert refused(data, Status.GGUF_UNKNOWN_TENSOR_TYPE).args == ("t", type_id)


@pytest.mark.parametrize(("type_id", "name"), [(4, "Q4_2"), (33, "Q4_0_8_8"), (38, "IQ4_NL_8_8")])
def test_gguf_removed_tensor_type_error(type_id: int, name: str) -> None:
    data = with_tensors(gguf_tensor("t", [256], type_id, 0), data=bytes(2048))
    assert refused(data, Status.GGUF_REMOVED_TENSOR_TYPE).args == ("t", type_id, name)


def test_gguf_partial_block_error() -> None:
    """The element count is a multiple of the block, the row is not."""
    data = with_tensors(gguf_tensor("t", [16, 2], Q8_0, 0), data=bytes(34))
    assert refused(data, Status.GGUF_PARTIAL_BLOCK).args == ("t", 16, "Q8_0", 32)


def test_misaligned_offset_error() -> None:
    data = with_tensors(gguf_tensor("t", [1], F32, 4), data=bytes(64))
    error = refused(data, Status.MISALIGNED_OFFSET)
    assert error.args == ("t", len(data) - 64 + 4, 32)


@pytest.mark.parametrize("offset", [0, 32, 96])
def test_gguf_tensor_offset_error(offset: int) -> None:
    """The second tensor has to start at 64: not in the first one, and not behind a gap."""
    first, second = gguf_tensor("first", [9], F32, 0), gguf_tensor("second", [1], F32, offset)
    data = with_tensors(first, second, data=bytes(128))
    start = len(data) - 128
    error = refused(data, Status.GGUF_TENSOR_OFFSET)
    assert error.args == ("second", start + offset, start + 64, "the padded end of 'first' (F32)")
    assert str(error) == (
        f"tensor 'second' starts at byte {start + offset} of the file, but the padded end of "
        f"'first' (F32) is at byte {start + 64}: a type, shape or offset in the header is wrong; "
        "get the file again, or convert the model again"
    )


@pytest.mark.parametrize("offset", [32, (1 << 64) - 32])
def test_gguf_tensor_offset_error_of_the_first_one(offset: int) -> None:
    data = with_tensors(gguf_tensor("t", [1], F32, offset), data=bytes(64))
    start = len(data) - 64
    error = refused(data, Status.GGUF_TENSOR_OFFSET)
    assert error.args == ("t", start + offset, start, "the start of the tensor data")


def test_tensors_lie_in_the_order_in_which_they_are_listed() -> None:
    """llama.cpp compares offsets in that order."""
    second, first = gguf_tensor("second", [8], F32, 32), gguf_tensor("first", [8], F32, 0)
    data = with_tensors(second, first, data=bytes(64))
    error = refused(data, Status.GGUF_TENSOR_OFFSET)
    assert error.args[0] == "second"
    read_gguf(with_tensors(first, second, data=bytes(64)))


@pytest.mark.parametrize("more", [1, 32, 100])
def test_gguf_data_end_error(more: int) -> None:
    data = with_tensors(gguf_tensor("t", [9], F32, 0), data=bytes(64))
    error = refused(data + bytes(more), Status.GGUF_DATA_END)
    assert error.args == ("t", "F32", len(data), len(data) + more)


@pytest.mark.parametrize("padding", [0, 1, 27, 28])
def test_the_last_tensor_may_be_padded(padding: int) -> None:
    data = with_tensors(gguf_tensor("t", [9], F32, 0), data=b"\1" * 36 + bytes(padding))
    assert read_gguf(data).tensors["t"].data.nbytes == 36


@pytest.mark.parametrize("name", ["first", "second"])
def test_non_zero_padding_error(name: str) -> None:
    """What is left of a longer type, where its padding reaches as far."""
    entries = gguf_tensor("first", [3], F32, 0), gguf_tensor("second", [3], F32, 32)
    data = bytearray(with_tensors(*entries, data=bytes(64)))
    at = len(data) - (32 if name == "second" else 64) + 13
    data[at] = 7
    assert refused(bytes(data), Status.NON_ZERO_PADDING).args == (f"after tensor {name}", at, 7)


@pytest.mark.parametrize("count", [17, 1 << 40])
def test_gguf_tensor_past_end_error(count: int) -> None:
    data = with_tensors(gguf_tensor("t", [count], F32, 0), data=bytes(64))
    error = refused(data, Status.GGUF_TENSOR_PAST_END)
    assert error.args == ("t", len(data) - 64, 4 * count, len(data))


# A tensor's type and its bytes.


def test_no_tensor_passes_for_one_of_a_type_of_another_size(tmp_path: Path) -> None:
    accepted, cases = [], 0
    for weight_type in ("F32", "F16", "Q8_0"):
        sound = random_llama_gguf(
            tmp_path / "a.gguf", seed=1, hidden_size=256, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=1, head_dim=128, intermediate_size=512,
            vocab_size=260, weight_type=weight_type, tied=False, biases=True,
        ).read_bytes()  # fmt: skip
        for tensor in read_gguf(sound).tensors.values():
            sizes = tensor.shape[::-1]
            entry = gguf_string(tensor.name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
            at = sound.index(entry) + len(entry)
            for kind in TENSOR_TYPES.values():
                if _size_bytes(kind, tensor.shape) == tensor.data.nbytes:
                    continue
                cases += 1
                relabelled = sound[:at] + struct.pack("<I", kind.type_id) + sound[at + 4 :]
                if outcome(read_gguf, relabelled) is None:
                    accepted.append((weight_type, tensor.name, kind.name))
    assert (accepted, cases > 1000) == ([], True)


def _size_bytes(kind: TensorType, shape: tuple[int, ...]) -> float:
    return prod(shape) / kind.block_elements * kind.block_size_bytes


# Every cut, and many a changed byte, of a small file that has all kinds of parts.


def small_file() -> bytes:
    metadata: dict[str, Any] = {
        "general.architecture": "llama", "n": 3, "f": 0.5, "b": True,
        "tokens": ["a", "größer", ""], "ids": [1, -2],
        "flags": Typed("array", [True, False], "bool"),
    }  # fmt: skip
    tensors = {
        "a": ("F32", np.arange(6, dtype=np.float32).reshape(2, 3)),
        "b": ("Q8_0", np.ones((1, 32), np.float32)),
    }
    data = gguf_bytes(metadata, tensors)
    return data[: len(data) - 30]  # Without the padding after the last tensor.


def read_all(data: bytes) -> None:
    file = read_gguf(data)
    for tensor in file.tensors.values():
        dequantize(tensor)


def outcome(action: Callable[[bytes], object], data: bytes) -> Kind | None:
    try:
        action(data)
    except SslmError as error:
        return kind_of(error)
    return None


def test_every_cut_raises_a_named_error() -> None:
    data = small_file()
    assert outcome(read_all, data) is None
    found = {outcome(read_all, data[:size]) for size in range(len(data))}
    assert found == {Status.GGUF_MAGIC, Status.TRUNCATED_FILE, Status.GGUF_TENSOR_PAST_END}


def test_changed_bytes_raise_named_errors_or_none() -> None:
    data, random = small_file(), Random(1)
    found = set()
    for at in range(len(data)):
        for value in (0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)):
            changed = data[:at] + bytes([value]) + data[at + 1 :]
            found.add(outcome(read_all, changed))
    assert None in found
    assert len(found) > 12
