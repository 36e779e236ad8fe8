"""The facts that ``sslm inspect`` shows of a model file."""

import math
from collections import Counter
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sslm.errors.base import SslmError

if TYPE_CHECKING:
    from sslm.artifact import Artifact
    from sslm.formats.gguf.file import GgufFile
    from sslm.formats.gguf.metadata import MetadataValue
    from sslm.model.config import ModelConfig

Facts = dict[str, object]

VALUE_SHOWN_CHARS_MAX: Final = 80
"""Characters of a metadata string that are shown."""


def artifact_facts(path: Path) -> Facts:
    """Return what a ``.sslm`` file holds, all of it verified.

    Raises:
        ArtifactError: If the file is not one we accept; one class per cause.
    """
    from sslm.artifact import read_artifact

    with read_artifact(path) as artifact:
        return {
            "format": "sslm",
            "path": str(path),
            "size_bytes": artifact.file_size_bytes,
            "huge_page_bytes": artifact.huge_page_bytes(),
            "sha256": artifact.file_sha256().hex(),
            "model_id": artifact.model_id.hex(),
            "arithmetic_version": artifact.arithmetic_version,
            "config": _config_facts(artifact.config),
            "fraction_bits": {
                "residual": artifact.fraction_bits.residual,
                "layers": [asdict(layer) for layer in artifact.fraction_bits.layers],
            },
            "tokenizer": _tokenizer_facts(artifact),
            "golden": _golden_facts(artifact),
            "schemas": [
                {"name": name, "size_bytes": artifact.schemas.size_bytes(name)}
                for name in artifact.schemas
            ],
            "provenance": {
                "source_sha256": artifact.provenance.source_sha256.hex(),
                "converter_version": artifact.provenance.converter_version,
                "options": dict(artifact.provenance.options),
            },
            "weights": _width_facts(artifact),
            "weights_size_bytes": artifact.weights_size_bytes,
            "tensors": [
                {
                    "name": tensor.name,
                    "encoding": tensor.encoding.name.lower(),
                    "shape": list(tensor.shape),
                    "size_bytes": tensor.data.nbytes,
                }
                for tensor in artifact.tensors.values()
            ],
        }


def gguf_facts(path: Path) -> Facts:
    """Return what a GGUF file holds, with whether it can be converted.

    Raises:
        ArtifactError: If it is no sound GGUF file; one class per cause.
    """
    from sslm.formats.gguf.file import read_gguf

    with read_gguf(path) as file:
        types = Counter(tensor.tensor_type.name for tensor in file.tensors.values())
        problem = _conversion_problem(file)
        return {
            "format": "gguf",
            "path": str(path),
            "version": file.version,
            "convertible": problem is None,
            "problem": None if problem is None else str(problem),
            "problem_status": None if problem is None else int(problem.status),
            "metadata": {key: _value_shown(file.metadata[key]) for key in file.metadata},
            "tensor_types": dict(sorted(types.items())),
            "weights_size_bytes": sum(tensor.data.nbytes for tensor in file.tensors.values()),
            "tensors": [
                {
                    "name": tensor.name,
                    "type": tensor.tensor_type.name,
                    "shape": list(tensor.shape),
                    "size_bytes": tensor.data.nbytes,
                }
                for tensor in file.tensors.values()
            ],
        }


def _config_facts(config: "ModelConfig") -> Facts:
    """Return the configuration; binary32 numbers as decimals that read back to them."""
    facts = asdict(config)
    return {name: _plain(value) for name, value in facts.items()}


def _plain(value: object) -> object:
    if isinstance(value, Fraction):
        return str(value) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def _tokenizer_facts(artifact: "Artifact") -> Facts:
    vocabulary = artifact.vocabulary
    template = artifact.chat_template
    return {
        "kind": str(vocabulary.kind),
        "pre_tokenizer": str(vocabulary.pre_tokenizer),
        "tokens": len(vocabulary.tokens),
        "merges": len(vocabulary.merges),
        "bos_token_id": vocabulary.bos_token_id,
        "eos_token_id": vocabulary.eos_token_id,
        "end_token_ids": sorted(artifact.end_token_ids()),
        "add_bos": vocabulary.add_bos,
        "chat_template_chars": None if template is None else len(template),
    }


def _width_facts(artifact: "Artifact") -> Facts:
    """Return the width of every kind of matrix; all of them where layers differ."""
    kinds: dict[str, set[str]] = {}
    for name, tensor in artifact.tensors.items():
        if tensor.encoding.is_matrix:
            width = tensor.encoding.name.removeprefix("PANEL_").lower()
            kinds.setdefault(name.rpartition(".")[2], set()).add(width)
    return {kind: ", ".join(sorted(widths)) for kind, widths in sorted(kinds.items())}


def _golden_facts(artifact: "Artifact") -> Facts:
    golden = artifact.golden
    return {
        "runs": len(golden.runs) if golden else 0,
        "token_pairs": len(golden.token_pairs) if golden else 0,
    }


def _value_shown(entry: "MetadataValue") -> object:
    """Return a scalar as it is, a long string cut, and of an array only its length."""
    from sslm.formats.gguf.metadata import MetadataArray

    value = entry.value
    if isinstance(value, MetadataArray):
        return str(entry)
    if isinstance(value, str) and len(value) > VALUE_SHOWN_CHARS_MAX:
        return f"{value[:VALUE_SHOWN_CHARS_MAX]} … ({len(value)} characters)"
    # JSON has no spelling for infinities and what is not a number.
    is_odd_number = isinstance(value, int | float) and not math.isfinite(value)
    return str(value) if is_odd_number else value


def _conversion_problem(file: "GgufFile") -> SslmError | None:
    """Return what would stop a conversion before the first weight is read."""
    from sslm.convert.source import GgufModelSource
    from sslm.convert.vocabulary import chat_template_from_gguf, vocabulary_from_gguf
    from sslm.formats.gguf.tensors import unsupported_type

    try:
        GgufModelSource(file)
        vocabulary_from_gguf(file.metadata)
        chat_template_from_gguf(file.metadata)
        for tensor in file.tensors.values():
            if not tensor.tensor_type.is_supported:
                return unsupported_type(tensor)
    except SslmError as error:
        return error
    return None
