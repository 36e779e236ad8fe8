"""What is written is read back, all of it."""

import hashlib
import os
import struct
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from sslm.artifact import TensorStream, read_artifact, write_artifact
from sslm.model.config import RopePairing, RopeScaling, RopeScalingKind
from sslm.text.vocabulary import PreTokenizer, TokenizerKind, Vocabulary
from tests.unit.artifact import tiny_artifact


@pytest.fixture
def tiny_path(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.sslm"
    write_artifact(path, tiny_artifact.PARTS, TensorStream.of(tiny_artifact.tiny_tensors()))
    return path


@pytest.mark.parametrize("mmap", [True, False])
def test_all_parts_come_back(tiny_path: Path, mmap: bool) -> None:
    parts = tiny_artifact.PARTS
    with read_artifact(tiny_path, mmap=mmap) as artifact:
        assert artifact.config == parts.config
        assert artifact.fraction_bits == parts.fraction_bits
        assert artifact.vocabulary == parts.vocabulary
        assert artifact.provenance == parts.provenance
        assert artifact.golden == parts.golden
        assert artifact.chat_template == parts.chat_template
        assert artifact.arithmetic_version == 1
        assert artifact.file_size_bytes == tiny_path.stat().st_size
        assert artifact.file_sha256() == hashlib.sha256(tiny_path.read_bytes()).digest()
        expected = tiny_artifact.tiny_tensors()
        assert list(artifact.tensors) == sorted(expected)
        for name, tensor in artifact.tensors.items():
            assert tensor.name == name
            assert tensor.encoding is expected[name].encoding
            assert tensor.shape == expected[name].shape
            assert tensor.exponent == expected[name].exponent
            assert tensor.data == expected[name].data
            assert tensor.data.readonly


def test_optional_parts_may_be_absent(tmp_path: Path) -> None:
    parts = replace(tiny_artifact.PARTS, chat_template=None, golden=None)
    path = tmp_path / "a.sslm"
    write_artifact(path, parts, TensorStream.of(tiny_artifact.tiny_tensors()))
    with read_artifact(path) as artifact:
        assert artifact.chat_template is None
        assert artifact.golden is None


def test_every_optional_field_comes_back(tmp_path: Path) -> None:
    spellings = ("<unk>", *(f"<0x{value:02X}>" for value in range(256)), "▁", "a", "▁a", "\0b")
    vocabulary = Vocabulary(
        kind=TokenizerKind.SENTENCEPIECE,
        pre_tokenizer=PreTokenizer.DEFAULT,
        tokens=spellings,
        token_types=bytes([2, *[6] * 256, 1, 1, 1, 4]),
        scores=(0.0, *[-0.0] * 256, -1.5, -(2.0**-149), 3.4028234663852886e38, 7.0),
        bos_token_id=1,
        eos_token_id=2,
        unknown_token_id=0,
        padding_token_id=3,
        end_token_ids=(2, 5),
        add_bos=True,
        add_eos=True,
        add_space_prefix=True,
    )
    config = replace(
        tiny_artifact.CONFIG,
        vocab_size=len(spellings),
        rope_scaling=RopeScaling(kind=RopeScalingKind.LINEAR, factor=Fraction(5, 2)),
        rope_pairing=RopePairing.HALF,
        tie_word_embeddings=False,
        has_qkv_bias=True,
        has_mlp_bias=True,
    )
    parts = replace(tiny_artifact.PARTS, config=config, vocabulary=vocabulary, golden=None)
    path = tmp_path / "a.sslm"
    write_artifact(path, parts, TensorStream.of(tiny_artifact.tiny_tensors()))
    with read_artifact(path) as artifact:
        assert artifact.config == config
        assert artifact.vocabulary == vocabulary
        assert str(artifact.vocabulary.scores) == str(vocabulary.scores)


def test_same_parts_give_same_bytes(tmp_path: Path, tiny_path: Path) -> None:
    tensors = tiny_artifact.tiny_tensors()
    again = tmp_path / "again.sslm"
    write_artifact(again, tiny_artifact.PARTS, TensorStream.of(dict(reversed(tensors.items()))))
    assert again.read_bytes() == tiny_path.read_bytes()


def test_layout_is_the_documented_one(tiny_path: Path) -> None:
    file = tiny_path.read_bytes()
    assert struct.unpack_from("<4sIIIIIQ", file) == (b"SSLM", 16, 64, 7, 0, 0, len(file))
    rows = [struct.unpack_from("<IIQQQII", file, 64 + 40 * index) for index in range(7)]
    assert [row[0] for row in rows] == [0, 1, 2, 11, 16, 20, 21]
    assert all(row[1] == 0 and row[3] == row[4] and row[6] == 0 for row in rows)
    assert [row[5] for row in rows] == [64, 64, 4096, 64, 64, 64, 64]
    assert rows[-1][2] + rows[-1][3] == len(file)
    head = bytearray(file[: 64 + 40 * 7])
    head[32:64] = bytes(32)
    digests = b"".join(hashlib.sha256(file[row[2] : row[2] + row[3]]).digest() for row in rows)
    assert file[32:64] == hashlib.sha256(head + digests).digest()
    identity = b"sslm model\0" + struct.pack("<I", 1)
    for row in rows:
        if row[0] in (0, 2, 16, 20, 21):
            data = file[row[2] : row[2] + row[3]]
            identity += struct.pack("<IQ", row[0], row[3]) + hashlib.sha256(data).digest()
    with read_artifact(tiny_path) as artifact:
        assert artifact.model_id == hashlib.sha256(identity).digest()


@pytest.mark.parametrize(
    ("has_int4", "pinned"),
    [
        (False, "6a3d51c211edaf9e2c163eec5a4d7c81a429352ac80fc434564ae4e9d9795f42"),
        (True, "8eef068345f1aebc39addb5de830efc7e9c981146ca59a2577e31ed4530639fd"),
    ],
)
def test_pinned_bytes(*, tmp_path: Path, has_int4: bool, pinned: str) -> None:
    """Changed bytes for unchanged parts are a change of the format."""
    tensors = {
        name: tensor
        for name, tensor in tiny_artifact.tiny_tensors().items()
        if has_int4 or not name.startswith("up_proj")
    }
    write_artifact(tmp_path / "pinned.sslm", tiny_artifact.PARTS, TensorStream.of(tensors))
    found = hashlib.sha256((tmp_path / "pinned.sslm").read_bytes()).hexdigest()
    assert found == pinned


def test_model_id_ignores_what_changes_no_token(tmp_path: Path, tiny_path: Path) -> None:
    provenance = replace(tiny_artifact.PARTS.provenance, converter_version="other")
    parts = replace(tiny_artifact.PARTS, provenance=provenance, golden=None)
    tensors = tiny_artifact.tiny_tensors()
    write_artifact(tmp_path / "b.sslm", parts, TensorStream.of(tensors))
    parts = replace(parts, chat_template="another")
    write_artifact(tmp_path / "c.sslm", parts, TensorStream.of(tensors))
    with (
        read_artifact(tiny_path) as first,
        read_artifact(tmp_path / "b.sslm") as second,
        read_artifact(tmp_path / "c.sslm") as third,
    ):
        assert first.model_id == second.model_id
        assert first.model_id != third.model_id
        assert first.file_sha256() != second.file_sha256()


def test_tensors_lie_at_their_alignment(tiny_path: Path) -> None:
    with read_artifact(tiny_path, mmap=False) as artifact:
        start = artifact.file.view
        for tensor in artifact.tensors.values():
            offset = _address(tensor.data) - _address(start)
            assert offset % 256 == 0
            assert _address(tensor.data) % 256 == 0


def test_close_gives_the_file_back(tiny_path: Path) -> None:
    def is_mapped() -> bool:
        return str(tiny_path) in Path("/proc/self/maps").read_text()

    artifact = read_artifact(tiny_path)
    tensor = artifact.tensors["embed"]
    assert is_mapped()
    artifact.close()
    artifact.close()
    assert not is_mapped()
    with pytest.raises(ValueError, match="released"):
        bytes(tensor.data)


def test_copied_file_may_change_afterwards(tiny_path: Path) -> None:
    with read_artifact(tiny_path, mmap=False) as artifact:
        os.truncate(tiny_path, 0)
        assert artifact.tensors["embed"].data == tiny_artifact.tiny_tensors()["embed"].data


def _address(view: memoryview) -> int:
    import numpy as np

    return int(np.frombuffer(view, dtype=np.uint8).ctypes.data)
