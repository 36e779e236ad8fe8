"""Whole GGUF models with one thing changed, and reading all there is to read of them."""

from collections.abc import Mapping

from sslm.convert.source import GgufModelSource
from sslm.convert.vocabulary import chat_template_from_gguf, vocabulary_from_gguf
from sslm.formats.gguf.file import read_gguf
from sslm.formats.gguf.tensors import dequantize
from sslm.model.families import FAMILIES
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import Vocabulary
from tests.gguf_files import Value, gguf_bytes
from tests.hostile.small_models import (
    Tensors,
    byte_level_metadata,
    model_tensors,
    sentencepiece_metadata,
    vocab_size_of,
)

Metadata = dict[str, Value]


def load(content: bytes) -> Vocabulary:
    """Read all of a GGUF model."""
    with read_gguf(content) as file, GgufModelSource(file) as source:
        for name in file.tensors:
            dequantize(file.tensors[name])
        chat_template_from_gguf(file.metadata)
        vocabulary = vocabulary_from_gguf(file.metadata)
        Tokenizer(vocabulary)
        assert source.config.architecture in FAMILIES
        return vocabulary


def model(metadata: Metadata, tensors: Tensors | None = None) -> bytes:
    """A GGUF model, with the tensors that it should have unless others are given."""
    if tensors is None:
        tensors = model_tensors(vocab_size_of(metadata))
    return gguf_bytes(metadata, tensors)


def byte_level(**changes: Value) -> bytes:
    """A byte-level model with some metadata changed; a dot is spelled ``__``."""
    return model(byte_level_metadata() | _keys(changes), model_tensors(260))


def sentencepiece(**changes: Value) -> bytes:
    """A SentencePiece model, likewise."""
    return model(sentencepiece_metadata() | _keys(changes), model_tensors(263))


def _keys(changes: Mapping[str, Value]) -> Metadata:
    return {key.replace("__", "."): value for key, value in changes.items()}


def strings_of(metadata: Metadata, key: str) -> list[str]:
    """The texts of an array, to be changed."""
    found = metadata[key]
    assert isinstance(found, list)
    return [str(one) for one in found]
