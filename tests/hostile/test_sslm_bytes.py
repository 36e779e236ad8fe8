"""A ``.sslm`` file with any one byte gone or changed."""

import pytest

from sslm.errors.base import ArtifactError, SslmError
from tests.unit.artifact import tiny_artifact
from tests.unit.artifact.tiny_artifact import patched, read, reseal


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    content = tiny_artifact.tiny_file(tmp_path_factory.mktemp("sound"))
    # If this were refused, every refusal below would say nothing.
    assert read(reseal(content)).model_id == read(content).model_id
    return content


def test_every_truncation_is_refused(sound: bytes) -> None:
    for size in range(len(sound)):
        with pytest.raises(ArtifactError):
            read(sound[:size])


def test_every_sealed_truncation_is_refused(sound: bytes) -> None:
    for size in range(64, len(sound)):
        with pytest.raises(ArtifactError):
            read(patched(sound[:size], 24, "<Q", size))


def test_every_flipped_byte_is_noticed(sound: bytes) -> None:
    for offset in range(len(sound)):
        changed = bytearray(sound)
        changed[offset] ^= 1 << offset % 8
        with pytest.raises(ArtifactError):
            read(bytes(changed))


def test_every_sealed_flip_is_refused_or_loads(sound: bytes) -> None:
    """An attacker seals again: then the content is refused by name, or is sound and another."""
    original = read(sound)
    loaded = 0
    for offset in range(64, len(sound)):
        changed = bytearray(sound)
        changed[offset] ^= (0x01, 0x80, 0xFF)[offset % 3]
        try:
            artifact = read(reseal(bytes(changed)))
        except SslmError:
            continue
        loaded += 1
        is_same_content = (
            artifact.model_id == original.model_id
            and artifact.golden == original.golden
            and artifact.provenance == original.provenance
        )
        assert not is_same_content
    assert 0 < loaded < len(sound) // 4
