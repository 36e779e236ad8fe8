"""Broken ``.sslm`` files: each defect by the name of the error that it must raise."""

import json
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sslm import limits
from sslm.artifact import TensorStream, read_artifact, write_artifact
from sslm.errors import model as model_errors
from sslm.errors import reading as reading_errors
from sslm.errors import text as text_errors
from sslm.errors.base import SslmError
from sslm.errors.status import Status
from sslm.formats.saves.session import MAGIC as SESSION_MAGIC
from sslm.formats.saves.writer import MAGIC as SEQUENCE_MAGIC
from sslm.formats.schemas.containers import MAGIC as SCHEMA_MAGIC
from sslm.formats.sslm.container import SectionType
from tests.causes import Kind, raises
from tests.unit.artifact import tiny_artifact
from tests.unit.artifact.tiny_artifact import patched, read, reseal, sections_of, with_section

ROW = 64


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return tiny_artifact.tiny_file(tmp_path_factory.mktemp("sound"))


def row_of(kind: SectionType) -> int:
    """Offset of the table's row for a section of the tiny file, which has them all."""
    return ROW + 40 * sorted(SectionType).index(kind)


def test_sound_file_survives_its_own_helpers(sound: bytes) -> None:
    assert reseal(sound) == sound
    for kind, content in sections_of(sound).items():
        assert with_section(sound, kind, content) == sound
    read(sound)


# Header.

HEADER_DEFECTS = [
    (0, "<I", 0x46554747, Status.SSLM_MAGIC),
    (4, "<I", 15, Status.SSLM_VERSION),
    (4, "<I", 17, Status.SSLM_VERSION),
    (8, "<I", 63, Status.SSLM_HEADER_SIZE),
    (12, "<I", 0, Status.FIELD_TOO_SMALL),
    (12, "<I", 1 << 31, Status.FIELD_TOO_LARGE),
    (12, "<I", 4096, Status.TRUNCATED_FILE),
    (16, "<I", 1, Status.SSLM_FLAGS),
    (16, "<I", 1 << 31, Status.SSLM_FLAGS),
    (20, "<I", 1, Status.SSLM_RESERVED),
    (24, "<Q", 1 << 63, Status.SSLM_FILE_SIZE),
    (24, "<Q", 0, Status.SSLM_FILE_SIZE),
]


@pytest.mark.parametrize(("offset", "layout", "value", "error"), HEADER_DEFECTS)
def test_header_defect(*, sound: bytes, offset: int, layout: str, value: int, error: Kind) -> None:
    with raises(error):
        read(patched(sound, offset, layout, value))


@pytest.mark.parametrize(
    ("save", "named"),
    [
        (SESSION_MAGIC, "a saved session does; open"),
        (SEQUENCE_MAGIC, "a saved sequence does; open"),
        (SCHEMA_MAGIC, "a compiled schema does; put it into a model file"),
    ],
)
@pytest.mark.parametrize("size", [0, 8, 300])
def test_a_save_is_no_model(save: bytes, named: str, size: int) -> None:
    with raises(Status.SSLM_MAGIC, match=f"as {named}") as caught:
        read(save + bytes(size))
    assert caught.value.found == save


def test_empty_file() -> None:
    with raises(Status.SSLM_MAGIC):
        read(b"")


def test_stated_hash_is_another(sound: bytes) -> None:
    with raises(Status.SSLM_INTEGRITY):
        read(sound[:32] + bytes(32) + sound[64:])


def test_appended_bytes(sound: bytes) -> None:
    with raises(Status.SSLM_FILE_SIZE):
        read(sound + b"\0")
    with raises(Status.TRAILING_BYTES):
        read(patched(sound + b"\0", 24, "<Q", len(sound) + 1))


def test_missing_file(tmp_path: Path) -> None:
    for mmap in (True, False):
        with pytest.raises(reading_errors.UnreadableFileError):
            read_artifact(tmp_path / "none.sslm", mmap=mmap)
        with pytest.raises(reading_errors.UnreadableFileError):
            read_artifact(tmp_path, mmap=mmap)


# Section table.

ROW_DEFECTS = [
    (SectionType.GOLDEN, 0, "<I", 12, Status.SECTION_TYPE),
    (SectionType.GOLDEN, 0, "<I", 1 << 31, Status.SECTION_TYPE),
    (SectionType.PROVENANCE, 0, "<I", 0, Status.SECTION_DUPLICATE),
    (SectionType.WEIGHTS, 4, "<I", 1, Status.SECTION_DTYPE),
    (SectionType.WEIGHTS, 4, "<I", 99, Status.SECTION_DTYPE),
    (SectionType.CONFIG, 8, "<Q", 0, Status.SECTION_OVERLAP),
    (SectionType.CONFIG, 8, "<Q", 1, Status.MISALIGNED_OFFSET),
    (SectionType.CONFIG, 8, "<Q", 1 << 62, Status.SECTION_GAP),
    (SectionType.CHAT_TEMPLATE, 16, "<Q", 0, Status.SECTION_EMPTY),
    (SectionType.CHAT_TEMPLATE, 16, "<Q", 1 << 63, Status.SECTION_SIZE),
    (SectionType.WEIGHTS, 24, "<Q", 1, Status.SECTION_ELEMENT_COUNT),
    (SectionType.WEIGHTS, 32, "<I", 64, Status.SECTION_ALIGNMENT),
    (SectionType.CONFIG, 32, "<I", 0, Status.SECTION_ALIGNMENT),
    (SectionType.GOLDEN, 36, "<I", 1, Status.SSLM_RESERVED),
]


@pytest.mark.parametrize(("kind", "field", "layout", "value", "error"), ROW_DEFECTS)
def test_row_defect(
    *,
    sound: bytes,
    kind: SectionType,
    field: int,
    layout: str,
    value: int,
    error: Kind,
) -> None:
    with raises(error):
        read(patched(sound, row_of(kind) + field, layout, value))


def test_sections_out_of_order(sound: bytes) -> None:
    broken = patched(sound, row_of(SectionType.TENSORS), "<I", 1000)
    with raises(Status.SECTION_TYPE):
        read(broken)
    swapped = patched(sound, row_of(SectionType.GOLDEN), "<I", SectionType.CHAT_TEMPLATE)
    with raises(Status.SECTION_ORDER):
        read(swapped)


def test_section_past_the_end(sound: bytes) -> None:
    size = struct.unpack_from("<Q", sound, row_of(SectionType.CHAT_TEMPLATE) + 16)[0]
    longer = patched(sound, row_of(SectionType.CHAT_TEMPLATE) + 16, "<Q", size + 1)
    longer = patched(longer, row_of(SectionType.CHAT_TEMPLATE) + 24, "<Q", size + 1)
    with raises(Status.SECTION_BOUNDS):
        read(longer)


def test_weights_of_exabytes(sound: bytes) -> None:
    broken = patched(sound, row_of(SectionType.WEIGHTS) + 16, "<Q", 1 << 60)
    broken = patched(broken, row_of(SectionType.WEIGHTS) + 24, "<Q", 1 << 60)
    with raises(Status.SECTION_BOUNDS):
        read(broken)


@pytest.mark.parametrize("kind", [SectionType(number) for number in (0, 1, 2, 16, 20)])
def test_missing_section(sound: bytes, kind: SectionType) -> None:
    with raises(Status.SECTION_MISSING):
        read(with_section(sound, kind, b""))


def test_padding_between_sections_is_not_zero(sound: bytes) -> None:
    offset = struct.unpack_from("<Q", sound, row_of(SectionType.WEIGHTS) + 8)[0]
    with raises(Status.NON_ZERO_PADDING):
        read(patched(sound, offset - 1, "<B", 1))


# JSON sections.


def with_json(file: bytes, kind: SectionType, change: Callable[[dict[str, object]], None]) -> bytes:
    """Change a JSON section as a value, and write it canonically."""
    value = json.loads(sections_of(file)[kind])
    change(value)
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return with_section(file, kind, text.encode())


JSON_TEXT_DEFECTS = [
    (b"", Status.SECTION_MISSING),
    (b"{", Status.JSON_SYNTAX),
    (b"\xff", Status.BAD_UTF8),
    (b"\xef\xbb\xbf{}", Status.JSON_SYNTAX),
    (b"NaN", Status.JSON_SYNTAX),
    (b"-Infinity", Status.JSON_SYNTAX),
    (b"1.0", Status.JSON_SYNTAX),
    (b"1e3", Status.JSON_SYNTAX),
    (b"9" * 21, Status.JSON_SYNTAX),
    (b"[" * 200_000, Status.JSON_SYNTAX),
    (b'"\\ud800"', Status.JSON_SYNTAX),
    (b"{} ", Status.JSON_NOT_CANONICAL),
    (b'"\\u0041"', Status.JSON_NOT_CANONICAL),
    (b'"\\/"', Status.JSON_NOT_CANONICAL),
    (b"-0", Status.JSON_NOT_CANONICAL),
    (b'{"b":1,"a":1}', Status.JSON_NOT_CANONICAL),
    (b'{"a":1,"a":1}', Status.JSON_NOT_CANONICAL),
    (b'{"a": 1}', Status.JSON_NOT_CANONICAL),
    (b"[]", Status.JSON_TYPE),
    (b"{}", Status.JSON_MISSING_KEY),
]


@pytest.mark.parametrize(("content", "error"), JSON_TEXT_DEFECTS)
def test_config_text_defect(sound: bytes, content: bytes, error: Kind) -> None:
    with raises(error):
        read(with_section(sound, SectionType.CONFIG, content))


CONFIG_DEFECTS = [
    ({"unknown": 1}, Status.JSON_UNKNOWN_KEY),
    ({"arithmetic_version": 2}, Status.ARITHMETIC_VERSION),
    ({"arithmetic_version": "1"}, Status.JSON_TYPE),
    ({"hidden_size": True}, Status.JSON_TYPE),
    ({"hidden_size": -1}, Status.JSON_RANGE),
    ({"hidden_size": 1 << 31}, model_errors.HiddenSizeError),
    ({"vocab_size": 1 << 21}, model_errors.VocabSizeError),
    ({"vocab_size": 4}, Status.SECTIONS_DISAGREE),
    ({"intermediate_size": 0}, model_errors.IntermediateSizeError),
    ({"num_hidden_layers": 1 << 20}, model_errors.LayerCountError),
    ({"num_hidden_layers": 2}, Status.SECTIONS_DISAGREE),
    ({"num_key_value_heads": 3}, model_errors.HeadCountError),
    ({"head_dim": 1 << 20}, model_errors.HeadDimError),
    ({"rotary_dim": 1}, model_errors.RotaryDimError),
    ({"max_position_embeddings": (1 << 32) - 1}, model_errors.ModelContextError),
    ({"max_position_embeddings": 1 << 40}, Status.JSON_RANGE),
    ({"rope_theta_binary32": 0x7F80_0000}, model_errors.ModelNumberError),
    ({"rms_norm_eps_binary32": 0}, model_errors.ModelNumberError),
    ({"rope_scaling": 1}, Status.JSON_TYPE),
    ({"rope_scaling": {"kind": "yarn", "factor_binary32": 1}}, Status.JSON_TEXT),
    ({"rope_scaling": {"kind": "linear", "factor_binary32": 1}}, model_errors.ModelNumberError),
    ({"rope_scaling": {"kind": "linear", "factor": 1}}, Status.JSON_MISSING_KEY),
    ({"rope_pairing": "other"}, Status.JSON_TEXT),
    ({"architecture": "other"}, model_errors.UnsupportedArchitectureError),
    ({"architecture": "x" * 65}, Status.JSON_RANGE),
    ({"tie_word_embeddings": 1}, Status.JSON_TYPE),
    ({"fraction_bits": None}, Status.JSON_TYPE),
    ({"fraction_bits": {"layers": [], "residual": 31}}, Status.JSON_RANGE),
    ({"fraction_bits": {"layers": 1, "residual": 16}}, Status.JSON_TYPE),
    ({"fraction_bits": {"layers": [{"q": 1}], "residual": 16}}, Status.JSON_MISSING_KEY),
]


@pytest.mark.parametrize(("fields", "error"), CONFIG_DEFECTS)
def test_config_defect(sound: bytes, fields: dict[str, object], error: Kind) -> None:
    with raises(error):
        read(with_json(sound, SectionType.CONFIG, lambda value: value.update(fields)))


PROVENANCE_DEFECTS = [
    ({"unknown": 1}, Status.JSON_UNKNOWN_KEY),
    ({"source_sha256": "0" * 63}, Status.JSON_TEXT),
    ({"source_sha256": "A" * 64}, Status.JSON_TEXT),
    ({"source_sha256": "0" * 65}, Status.JSON_RANGE),
    ({"converter_version": None}, Status.JSON_TYPE),
    ({"converter_version": "x" * 1025}, Status.JSON_RANGE),
    ({"options": {"a": 1}}, Status.JSON_TYPE),
    ({"options": {str(index): "" for index in range(65)}}, Status.JSON_RANGE),
]


@pytest.mark.parametrize(("fields", "error"), PROVENANCE_DEFECTS)
def test_provenance_defect(sound: bytes, fields: dict[str, object], error: Kind) -> None:
    with raises(error):
        read(with_json(sound, SectionType.PROVENANCE, lambda value: value.update(fields)))


RUN = {
    "digest": "0" * 64,
    "prompt_token_ids": [0],
    "segment_digests": ["0" * 64] * 3,
    "text": None,
    "token_ids": [0],
}

GOLDEN_DEFECTS = [
    ({"unknown": 1}, Status.JSON_UNKNOWN_KEY),
    ({"runs": [RUN] * (limits.SSLM_GOLDEN_RUN_COUNT_MAX + 1)}, Status.JSON_RANGE),
    ({"runs": [RUN | {"more": 1}]}, Status.JSON_UNKNOWN_KEY),
    ({"runs": [RUN | {"prompt_token_ids": []}]}, Status.JSON_RANGE),
    ({"runs": [RUN | {"prompt_token_ids": [5]}]}, Status.JSON_RANGE),
    ({"runs": [RUN | {"token_ids": [-1]}]}, Status.JSON_RANGE),
    ({"runs": [RUN | {"token_ids": ["a"]}]}, Status.JSON_TYPE),
    ({"runs": [RUN | {"token_ids": []}]}, Status.JSON_RANGE),
    ({"runs": [RUN | {"token_ids": [0] * 16}]}, Status.SECTIONS_DISAGREE),
    ({"runs": [RUN | {"digest": "0" * 62}]}, Status.JSON_TEXT),
    ({"runs": [RUN | {"segment_digests": ["0" * 64] * 2}]}, Status.SECTIONS_DISAGREE),
    ({"weight_digests": ["0" * 64] * 4}, Status.SECTIONS_DISAGREE),
    ({"weight_digests": "0"}, Status.JSON_TYPE),
    ({"token_pairs": [{"text": 1, "token_ids": []}]}, Status.JSON_TYPE),
    ({"token_pairs": [{"text": "", "token_ids": [0] * 4097}]}, Status.JSON_RANGE),
]


@pytest.mark.parametrize(("fields", "error"), GOLDEN_DEFECTS)
def test_golden_defect(sound: bytes, fields: dict[str, object], error: Kind) -> None:
    with raises(error):
        read(with_json(sound, SectionType.GOLDEN, lambda value: value.update(fields)))


MOST_OBJECTS_PER_BYTE = ["[" * 7 + "]" * 7, '{"":' * 6 + "{}" + "}" * 6, "[" * 900 + "]" * 900]


@pytest.mark.parametrize("unit", MOST_OBJECTS_PER_BYTE)
def test_memory_of_the_largest_json_section(sound: bytes, unit: str) -> None:
    # Memory grows with the section, so that a small one shows how much a byte takes.
    size_bytes = 1 << 16
    count = (size_bytes - 2) // (len(unit) + 1)
    file = with_section(sound, SectionType.GOLDEN, f"[{','.join([unit] * count)}]".encode())
    tracemalloc.start()
    try:
        with pytest.raises(SslmError):
            read(file)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes * (limits.SSLM_GOLDEN_SIZE_BYTES_MAX // size_bytes) <= 64 << 20


def test_oversized_section(sound: bytes) -> None:
    content = b" " * (limits.SSLM_CONFIG_SIZE_BYTES_MAX + 1)
    with raises(Status.SECTION_SIZE):
        with_section(sound, SectionType.CONFIG, content)
    size = struct.unpack_from("<Q", sound, row_of(SectionType.CONFIG) + 16)[0]
    assert size <= limits.SSLM_CONFIG_SIZE_BYTES_MAX
    with raises(Status.SECTION_SIZE):
        read(patched(sound, row_of(SectionType.CONFIG) + 16, "<Q", len(content)))


def test_template_is_not_utf8(sound: bytes) -> None:
    with raises(Status.BAD_UTF8):
        read(with_section(sound, SectionType.CHAT_TEMPLATE, b"\xc3"))


# Tensors. A row: name size, encoding, rank, exponent, four extents, offset, size.

MANIFEST_DEFECTS = [
    (0, "<I", 0, Status.FIELD_TOO_SMALL),
    (0, "<I", 1 << 31, Status.FIELD_TOO_LARGE),
    (0, "<I", 1 << 16, Status.TRUNCATED_FILE),
    (4, "<I", 1, Status.SSLM_RESERVED),
    (8, "<I", 0, Status.SSLM_TENSOR_NAME),
    (8, "<I", 129, Status.SSLM_TENSOR_NAME_SIZE),
    (8, "<I", 128, Status.TRUNCATED_FILE),
    (12, "<I", 0, Status.SSLM_TENSOR_ENCODING),
    (12, "<I", 3, Status.SSLM_TENSOR_SIZE),
    (12, "<I", 4, Status.SSLM_TENSOR_ENCODING),
    (16, "<I", 0, Status.SSLM_TENSOR_RANK),
    (16, "<I", 5, Status.SSLM_TENSOR_RANK),
    (16, "<I", 1, Status.SSLM_TENSOR_EXTENT),
    (16, "<I", 3, Status.SSLM_TENSOR_EXTENT),
    (20, "<i", 1025, Status.SSLM_TENSOR_EXPONENT),
    (20, "<i", -(1 << 31), Status.SSLM_TENSOR_EXPONENT),
    (24, "<I", 0, Status.SSLM_TENSOR_EXTENT),
    (24, "<I", (1 << 32) - 1, Status.SSLM_TENSOR_SIZE),
    (36, "<I", 1, Status.SSLM_TENSOR_EXTENT),
    (40, "<Q", 256, Status.SSLM_TENSOR_PLACE),
    (40, "<Q", 1, Status.SSLM_TENSOR_PLACE),
    (48, "<Q", 0, Status.SSLM_TENSOR_PLACE),
    (48, "<Q", 1, Status.SSLM_TENSOR_SIZE),
    (48, "<Q", 1 << 63, Status.SSLM_TENSOR_PLACE),
]


@pytest.mark.parametrize(("offset", "layout", "value", "error"), MANIFEST_DEFECTS)
def test_manifest_defect(
    *, sound: bytes, offset: int, layout: str, value: int, error: Kind
) -> None:
    manifest = bytearray(sections_of(sound)[SectionType.TENSORS])
    struct.pack_into(layout, manifest, offset, value)
    with raises(error):
        read(with_section(sound, SectionType.TENSORS, bytes(manifest)))


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (b"final_norm", b"final-norm", Status.SSLM_TENSOR_NAME),
        (b"final_norm", b"final_nor\xe9", Status.SSLM_TENSOR_NAME),
        (b"final_norm", b"zzzzz_norm", Status.SSLM_TENSOR_ORDER),
        (b"final_norm", b"final_gain", Status.SSLM_TENSOR_ROLE),
    ],
)
def test_tensor_name_defect(sound: bytes, old: bytes, new: bytes, error: Kind) -> None:
    manifest = sections_of(sound)[SectionType.TENSORS]
    assert manifest.count(old) == 1
    with raises(error):
        read(with_section(sound, SectionType.TENSORS, manifest.replace(old, new)))


def test_panels_of_rank_three(sound: bytes) -> None:
    manifest = bytearray(sections_of(sound)[SectionType.TENSORS])
    struct.pack_into("<I", manifest, 16, 3)
    struct.pack_into("<I", manifest, 32, 1)
    with raises(Status.SSLM_TENSOR_RANK):
        read(with_section(sound, SectionType.TENSORS, bytes(manifest)))


def test_duplicate_tensor_name(sound: bytes) -> None:
    manifest = sections_of(sound)[SectionType.TENSORS]
    longer = bytearray(manifest.replace(b"embedembed.mantissas", b"embedembed"))
    struct.pack_into("<I", longer, 8 + 48, 5)
    with raises(Status.SSLM_TENSOR_ORDER):
        read(with_section(sound, SectionType.TENSORS, bytes(longer)))


def test_bytes_after_the_names(sound: bytes) -> None:
    manifest = sections_of(sound)[SectionType.TENSORS]
    with raises(Status.TRAILING_BYTES):
        read(with_section(sound, SectionType.TENSORS, manifest + b"a"))


def test_weights_beyond_the_tensors(sound: bytes) -> None:
    weights = sections_of(sound)[SectionType.WEIGHTS]
    with raises(Status.SSLM_WEIGHTS_SIZE):
        read(with_section(sound, SectionType.WEIGHTS, weights + b"\0"))
    with raises(Status.SSLM_WEIGHTS_SIZE):
        read(with_section(sound, SectionType.WEIGHTS, weights[:-1]))


# Offsets in the weights: embed at 0 (128 bytes), embed.mantissas at 256 (20), final_norm at 512
# (24), layers.0.gate_proj at 768 (256), layers.0.o_proj.bias at 1024 (8), rope.cos at 1280 (8),
# up_proj at 1536 (two panels of 64 + 512), up_proj.mantissas at 2816 (68).

WEIGHT_DEFECTS = [
    (0, "<b", -128, Status.SSLM_WEIGHT_CODE),
    (767 + 256, "<b", -128, Status.SSLM_WEIGHT_CODE),
    (5 * 4, "<b", 1, Status.SSLM_PANEL_PADDING),  # row 5 of the first panel of embed
    (127, "<b", 1, Status.SSLM_PANEL_PADDING),  # the last padding row of the second panel
    (64 + 2, "<b", 1, Status.SSLM_PANEL_PADDING),  # column 6 of row 0
    (64 + 4 * 4 + 3, "<b", 1, Status.SSLM_PANEL_PADDING),  # column 7 of row 4
    (768 + 128 + 4, "<b", 1, Status.SSLM_PANEL_PADDING),  # row 17 of gate_proj
    (128, "<b", 1, Status.NON_ZERO_PADDING),
    (255, "<b", 1, Status.NON_ZERO_PADDING),
    (256, "<i", -1, Status.SSLM_TENSOR_VALUE),
    (256 + 16, "<i", 1 << 24, Status.SSLM_TENSOR_VALUE),
    (512, "<i", -(1 << 23) - 1, Status.SSLM_TENSOR_VALUE),
    (512 + 20, "<i", (1 << 23) + 1, Status.SSLM_TENSOR_VALUE),
    (1280, "<i", (1 << 30) + 1, Status.SSLM_TENSOR_VALUE),
    (1284, "<i", -(1 << 30) - 1, Status.SSLM_TENSOR_VALUE),
    (1536, "<b", 0, Status.SSLM_GROUP_SCALE),
    (1536 + 31, "<b", 65, Status.SSLM_GROUP_SCALE),
    (1536 + 576 + 1, "<b", 2, Status.SSLM_GROUP_SCALE),  # row 17
    (1536 + 32, "<b", 1, Status.SSLM_PANEL_PADDING),  # between scales and codes
    (1536 + 64, "<B", 0x08, Status.SSLM_INT4_CODE),
    (1536 + 575, "<B", 0x80, Status.SSLM_INT4_CODE),
    (1536 + 64 + 5 * 64, "<B", 0x78, Status.SSLM_PANEL_PADDING),  # column 40 of row 0
    (1536 + 64 + 4 * 64, "<B", 0x98, Status.SSLM_PANEL_PADDING),  # column 36 of row 0
    (1536 + 576 + 64 + 4, "<B", 0x89, Status.SSLM_PANEL_PADDING),  # column 0 of row 17
    (2816, "<i", 1 << 23, Status.SSLM_TENSOR_VALUE),
    (2816 + 64, "<i", -1, Status.SSLM_TENSOR_VALUE),
]


@pytest.mark.parametrize(("offset", "layout", "value", "error"), WEIGHT_DEFECTS)
def test_weight_defect(*, sound: bytes, offset: int, layout: str, value: int, error: Kind) -> None:
    weights = bytearray(sections_of(sound)[SectionType.WEIGHTS])
    struct.pack_into(layout, weights, offset, value)
    with raises(error):
        read(with_section(sound, SectionType.WEIGHTS, bytes(weights)))


# Tokenizer: kind, pre-tokenizer, flags at 26, named ids from 30, end tokens from 46, counts at 54.

TOKENIZER_DEFECTS = [
    (0, "<I", 33, Status.FIELD_TOO_LARGE),
    (4, "<B", ord("x"), text_errors.TokenizerUnsupportedError),
    (16, "<B", 0xFF, Status.BAD_UTF8),
    (16, "<B", ord("x"), text_errors.TokenizerUnsupportedError),
    (22, "<I", 16, Status.SSLM_TOKENIZER_FLAGS),
    (22, "<I", 2, text_errors.VocabularyFieldError),
    (26, "<I", 5, text_errors.SpecialTokenIdError),
    (42, "<I", 1 << 31, Status.FIELD_TOO_LARGE),
    (42, "<I", 1 << 20, Status.TRUNCATED_FILE),
    (46, "<I", 5, text_errors.SpecialTokenIdError),
    (50, "<I", 0, Status.FIELD_TOO_SMALL),
    (50, "<I", 1 << 21, Status.FIELD_TOO_LARGE),
    (50, "<I", 1 << 20, Status.TRUNCATED_FILE),
    (54, "<I", 6, Status.FIELD_TOO_LARGE),
    (58, "<I", 1 << 31, Status.FIELD_TOO_LARGE),
    (58, "<I", 1 << 20, Status.TRUNCATED_FILE),
    (62, "<I", 7, text_errors.MergePartError),
    (78, "<B", 7, text_errors.TokenTypeError),
    (83, "<I", 2, Status.SSLM_TOKEN_SIZES),
    (83, "<I", (1 << 32) - 1, Status.SSLM_TOKEN_SIZES),
]


@pytest.mark.parametrize(("offset", "layout", "value", "error"), TOKENIZER_DEFECTS)
def test_tokenizer_defect(
    *, sound: bytes, offset: int, layout: str, value: int, error: Kind
) -> None:
    content = bytearray(sections_of(sound)[SectionType.TOKENIZER])
    struct.pack_into(layout, content, offset, value)
    with raises(error):
        read(with_section(sound, SectionType.TOKENIZER, bytes(content)))


def test_token_text_is_not_utf8(sound: bytes) -> None:
    content = sections_of(sound)[SectionType.TOKENIZER]
    with raises(Status.BAD_UTF8):
        read(with_section(sound, SectionType.TOKENIZER, content[:-1] + b"\xff"))


def test_a_kilobyte_cannot_ask_for_much() -> None:
    """Counts and sizes far beyond the file are refused before anything is allocated for them."""
    header = b"SSLM" + struct.pack("<IIIIIQ32s", 16, 64, 4096, 0, 0, 1024, bytes(32))
    with raises(Status.TRUNCATED_FILE):
        read(header + bytes(1024 - 64))


def test_writer_refuses_what_the_reader_would(tmp_path: Path) -> None:
    path = tmp_path / "a.sslm"
    parts = replace(tiny_artifact.PARTS, chat_template="")
    with raises(Status.SECTION_EMPTY):
        write_artifact(path, parts, TensorStream.of(tiny_artifact.tiny_tensors()))
    assert list(tmp_path.iterdir()) == []
