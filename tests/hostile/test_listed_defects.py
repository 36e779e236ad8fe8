"""Defects that readers of such files are known to have had, each by the error that names it here.

Every file is a whole model but for the one defect, and is taken through all of its reading.
"""

import struct
from collections.abc import Callable

import numpy as np
import pytest

from sslm import limits
from sslm.errors import model as model_errors
from sslm.errors.base import SslmError
from sslm.errors.status import Status
from sslm.formats.gguf.file import read_gguf
from sslm.formats.gguf.tensors import dequantize
from sslm.formats.gguf.types import TENSOR_TYPES
from sslm.formats.sslm.canonical_json import decode_json
from sslm.formats.sslm.container import SectionType
from tests.causes import kind_of, raises
from tests.gguf_files import (
    Typed,
    Value,
    encode_value,
    gguf_bytes,
    gguf_header,
    gguf_key,
    gguf_string,
    gguf_tensor,
    padded,
)
from tests.hostile.small_models import (
    Tensors,
    byte_level_metadata,
    model_tensors,
)
from tests.hostile.whole_models import Metadata, byte_level, load, model, sentencepiece
from tests.unit.artifact import tiny_artifact
from tests.unit.artifact.tiny_artifact import patched, read, sections_of, with_section


def one_tensor(sizes: list[int], *, type_id: int = 0, offset: int = 0, data: int = 64) -> bytes:
    """A file of one tensor; *sizes* innermost first."""
    return padded(gguf_header(1, 0) + gguf_tensor("t", sizes, type_id, offset)) + bytes(data)


def one_key(value_type: int, payload: bytes) -> bytes:
    return gguf_header(0, 1) + gguf_key("k", value_type, payload) + bytes(64)


def test_the_models_are_sound() -> None:
    assert len(load(byte_level()).merges) == 2
    assert len(load(sentencepiece()).scores) == 263


# Numbers that wrap in 64 bits, and counts beyond everything.

GGUF_DEFECTS = {
    "dimension of 2**42+1": (one_tensor([(1 << 42) + 1]), Status.GGUF_TENSOR_TOO_LARGE),
    "dimensions that wrap to 0": (
        one_tensor([1 << 32, 1 << 32]),
        Status.GGUF_TENSOR_TOO_LARGE,
    ),
    "dimensions that wrap to 4": (
        one_tensor([(1 << 62) + 1, 4]),
        Status.GGUF_TENSOR_TOO_LARGE,
    ),
    "bytes that wrap to 4": (one_tensor([(1 << 62) + 1]), Status.GGUF_TENSOR_TOO_LARGE),
    "offset and size that wrap": (
        one_tensor([8], offset=(1 << 64) - 32),
        Status.GGUF_TENSOR_OFFSET,
    ),
    "more dimensions than a table holds": (
        one_tensor([1] * 5),
        Status.GGUF_DIMENSION_COUNT,
    ),
    "tensor larger than its file": (one_tensor([17]), Status.GGUF_TENSOR_PAST_END),
    "tensor of the largest size": (one_tensor([1 << 40]), Status.GGUF_TENSOR_PAST_END),
    "misaligned tensor": (one_tensor([1], offset=16), Status.MISALIGNED_OFFSET),
    "partial block": (one_tensor([31], type_id=8), Status.GGUF_PARTIAL_BLOCK),
    "unknown type": (one_tensor([1], type_id=99), Status.GGUF_UNKNOWN_TENSOR_TYPE),
    "removed type": (one_tensor([1], type_id=4), Status.GGUF_REMOVED_TENSOR_TYPE),
    "tensor count": (gguf_header(1 << 60, 0), Status.FIELD_TOO_LARGE),
    "key count": (gguf_header(0, 1 << 60), Status.FIELD_TOO_LARGE),
    "item count that wraps to 4 bytes": (
        one_key(9, struct.pack("<IQ", 4, (1 << 62) + 1)),
        Status.FIELD_TOO_LARGE,
    ),
    "string longer than 2**31": (
        one_key(8, struct.pack("<Q", (1 << 31) + 5)),
        Status.FIELD_TOO_LARGE,
    ),
    "string length that wraps": (
        one_key(8, struct.pack("<Q", (1 << 64) - 1)),
        Status.FIELD_TOO_LARGE,
    ),
    "token longer than 2**31": (
        one_key(9, struct.pack("<IQ", 8, 2) + gguf_string("a") + struct.pack("<Q", 1 << 31)),
        Status.FIELD_TOO_LARGE,
    ),
    "array in an array": (
        one_key(9, struct.pack("<IQIQ", 9, 1, 9, 1)),
        Status.GGUF_NESTED_ARRAY,
    ),
    "cut in its magic": (b"GGU", Status.GGUF_MAGIC),
    "cut in a key": (byte_level()[:40], Status.TRUNCATED_FILE),
    "cut in a tensor": (byte_level()[:-33], Status.GGUF_TENSOR_PAST_END),
}


@pytest.mark.parametrize("defect", GGUF_DEFECTS)
def test_gguf_records(defect: str) -> None:
    content, error = GGUF_DEFECTS[defect]
    with pytest.raises(SslmError) as caught:
        read_gguf(content)
    assert kind_of(caught.value) is error


@pytest.mark.parametrize("found", [0, 1, 2, 3, 24, 33, 96, 1 << 17, 1 << 31, (1 << 32) - 1])
def test_an_alignment_that_is_no_power_of_two_or_out_of_bounds(found: int) -> None:
    with raises(Status.GGUF_ALIGNMENT):
        load(byte_level(general__alignment=found))


@pytest.mark.parametrize("alignment", [8, 64, 65536])
def test_every_alignment_in_bounds_loads(alignment: int) -> None:
    tensors = model_tensors(260)
    load(gguf_bytes(byte_level_metadata(), tensors, alignment=alignment))


# Whole models.


@pytest.mark.parametrize("count", [0, limits.LAYER_COUNT_MAX + 1, (1 << 32) - 1])
def test_more_layers_than_fixed_tables_hold(count: int) -> None:
    with pytest.raises(model_errors.LayerCountError):
        load(sentencepiece(llama__block_count=count))


@pytest.mark.parametrize("count", [0, 2, limits.LAYER_COUNT_MAX + 1])
def test_counts_for_other_layers_than_there_are(count: int) -> None:
    heads = Typed("array", [1] * count, "u32")
    with pytest.raises(model_errors.UnsupportedHyperparameterError):
        load(sentencepiece(llama__attention__head_count_kv=heads))


@pytest.mark.parametrize("item_type", ["u8", "i8", "u16", "i16", "f32", "bool", "u64", "i64"])
def test_counts_of_another_type(item_type: str) -> None:
    heads = Typed("array", [1], item_type)
    with raises(Status.GGUF_WRONG_VALUE_TYPE):
        load(sentencepiece(llama__attention__head_count_kv=heads))


def without(name: str) -> Tensors:
    return {key: tensor for key, tensor in model_tensors(260).items() if key != name}


FIVE: dict[str, tuple[Callable[[], bytes], object]] = {
    "unsupported architecture": (
        lambda: byte_level(general__architecture="mamba"),
        model_errors.UnsupportedArchitectureError,
    ),
    "missing tensor": (
        lambda: model(byte_level_metadata(), without("blk.0.ffn_up.weight")),
        model_errors.SourceTensorMissingError,
    ),
    "extra tensor": (
        lambda: model(
            byte_level_metadata(),
            {**model_tensors(260), "blk.0.more.weight": ("F32", np.zeros(1, np.float32))},
        ),
        model_errors.SourceTensorUnexpectedError,
    ),
    "split file": (
        lambda: byte_level(split__count=Typed("u16", 2)),
        Status.GGUF_SPLIT_FILE,
    ),
    "short file": (lambda: byte_level()[:-33], Status.GGUF_TENSOR_PAST_END),
}


@pytest.mark.parametrize("defect", FIVE)
def test_five_causes_five_errors(defect: str) -> None:
    make, error = FIVE[defect]
    with pytest.raises(SslmError) as caught:
        load(make())
    assert kind_of(caught.value) is error
    assert len({one for _, one in FIVE.values()}) == 5


def test_a_later_part_of_a_split_model_is_named_as_such() -> None:
    """It has no other metadata, not even an architecture."""
    keys: Metadata = {"split.no": Typed("u16", 1), "split.count": Typed("u16", 3)}
    with raises(Status.GGUF_SPLIT_FILE) as caught:
        load(gguf_bytes(keys, without("token_embd.weight")))
    assert caught.value.count == 3


def test_a_model_in_one_part_loads() -> None:
    load(byte_level(split__count=Typed("u16", 1)))


def test_rotated_weights_are_refused() -> None:
    """Whoever ignores the keys computes noise."""
    with pytest.raises(model_errors.UnsupportedHyperparameterError) as caught:
        load(byte_level(prism__hadamard__version=1))
    assert caught.value.key == "prism.hadamard.version"


def test_blocks_of_a_type_number_with_two_meanings_are_not_read() -> None:
    """Number 42 was used for blocks of 128 elements, and then for blocks of 64."""
    file = read_gguf(one_tensor([128], type_id=42))
    with raises(Status.GGUF_UNSUPPORTED_TENSOR_TYPE):
        dequantize(file.tensors["t"])


@pytest.mark.parametrize(
    "key",
    [
        "attention.clamp_kqv",
        "attention.max_alibi_bias",
        "attention.scale",
        "embedding_scale",
        "logit_scale",
        "residual_scale",
        "rope.scaling.attn_factor",
    ],
)
@pytest.mark.parametrize("value", [True, "0", Typed("u8", 0), Typed("f64", 0.0), [0.0]])
def test_a_neutral_value_of_another_type_is_not_neutral(key: str, value: Value) -> None:
    with raises(Status.GGUF_WRONG_VALUE_TYPE):
        load(sentencepiece(**{f"llama.{key}": value}))


# Weights that are no numbers.

_HALVES = {
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82),
    "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ2_XXS": (0,),
    "IQ2_XS": (0,), "IQ3_XXS": (0,), "IQ1_S": (0,), "IQ4_NL": (0,), "IQ3_S": (0,), "IQ2_S": (0,),
    "IQ4_XS": (0,), "TQ1_0": (52,), "TQ2_0": (64,), "F16": (0,),
}  # fmt: skip
"""Where the half-precision numbers of a block are."""

_NO_NUMBER: dict[str, tuple[bytes, ...]] = {
    "F32": (struct.pack("<f", float("nan")), struct.pack("<f", -float("inf"))),
    "BF16": (b"\xc0\x7f", b"\x80\xff"),
    # The largest scale, whose products exceed float32; the scale of four is spread over a block.
    "MXFP4": (b"\xff" + b"\x77" * 16,),
    "IQ1_M": (b"\x01" * 48 + b"\xff" * 8,),
}
_NO_NUMBER |= {
    name: tuple(
        bytes([0x11] * at) + half + bytes([0x11] * (size - at - 2))
        for at in _HALVES[name]
        for half in (b"\x00\x7c", b"\x00\xfc", b"\x01\x7e")
    )
    for name, size in ((kind.name, kind.block_size_bytes) for kind in TENSOR_TYPES.values())
    if name in _HALVES
}
NAN_IS_ZERO = "NVFP4"
"""Its scales have one code that is no number, which ggml reads as zero."""


@pytest.mark.parametrize("name", [kind.name for kind in TENSOR_TYPES.values() if kind.is_supported])
def test_a_weight_that_is_no_number_names_its_tensor(name: str) -> None:
    kind = next(one for one in TENSOR_TYPES.values() if one.name == name)
    if name == NAN_IS_ZERO:
        block = b"\x7f" * 4 + b"\x77" * 32
        file = read_gguf(_one_row(kind.type_id, kind.block_elements, block))
        assert not dequantize(file.tensors["t"]).any()
        return
    assert _NO_NUMBER[name]
    for block in _NO_NUMBER[name]:
        file = read_gguf(_one_row(kind.type_id, kind.block_elements, block))
        with raises(Status.GGUF_NON_FINITE_WEIGHT) as caught:
            dequantize(file.tensors["t"])
        assert caught.value.name == "t"


def _one_row(type_id: int, elements: int, data: bytes) -> bytes:
    return padded(gguf_header(1, 0) + gguf_tensor("t", [elements], type_id, 0)) + data


def test_a_failure_of_the_dequantizing_package_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    from gguf import quants

    def fail(*_: object) -> None:
        raise TypeError("no such type here")

    monkeypatch.setattr(quants, "dequantize", fail)
    file = read_gguf(one_tensor([32], type_id=8))
    with raises(Status.GGUF_UNSUPPORTED_TENSOR_TYPE):
        dequantize(file.tensors["t"])


# What lies after the last tensor.


def test_the_last_tensor_needs_no_padding() -> None:
    content = byte_level()
    unpadded = content.rstrip(b"\0")
    assert 0 < len(content) - len(unpadded) < 32
    load(unpadded)


def test_bytes_after_the_last_tensor_are_refused() -> None:
    """A type that is too small leaves some. See docs/conversion.md."""
    with raises(Status.GGUF_DATA_END):
        load(byte_level() + b"\xff" * 100)


# The artifact's counterparts.


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return tiny_artifact.tiny_file(tmp_path_factory.mktemp("sound"))


def manifest_row(sound: bytes, index: int, **fields: int) -> bytes:
    """Change fields of one row of the manifest, and seal."""
    offsets = {"rank": 8, "extent_0": 16, "extent_1": 20, "extent_2": 24, "extent_3": 28}
    content = bytearray(sections_of(sound)[SectionType.TENSORS])
    for name, value in fields.items():
        struct.pack_into("<I", content, 8 + 48 * index + offsets[name], value)
    return with_section(sound, SectionType.TENSORS, bytes(content))


def test_extents_of_panels_that_wrap(sound: bytes) -> None:
    wrapped = manifest_row(sound, 0, extent_0=(1 << 32) - 1, extent_1=(1 << 32) - 1)
    with raises(Status.SSLM_TENSOR_SIZE):
        read(wrapped)


def test_extents_whose_product_wraps_to_nothing(sound: bytes) -> None:
    fields = {f"extent_{index}": 1 << 16 for index in range(4)}
    with raises(Status.SSLM_TENSOR_SIZE):
        read(manifest_row(sound, 1, rank=4, **fields))


def test_a_section_whose_end_wraps(sound: bytes) -> None:
    spoiled = patched(sound, 64 + 8, "<Q", (1 << 64) - 64)
    with raises(Status.SECTION_GAP):
        read(spoiled)


@pytest.mark.parametrize("found", [0, 1, 63, 65, 128, 1 << 31])
def test_a_section_of_another_alignment(sound: bytes, found: int) -> None:
    with raises(Status.SECTION_ALIGNMENT):
        read(patched(sound, 64 + 32, "<I", found))


def test_a_section_larger_than_its_file(sound: bytes) -> None:
    weights = 64 + 40 * sorted(SectionType).index(SectionType.WEIGHTS)
    spoiled = bytearray(sound)
    struct.pack_into("<QQ", spoiled, weights + 16, 1 << 40, 1 << 40)
    with raises(Status.SECTION_BOUNDS):
        read(tiny_artifact.reseal(bytes(spoiled)))


@pytest.mark.parametrize("sizes", [(1 << 31, 0), ((1 << 32) - 1, 8), ((1 << 32) - 1, 1 << 31)])
def test_tokens_longer_than_their_text(sound: bytes, sizes: tuple[int, int]) -> None:
    content = bytearray(sections_of(sound)[SectionType.TOKENIZER])
    struct.pack_into("<II", content, 83, *sizes)
    with raises(Status.SSLM_TOKEN_SIZES):
        read(with_section(sound, SectionType.TOKENIZER, bytes(content)))


def test_more_layers_in_an_artifact_than_fixed_tables_hold(sound: bytes) -> None:
    content = sections_of(sound)[SectionType.CONFIG]
    many = content.replace(b'"num_hidden_layers":1', b'"num_hidden_layers":513')
    with pytest.raises(model_errors.LayerCountError):
        read(with_section(sound, SectionType.CONFIG, many))
    layer = content[content.index(b"[") + 1 : content.index(b"]")]
    more = content.replace(b"[" + layer, b"[" + b",".join([layer] * 513))
    with raises(Status.JSON_RANGE):
        read(with_section(sound, SectionType.CONFIG, more))


@pytest.mark.parametrize("depth", [9, 100, *range(900, 1000), 100_000])
def test_json_that_nests_too_deep(depth: int) -> None:
    """There were depths that the parser still takes and the writer does not."""
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        decode_json(memoryview(opening * 8 + b"1" + closing * 8), "config")
        content = opening * depth + b"1" + closing * depth
        with raises(Status.JSON_SYNTAX):
            decode_json(memoryview(content), "config")


def test_encode_value_of_the_helpers_is_what_the_tests_believe() -> None:
    assert encode_value(Typed("array", [1, 2], "u8")) == (9, struct.pack("<IQBB", 0, 2, 1, 2))
