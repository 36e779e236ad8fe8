"""Reading all that a GGUF file has to say."""

from contextlib import suppress
from math import prod

import numpy as np

from fuzz.target import Outcomes, require
from sslm.convert.source import GgufModelSource
from sslm.convert.vocabulary import chat_template_from_gguf, vocabulary_from_gguf
from sslm.errors.base import ArgumentError, ArtifactError
from sslm.formats.gguf.file import GgufFile, read_gguf
from sslm.formats.gguf.metadata import MetadataArray
from sslm.formats.gguf.tensors import dequantize
from sslm.text.tokenizer import Tokenizer

_TEXT = "ab <s>\u00e9"
_ACCESSED_KEY_COUNT_MAX = 8
_ELEMENT_COUNT_MAX = 1 << 20


def examine_gguf(data: bytes, outcomes: Outcomes) -> None:
    """Read a file with everything in it; each part may be refused by name.

    Raises:
        BrokenPromiseError: If what was read is not what is promised of it.
    """
    with outcomes.refusals(ArtifactError), read_gguf(data) as file:
        outcomes.reached("file read")
        _examine_metadata(file)
        for part in (_examine_tokenizer, _examine_tensors, _examine_source):
            with outcomes.refusals(ArtifactError):
                part(file, outcomes)


def _examine_metadata(file: GgufFile) -> None:
    metadata = file.metadata
    for key in list(metadata)[:_ACCESSED_KEY_COUNT_MAX]:
        value = metadata[key].value
        require(bool(str(metadata[key])), "a value can be described")
        if isinstance(value, MetadataArray):
            require(len(value.items()) == value.count, "an array has as many items as it says")
        # Each accessor takes one type and refuses all others.
        with suppress(ArtifactError):
            metadata.u32(key, at_most=(1 << 32) - 1)
        with suppress(ArtifactError):
            metadata.f32(key, at_least=0.0, at_most=1e30)
        with suppress(ArtifactError):
            metadata.string(key, at_most=1024)
        with suppress(ArtifactError):
            metadata.strings(key, at_most=1024)
        with suppress(ArtifactError):
            metadata.f32_array(key, at_most=1024)
        with suppress(ArtifactError):
            metadata.i32_array(key, at_most=1024)
        with suppress(ArtifactError):
            metadata.boolean_or(key, default=False)


def _examine_tokenizer(file: GgufFile, outcomes: Outcomes) -> None:
    chat_template_from_gguf(file.metadata)
    vocabulary = vocabulary_from_gguf(file.metadata)
    outcomes.reached("vocabulary read")
    tokenizer = Tokenizer(vocabulary)
    with outcomes.refusals(ArgumentError):
        ids = tokenizer.encode(_TEXT)
        require(all(0 <= one < tokenizer.vocab_size for one in ids), "ids are in range")
        tokenizer.decode(ids)
        outcomes.reached("text encoded")


def _examine_tensors(file: GgufFile, outcomes: Outcomes) -> None:
    for tensor in file.tensors.values():
        require(
            tensor.row_count * tensor.row_size_bytes == tensor.data.nbytes,
            "a tensor has exactly the bytes of its rows",
        )
        if prod(tensor.shape) > _ELEMENT_COUNT_MAX:
            continue
        with outcomes.refusals(ArtifactError):
            elements = dequantize(tensor)
            require(elements.shape == tensor.shape, "a dequantized tensor has its shape")
            require(bool(np.isfinite(elements).all()), "a dequantized tensor is finite")
            outcomes.reached(f"dequantized {tensor.tensor_type.name}")


def _examine_source(file: GgufFile, outcomes: Outcomes) -> None:
    source = GgufModelSource(file)
    outcomes.reached("model complete")
    require(source.config.vocab_size >= 1, "a model has tokens")
