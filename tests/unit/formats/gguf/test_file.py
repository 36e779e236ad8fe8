"""Reading GGUF files that are right."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sslm.errors.reading import UnreadableFileError
from sslm.errors.status import Status
from sslm.formats.gguf.file import GgufFile, read_gguf
from sslm.formats.gguf.metadata import MetadataArray
from sslm.formats.gguf.types import ValueType
from tests.call_count import calls_of
from tests.causes import raises
from tests.data import shared_data
from tests.gguf_files import (
    Typed,
    Value,
    encode_value,
    gguf_bytes,
    gguf_header,
    gguf_key,
    gguf_tensor,
    padded,
    random_llama_gguf,
    write_gguf,
)

SCALARS = {
    "u8": 255, "i8": -128, "u16": 65535, "i16": -32768, "u32": 2**32 - 1, "i32": -(2**31),
    "f32": 0.1, "bool": True, "string": "größer", "u64": 2**64 - 1, "i64": -(2**63), "f64": 0.1,
}  # fmt: skip


def metadata_file(metadata: dict[str, Value]) -> GgufFile:
    return read_gguf(gguf_bytes(metadata, {}))


@pytest.mark.parametrize("version", [2, 3])
def test_every_value_type_and_both_versions(version: int) -> None:
    values: dict[str, Value] = {name: Typed(name, value) for name, value in SCALARS.items()}
    file = read_gguf(gguf_bytes(values, {}, version=version))
    assert file.version == version
    assert list(file.metadata) == list(SCALARS)
    expected = SCALARS | {"f32": struct.unpack("<f", struct.pack("<f", 0.1))[0]}
    assert {key: file.metadata[key].value for key in file.metadata} == expected
    types = [file.metadata[key].value_type for key in file.metadata]
    assert types == [kind for kind in ValueType if kind is not ValueType.ARRAY]


@pytest.mark.parametrize("item_type", SCALARS)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_arrays_of_every_value_type(item_type: str, count: int) -> None:
    value = 0.5 if item_type.startswith("f") else SCALARS[item_type]
    array = metadata_file({"a": Typed("array", [value] * count, item_type)}).metadata["a"].value
    assert isinstance(array, MetadataArray)
    assert array.count == count
    assert array.items() == (value,) * count


def test_a_false_bool_and_a_bool_array() -> None:
    metadata = metadata_file({"no": False, "mixed": Typed("array", [True, False], "bool")}).metadata
    assert metadata.boolean("no") is False
    mixed = metadata["mixed"].value
    assert isinstance(mixed, MetadataArray)
    assert mixed.items() == (True, False)


def test_tensors_have_outermost_first_shapes_and_exact_bytes(tmp_path: Path) -> None:
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    half = np.arange(5, dtype=np.float32)
    path = write_gguf(tmp_path / "a.gguf", {"k": 1}, {"cube": ("F32", cube), "half": ("F16", half)})
    with read_gguf(path) as file:
        assert list(file.tensors) == ["cube", "half"]
        tensor = file.tensors["cube"]
        assert (tensor.shape, tensor.row_count, tensor.row_size_bytes) == ((2, 3, 4), 6, 16)
        assert (tensor.tensor_type.name, bytes(tensor.data)) == ("F32", cube.tobytes())
        assert file.tensors["half"].data.nbytes == 10
        assert file.tensors["half"].data.readonly
    assert file.metadata.u32("k", at_most=1) == 1


@pytest.mark.parametrize("alignment", [8, 32, 4096])
def test_alignment_is_obeyed(alignment: int) -> None:
    tensors = {name: ("F32", np.full(3, i, np.float32)) for i, name in enumerate("abc")}
    file = read_gguf(gguf_bytes({}, tensors, alignment=alignment))
    assert file.alignment_bytes == alignment
    assert [bytes(t.data)[:4] for t in file.tensors.values()] == [
        struct.pack("<f", i) for i in range(3)
    ]


def test_the_last_tensor_needs_no_padding() -> None:
    head = gguf_header(2, 0) + gguf_tensor("b", [1], 0, 0) + gguf_tensor("a", [1], 0, 32)
    file = read_gguf(padded(head) + padded(b"bbbb") + b"aaaa")
    assert {name: bytes(t.data) for name, t in file.tensors.items()} == {
        "b": b"bbbb",
        "a": b"aaaa",
    }


def test_a_file_without_tensors_needs_no_padding() -> None:
    data = gguf_header(0, 1) + gguf_key("k", *encode_value(5))
    assert len(data) % 32
    assert read_gguf(memoryview(data)).metadata.u32("k", at_most=5) == 5


def test_closing_twice_is_fine_and_ends_tensor_data(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", {}, {"a": ("F32", np.zeros(4, np.float32))})
    file = read_gguf(path)
    kept = np.frombuffer(file.tensors["a"].data, np.float32)
    file.close()
    file.close()
    assert kept.tolist() == [0, 0, 0, 0]
    again = read_gguf(path)
    again.close()
    with pytest.raises(ValueError, match="released"):
        bytes(again.tensors["a"].data)


# Accessors.


def test_accessors_return_values_within_limits() -> None:
    metadata = metadata_file(
        {"u": 7, "f": 0.5, "b": True, "s": "größer", "ss": ["a", "b"], "i": [-1, 2], "x": [0.5]}
    ).metadata
    assert metadata.u32("u", at_least=7, at_most=7) == 7
    assert metadata.f32("f", at_least=0.5, at_most=0.5) == 0.5
    assert metadata.boolean("b") is True
    assert metadata.string("s", at_least=8, at_most=8) == "größer"
    assert metadata.strings("ss", at_most=2) == ("a", "b")
    assert metadata.i32_array("i", at_most=2) == (-1, 2)
    assert metadata.f32_array("x", at_most=1) == (0.5,)


def test_missing_keys_are_named_or_replaced() -> None:
    metadata = metadata_file({"k": 1}).metadata
    with raises(Status.GGUF_MISSING_KEY) as caught:
        metadata.u32("llama.block_count", at_most=9)
    assert str(caught.value) == (
        "metadata key 'llama.block_count' is missing; one uint32 is expected"
    )
    with raises(Status.GGUF_MISSING_KEY):
        metadata.strings("tokens", at_most=9)
    with raises(Status.GGUF_MISSING_KEY):
        metadata["no"]
    assert metadata.u32_or("no", None, at_most=9) is None
    assert metadata.f32_or("no", 1.0, at_least=0, at_most=2) == 1.0
    assert metadata.boolean_or("no", True) is True
    assert metadata.string_or("no", "", at_most=9) == ""
    assert metadata.strings_or("no", (), at_most=9) == ()
    assert metadata.i32_array_or("no", None, at_most=9) is None
    assert metadata.f32_array_or("no", None, at_most=9) is None


@pytest.mark.parametrize("value", [Typed("u64", 1), Typed("i32", 1), 1.0, True, "1", [1]])
def test_other_types_are_not_converted(value: Value) -> None:
    metadata = metadata_file({"k": value}).metadata
    with raises(Status.GGUF_WRONG_VALUE_TYPE):
        metadata.u32("k", at_most=9)
    with raises(Status.GGUF_WRONG_VALUE_TYPE):
        metadata.u32_or("k", None, at_most=9)


def test_a_wrong_type_says_what_was_found() -> None:
    metadata = metadata_file({"tokens": [1, 2, 3]}).metadata
    with raises(Status.GGUF_WRONG_VALUE_TYPE) as caught:
        metadata.strings("tokens", at_most=9)
    assert str(caught.value) == (
        "metadata key 'tokens' holds an array of 3 int32, an array of string is expected"
    )


def test_values_out_of_range_are_named() -> None:
    values: dict[str, Value] = {"u": 7, "f": float("nan"), "s": "abc", "ss": ["a", "b"]}
    metadata = metadata_file(values | {"x": [0.5, float("inf")]}).metadata
    with raises(Status.GGUF_VALUE_OUT_OF_RANGE) as caught:
        metadata.u32("u", at_least=1, at_most=6)
    assert caught.value.args == ("u", "the value", 7, 1, 6)
    with raises(Status.GGUF_VALUE_OUT_OF_RANGE):
        metadata.u32("u", at_least=8, at_most=9)
    with raises(Status.GGUF_VALUE_OUT_OF_RANGE):
        metadata.f32("f", at_least=-1e38, at_most=1e38)
    with raises(Status.GGUF_VALUE_OUT_OF_RANGE) as caught:
        metadata.string("s", at_most=2)
    assert caught.value.args == ("s", "the size in bytes", 3, 0, 2)
    with raises(Status.GGUF_VALUE_OUT_OF_RANGE) as caught:
        metadata.strings("ss", at_most=1)
    assert caught.value.args == ("ss", "the number of items", 2, 0, 1)
    with raises(Status.GGUF_VALUE_OUT_OF_RANGE) as caught:
        metadata.f32_array("x", at_most=2)
    assert caught.value.what == "item 1"


# Files of other makers.


def test_stories260k() -> None:
    with read_gguf(shared_data("stories260K/stories260K-F32.gguf")) as file:
        assert (file.version, len(file.tensors), len(file.metadata)) == (3, 48, 24)
        assert file.metadata.string("general.architecture", at_most=64) == "llama"
        assert file.metadata.u32("llama.embedding_length", at_most=64) == 64
        assert file.tensors["blk.0.ffn_gate.weight"].shape == (172, 64)
        assert len(file.metadata.f32_array("tokenizer.ggml.scores", at_most=512)) == 512
        weights = shared_data("stories260K/stories260K.bin").read_bytes()
        # The original file starts with seven 32-bit numbers, then the same embedding.
        embedding = file.tensors["token_embd.weight"].data
        assert bytes(embedding) == weights[28 : 28 + 512 * 64 * 4]


@pytest.mark.parametrize(
    ("name", "model", "pre", "token_count"),
    [
        ("gpt-2", "gpt2", "gpt-2", 50257),
        ("llama-bpe", "gpt2", "llama-bpe", 128256),
        ("llama-spm", "llama", "default", 32000),
        ("qwen2", "gpt2", "qwen2", 151936),
        ("qwen35", "gpt2", "qwen35", 151936),
        ("refact", "gpt2", "refact", 49216),
        ("starcoder", "gpt2", "starcoder", 49152),
    ],
)
def test_published_vocabularies(name: str, model: str, pre: str, token_count: int) -> None:
    with read_gguf(shared_data(f"vocab/ggml-vocab-{name}.gguf")) as file:
        assert len(file.tensors) == 0
        assert file.metadata.string("tokenizer.ggml.model", at_most=64) == model
        assert file.metadata.string("tokenizer.ggml.pre", at_most=64) == pre
        tokens = file.metadata.strings("tokenizer.ggml.tokens", at_most=1 << 20)
        assert (len(tokens), len(set(tokens))) == (token_count, token_count)
        types = file.metadata.i32_array("tokenizer.ggml.token_type", at_most=1 << 20)
        assert len(types) == token_count
        assert set(types) <= {1, 2, 3, 4, 5, 6}


def test_a_large_vocabulary_is_read_in_bounded_work() -> None:
    """Two calls for each of 408,000 strings: the bound only catches a change of kind."""
    path = shared_data("vocab/ggml-vocab-llama-bpe.gguf")
    assert calls_of(lambda: read_gguf(path).close()) < 1_000_000


def test_reading_imports_neither_numpy_nor_the_gguf_package() -> None:
    program = "import sys, sslm.formats.gguf.file; print({'numpy', 'gguf'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_the_random_model_is_complete(tmp_path: Path) -> None:
    path = random_llama_gguf(
        tmp_path / "a.gguf", seed=1, hidden_size=72, num_hidden_layers=2, num_attention_heads=3,
        num_key_value_heads=1, head_dim=24, intermediate_size=100, vocab_size=301,
        tied=False, biases=True,
    )  # fmt: skip
    with read_gguf(path) as file:
        assert len(file.tensors) == 1 + 2 * 12 + 2
        assert file.tensors["blk.1.attn_k.bias"].shape == (24,)
        assert file.tensors["output.weight"].shape == (301, 72)
        tokens = file.metadata.strings("tokenizer.ggml.tokens", at_most=301)
        assert len(set(tokens)) == 301
        merges = file.metadata.strings("tokenizer.ggml.merges", at_most=301)
        assert [merge.replace(" ", "") for merge in merges] == list(tokens[259:])


# Files that cannot be opened.


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        read_gguf(tmp_path / "none.gguf")
    path = str(tmp_path / "none.gguf")
    assert caught.value.path == path
    assert str(caught.value) == f"cannot read {path!r}: No such file or directory"


def test_a_folder_or_pipe_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError):
        read_gguf(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(UnreadableFileError) as caught:
            read_gguf(str(tmp_path / "pipe"))
        assert caught.value.reason == "it is not a regular file"


def test_a_name_with_a_null_is_refused() -> None:
    with pytest.raises(UnreadableFileError):
        read_gguf("a\0b")
