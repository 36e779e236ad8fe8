"""The smallest artifact that has every kind of content, and ways to break it."""

import hashlib
import struct
from array import array
from fractions import Fraction
from pathlib import Path

from sslm.artifact import (
    Artifact,
    ArtifactParts,
    Golden,
    GoldenRun,
    Provenance,
    TensorStream,
    TokenPair,
    write_artifact,
)
from sslm.artifact.reading import artifact_from
from sslm.formats.sslm.container import SectionType, section_places
from sslm.model.config import ModelConfig, RopePairing
from sslm.model.fraction_bits import FractionBits, LayerFractionBits
from sslm.program.tensors import Encoding, Tensor, size_bytes
from sslm.text.vocabulary import PreTokenizer, TokenizerKind, Vocabulary

CONFIG = ModelConfig(
    architecture="llama",
    vocab_size=5,
    hidden_size=6,
    intermediate_size=3,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=2,
    rotary_dim=2,
    rope_theta=Fraction(10000),
    rope_scaling=None,
    rope_pairing=RopePairing.INTERLEAVED,
    rms_norm_eps=Fraction(1, 1 << 17),
    max_position_embeddings=16,
    tie_word_embeddings=True,
    has_o_bias=True,
)

VOCABULARY = Vocabulary(
    kind=TokenizerKind.BYTE_BPE,
    pre_tokenizer=PreTokenizer.SMOLLM,
    tokens=("a", "Ġ", "aa", "Ġa", "<|end|>"),
    token_types=bytes([1, 1, 1, 1, 3]),
    merges=((0, 0), (1, 0)),
    eos_token_id=4,
    end_token_ids=(4,),
)

GOLDEN = Golden(
    runs=(
        GoldenRun(
            text="aa a",
            prompt_token_ids=(2, 3),
            token_ids=(0, 4),
            digest=bytes(range(32)),
            segment_digests=tuple(bytes([value]) * 32 for value in (1, 2, 3)),
        ),
        GoldenRun(
            text=None,
            prompt_token_ids=(0,),
            token_ids=(0,),
            digest=bytes(32),
            segment_digests=(bytes(32),) * 3,
        ),
    ),
    weight_digests=tuple(bytes([value]) * 32 for value in (4, 5, 6)),
    token_pairs=(TokenPair(text='é"\n', token_ids=()), TokenPair(text="a", token_ids=(0,))),
)

PARTS = ArtifactParts(
    config=CONFIG,
    fraction_bits=FractionBits(
        residual=16, layers=(LayerFractionBits(q=20, k=19, v=18, gate=17, up=16),)
    ),
    vocabulary=VOCABULARY,
    provenance=Provenance(
        source_sha256=bytes(range(32)),
        converter_version="0.1.0",
        options={"weights": "int8"},
    ),
    chat_template="{{ messages[0].content }} ü",
    golden=GOLDEN,
)


def panels(codes: list[list[int]]) -> bytes:
    """Lay rows of codes out in panels of 16 rows by 4 columns, straight from the definition."""
    rows, columns = len(codes), len(codes[0])
    laid_out = bytearray(size_bytes(Encoding.PANEL_INT8, (rows, columns)))
    panels_per_block = -(-columns // 4)
    for n, row in enumerate(codes):
        for k, code in enumerate(row):
            at = ((n // 16 * panels_per_block + k // 4) * 16 + n % 16) * 4 + k % 4
            laid_out[at] = code & 0xFF
    return bytes(laid_out)


def panel_tensor(name: str, rows: int, columns: int) -> Tensor:
    """A tensor with all codes from -127 to 127 in turn."""
    codes = [[(n * columns + k) * 37 % 255 - 127 for k in range(columns)] for n in range(rows)]
    return Tensor(
        name=name,
        encoding=Encoding.PANEL_INT8,
        shape=(rows, columns),
        exponent=0,
        data=memoryview(panels(codes)),
    )


def int4_panels(codes: list[list[int]], scales: list[list[int]]) -> bytes:
    """Lay rows of codes and of scales out in panels of 16 rows, straight from the definition."""
    rows, columns, groups = len(codes), len(codes[0]), len(scales[0])
    scales_size = -(-groups * 16 // 64) * 64
    gap = bytes(scales_size - groups * 16)
    panel = b"\1" * groups * 16 + gap + b"\x88" * groups * 256
    laid_out = bytearray(panel * -(-rows // 16))
    for n in range(rows):
        start = n // 16 * len(panel)
        for group in range(groups):
            laid_out[start + group * 16 + n % 16] = scales[n][group]
        for k in range(columns):
            at = start + scales_size + k // 8 * 64 + n % 16 * 4 + k % 4
            laid_out[at] += codes[n][k] * (16 if k % 8 >= 4 else 1)
    return bytes(laid_out)


def int4_tensor(name: str, rows: int, columns: int) -> Tensor:
    """A tensor with all codes from -7 to 7 and scales from 1 to 64 in turn."""
    codes = [[(n * columns + k) * 4 % 15 - 7 for k in range(columns)] for n in range(rows)]
    groups = -(-columns // 32)
    scales = [[(n * groups + g) * 29 % 64 + 1 for g in range(groups)] for n in range(rows)]
    return Tensor(
        name=name,
        encoding=Encoding.PANEL_INT4,
        shape=(rows, columns),
        exponent=0,
        data=memoryview(int4_panels(codes, scales)),
    )


def int32_tensor(name: str, numbers: list[int], exponent: int = 0) -> Tensor:
    """A tensor of the given numbers."""
    return Tensor(
        name=name,
        encoding=Encoding.INT32,
        shape=(len(numbers),),
        exponent=exponent,
        data=memoryview(struct.pack(f"<{len(numbers)}i", *numbers)),
    )


def tiny_tensors() -> dict[str, Tensor]:
    """Tensors of every encoding and role; no model needs just these."""
    tensors = [
        panel_tensor("embed", 5, 6),
        int32_tensor("embed.mantissas", [0, 1, 2, 3, (1 << 24) - 1], exponent=31),
        int32_tensor("final_norm", [-(1 << 23), 0, 1, 2, 3, 1 << 23], exponent=-3),
        panel_tensor("layers.0.gate_proj", 17, 8),
        int32_tensor("layers.0.o_proj.bias", [1 - (1 << 31), (1 << 31) - 1]),
        Tensor(
            name="rope.cos",
            encoding=Encoding.INT32,
            shape=(2, 1),
            exponent=30,
            data=memoryview(array("i", [1 << 30, -(1 << 30)])).cast("B"),
        ),
        int4_tensor("up_proj", 17, 36),
        int32_tensor("up_proj.mantissas", [(1 << 23) - 1] * 17),
    ]
    return {tensor.name: tensor for tensor in tensors}


def sections_of(file: bytes) -> dict[SectionType, bytes]:
    """Cut a sound file into its sections."""
    found = {}
    for index in range(struct.unpack_from("<I", file, 12)[0]):
        kind, _, offset, size = struct.unpack_from("<IIQQ", file, 64 + 40 * index)
        found[SectionType(kind)] = file[offset : offset + size]
    return found


def with_section(file: bytes, kind: SectionType, content: bytes) -> bytes:
    """Give a sound file another section and lay it out and seal it anew."""
    sections = sections_of(file) | {kind: content}
    sections = {kind: sections[kind] for kind in sorted(sections) if sections[kind]}
    places = section_places({kind: len(content) for kind, content in sections.items()})
    rows = b""
    end = 64 + 40 * len(places)
    body = b""
    for place in places:
        alignment = 4096 if place.type is SectionType.WEIGHTS else 64
        size = place.size_bytes
        rows += struct.pack("<IIQQQII", place.type, 0, place.offset_bytes, size, size, alignment, 0)
        body += bytes(place.offset_bytes - end) + sections[place.type]
        end = place.end_bytes
    header = b"SSLM" + struct.pack("<IIIIIQ32s", 16, 64, len(places), 0, 0, end, bytes(32))
    return reseal(header + rows + body)


def reseal(file: bytes) -> bytes:
    """Compute the hash anew as far as the header and the table allow it, as an attacker would."""
    changed = bytearray(file)
    changed[32:64] = bytes(32)
    count = min(struct.unpack_from("<I", changed, 12)[0], (len(file) - 64) // 40)
    digests = b""
    for index in range(count):
        _, _, offset, size = struct.unpack_from("<IIQQ", changed, 64 + 40 * index)
        digests += hashlib.sha256(file[offset : offset + size]).digest()
    changed[32:64] = hashlib.sha256(changed[: 64 + 40 * count] + digests).digest()
    return bytes(changed)


class _MemoryFile:
    """A file's bytes without the file."""

    def __init__(self, content: bytes) -> None:
        self.view = memoryview(content)

    def close(self) -> None:
        self.view.release()


def read(content: bytes) -> Artifact:
    """Read an artifact from bytes in memory."""
    return artifact_from(_MemoryFile(content))


def patched(file: bytes, offset: int, layout: str, value: int) -> bytes:
    """Overwrite one field and seal the file again."""
    changed = bytearray(file)
    struct.pack_into(layout, changed, offset, value)
    return reseal(bytes(changed))


def tiny_file(folder: Path) -> bytes:
    """Write the tiny artifact into *folder*; return its bytes."""
    path = folder / "tiny.sslm"
    write_artifact(path, PARTS, TensorStream.of(tiny_tensors()))
    return path.read_bytes()
