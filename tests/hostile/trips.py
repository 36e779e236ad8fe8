"""A file's whole trip, as far as it goes, with the proof that what was loaded is what it says."""

import hashlib
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from sslm.artifact import Artifact, read_artifact
from sslm.convert.conversion import convert_gguf
from sslm.convert.source import GgufModelSource
from sslm.convert.vocabulary import chat_template_from_gguf, vocabulary_from_gguf
from sslm.engine.model import Model
from sslm.formats.gguf.file import GgufFile, read_gguf
from sslm.formats.gguf.metadata import MetadataArray
from sslm.formats.gguf.tensors import dequantize
from sslm.formats.sslm.container import SectionType
from sslm.text.tokenizer import Tokenizer
from tests.hostile.byte_sweep import Trip
from tests.hostile.small_models import golden_of, rewritten
from tests.unit.artifact.tiny_artifact import sections_of

Content = dict[str, Any]

LOOK_MASK = 0xFF
"""The change of a byte that the ``gguf`` package is shown."""

NO_TOKENS_OF = {SectionType.PROVENANCE}
"""Sections whose content no verification can miss: nothing is computed from it."""


# GGUF.


def gguf_trip(sound: bytes, folder: Path) -> Trip:
    """Read a GGUF model with its configuration, tokenizer and all weights.

    What loads must differ from *sound* unless the change is in bytes that belong to nothing, and
    must be what the ``gguf`` package reads from the same bytes.
    """
    original = repr(gguf_content(sound))
    unclaimed = _unclaimed(sound, folder)

    def trip(content: bytes, offset: int) -> str | None:
        found = gguf_content(content)
        # That reader takes ten times as long, so it sees one change of each byte.
        is_shown = content == sound or content[offset:][:1] == bytes([sound[offset] ^ LOOK_MASK])
        if is_shown and (problem := _difference(found, _read_elsewhere(content, folder))):
            return f"the gguf package reads otherwise: {problem}"
        is_same = repr(found) == original
        if is_same != (content == sound or offset in unclaimed or offset >= len(sound)):
            return "a change is not seen" if is_same else "unused bytes change what is read"
        return None

    return trip


def gguf_content(content: bytes) -> Content:
    """Everything that is read from a GGUF model."""
    with read_gguf(content) as file, GgufModelSource(file) as source:
        vocabulary = vocabulary_from_gguf(file.metadata)
        tokenizer = Tokenizer(vocabulary)
        return {
            **_records(file),
            "weights": {
                name: dequantize(tensor).tobytes() for name, tensor in file.tensors.items()
            },
            "config": source.config,
            "vocabulary": vocabulary,
            "template": chat_template_from_gguf(file.metadata),
            "ids": tokenizer.encode("he ab"),
        }


def _records(file: GgufFile) -> Content:
    values = {}
    for key in file.metadata:
        found = file.metadata[key]
        value = found.value
        if isinstance(value, MetadataArray):
            values[key] = [value.item_type, repr(list(value.items()))]
        else:
            values[key] = [found.value_type, repr(value)]
    tensors = {
        name: [tensor.shape, tensor.tensor_type.type_id, bytes(tensor.data)]
        for name, tensor in file.tensors.items()
    }
    return {"version": file.version, "values": values, "tensors": tensors}


def _read_elsewhere(content: bytes, folder: Path) -> Content:
    """The same as far as the ``gguf`` package reads it, under the same names."""
    path = folder / "spoiled.gguf"
    path.write_bytes(content)
    reader = gguf.GGUFReader(path)
    values = {
        field.name: [int(field.types[-1]), repr(field.contents())]
        for field in reader.fields.values()
        if not field.name.startswith("GGUF.")
    }
    tensors, weights = {}, {}
    for tensor in reader.tensors:
        data = content[tensor.data_offset : tensor.data_offset + tensor.n_bytes]
        shape = tuple(int(size) for size in reversed(tensor.shape))
        tensors[tensor.name] = [shape, int(tensor.tensor_type), data]
        numbers = gguf.dequantize(tensor.data, tensor.tensor_type)
        weights[tensor.name] = numbers.astype(np.float32).tobytes()
    version = int(reader.fields["GGUF.version"].parts[0][0])
    return {"version": version, "values": values, "tensors": tensors, "weights": weights}


def _difference(found: Content, elsewhere: Content) -> str | None:
    for part, expected in elsewhere.items():
        if found[part] == expected:
            continue
        if not isinstance(expected, dict):
            return f"{part}: {found[part]} and {expected}"
        keys = [
            key for key in {*found[part], *expected} if found[part].get(key) != expected.get(key)
        ]
        return f"{part}: {min(keys)}"
    return None


def _unclaimed(sound: bytes, folder: Path) -> frozenset[int]:
    """Offsets of the bytes that belong to no field and no tensor."""
    path = folder / "sound.gguf"
    path.write_bytes(sound)
    reader = gguf.GGUFReader(path)
    last = reader.tensors[-1].field
    used = set(range(last.offset + sum(part.nbytes for part in last.parts)))
    for tensor in reader.tensors:
        used.update(range(tensor.data_offset, tensor.data_offset + tensor.n_bytes))
    return frozenset(range(len(sound))) - used


def conversion_trip(folder: Path) -> Trip:
    """Convert a GGUF model; the finished artifact is read back and verified on the way."""

    def trip(content: bytes, offset: int) -> str | None:
        source, out = folder / "spoiled.gguf", folder / "spoiled.sslm"
        source.write_bytes(content)
        report = convert_gguf(source, out)
        with read_artifact(out) as artifact:
            is_it = artifact.provenance.source_sha256 == hashlib.sha256(content).digest()
        return None if is_it and report.file_size_bytes else "another source is named"

    return trip


# Artifacts.


def artifact_trip(sound: bytes, folder: Path) -> Trip:
    """Open an artifact, write it again, run it and verify it.

    There is one file for given content, so what was read must give the same bytes again: no byte
    goes unseen. Verification must notice every change but one of the provenance; and once the
    golden runs are recorded anew on the reference backend, it must find nothing.
    """
    unverified = _offsets_of(sound, NO_TOKENS_OF)

    def trip(content: bytes, offset: int) -> str | None:
        path = folder / "spoiled.sslm"
        path.write_bytes(content)
        with read_artifact(path, mmap=False) as artifact:
            again = rewritten(artifact, folder / "again.sslm", artifact.golden)
            if again != content:
                return "what was read is not what the file says"
            if problem := _verify(path, is_right=content == sound or offset in unverified):
                return problem
            return _verify_forged(artifact, folder / "forged.sslm")

    return trip


def _verify(path: Path, *, is_right: bool) -> str | None:
    with Model(path) as model:
        report = model.verify()
        tokens = model.generate([2, 3], max_tokens=2).token_ids
    if report.ok != is_right:
        return f"verification says {report.first_difference!r}"
    return None if len(tokens) >= 1 else "no token was generated"


def _verify_forged(artifact: Artifact, path: Path) -> str | None:
    rewritten(artifact, path, golden_of(artifact))
    problem = _verify(path, is_right=True)
    return None if problem is None else f"with golden runs recorded anew, {problem}"


def _offsets_of(sound: bytes, kinds: set[SectionType]) -> frozenset[int]:
    offsets: set[int] = set()
    for kind, content in sections_of(sound).items():
        if kind in kinds:
            start = sound.index(content)
            offsets.update(range(start, start + len(content)))
    return frozenset(offsets)
