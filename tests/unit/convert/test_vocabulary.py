"""Vocabularies out of GGUF metadata: defaults, names, and what is not supported."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sslm.convert.vocabulary import chat_template_from_gguf, vocabulary_from_gguf
from sslm.errors import text as errors
from sslm.errors.status import Status
from sslm.formats.gguf.file import read_gguf
from sslm.formats.gguf.metadata import GgufMetadata, MetadataArray, MetadataValue
from sslm.formats.gguf.types import ValueType
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import PreTokenizer, TokenizerKind, TokenType
from tests.causes import Kind, raises
from tests.data import shared_data
from tests.unit.text.vocabularies import published_path, published_tokenizer


def _strings(*items: str) -> MetadataValue:
    return MetadataValue(ValueType.ARRAY, MetadataArray(ValueType.STRING, len(items), items))


def _numbers(*items: int) -> MetadataValue:
    content = b"".join(item.to_bytes(4, "little", signed=True) for item in items)
    return MetadataValue(ValueType.ARRAY, MetadataArray(ValueType.INT32, len(items), content))


def _text(value: str) -> MetadataValue:
    return MetadataValue(ValueType.STRING, value)


def _metadata(changes: Mapping[str, MetadataValue | None] | None = None) -> GgufMetadata:
    """Return a byte-level vocabulary of a few tokens, with keys changed or (None) left out."""
    fields: dict[str, Any] = {
        "model": _text("gpt2"),
        "pre": _text("smollm"),
        "tokens": _strings("a", "b", "ab", "abb", "<|im_end|>", "</s>", "<x>"),
        "token_type": _numbers(1, 1, 1, 1, 3, 4, 3),
        "merges": _strings("a b", "ab b"),
        "eos_token_id": MetadataValue(ValueType.UINT32, 6),
        **(changes or {}),
    }
    return GgufMetadata(
        {f"tokenizer.ggml.{key}": value for key, value in fields.items() if value is not None}
    )


def test_a_byte_level_vocabulary() -> None:
    vocabulary = vocabulary_from_gguf(_metadata())
    assert vocabulary.kind is TokenizerKind.BYTE_BPE
    assert vocabulary.pre_tokenizer is PreTokenizer.SMOLLM
    assert vocabulary.merges == ((0, 1), (2, 1))
    assert (vocabulary.bos_token_id, vocabulary.eos_token_id) == (None, 6)
    # The control token with a known spelling ends an answer, the user-defined one does not.
    assert vocabulary.end_token_ids == (4, 6)
    assert not vocabulary.add_bos
    assert not vocabulary.add_space_prefix
    assert not vocabulary.ignore_merges


def test_named_end_tokens() -> None:
    eot = {"eot_token_id": MetadataValue(ValueType.UINT32, 3)}
    eom = {"eom_token_id": MetadataValue(ValueType.UINT32, 2)}
    assert vocabulary_from_gguf(_metadata(eot | eom)).end_token_ids == (2, 3, 4, 6)


def test_without_types_all_tokens_are_normal() -> None:
    vocabulary = vocabulary_from_gguf(_metadata({"token_type": None}))
    assert set(vocabulary.token_types) == {TokenType.NORMAL}


def test_without_types_a_spelling_that_is_no_byte_is_text_of_its_own() -> None:
    tokens = {"tokens": _strings("a", "b", "ab", "abb", "<｜x｜>", "c d", "e")}
    vocabulary = vocabulary_from_gguf(_metadata(tokens | {"token_type": None}))
    assert list(vocabulary.token_types) == [1, 1, 1, 1, 4, 4, 1]
    assert Tokenizer(vocabulary).encode("ab<｜x｜>b") == [2, 4, 1]


def test_without_types_sentencepiece_knows_its_bytes() -> None:
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *byte_tokens, "\u2581", "a"]
    fields = {
        "model": _text("llama"), "pre": None, "merges": None, "token_type": None,
        "tokens": _strings(*tokens), "eos_token_id": None,
        "scores": MetadataValue(
            ValueType.ARRAY,
            MetadataArray(ValueType.FLOAT32, len(tokens), bytes(4 * len(tokens))),
        ),
    }  # fmt: skip
    vocabulary = vocabulary_from_gguf(_metadata(fields))
    assert list(vocabulary.token_types) == [1] * 3 + [6] * 256 + [1] * 2
    tokenizer = Tokenizer(vocabulary)
    assert tokenizer.encode("aé", add_bos=False) == [259, 260, 3 + 0xC3, 3 + 0xA9]
    assert tokenizer.decode([259, 260, 3 + 0xC3, 3 + 0xA9]) == "aé"


def test_llama_3_takes_whole_pieces_and_begins_with_its_token() -> None:
    bos = {"bos_token_id": MetadataValue(ValueType.UINT32, 6)}
    for name in ("llama-bpe", "llama3", "llama-v3"):
        vocabulary = vocabulary_from_gguf(_metadata(bos | {"pre": _text(name)}))
        assert vocabulary.pre_tokenizer is PreTokenizer.LLAMA_BPE
        assert vocabulary.ignore_merges
        assert vocabulary.add_bos
    told = {"add_bos_token": MetadataValue(ValueType.BOOL, False)}
    assert not vocabulary_from_gguf(_metadata(bos | told | {"pre": _text("llama3")})).add_bos


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"model": _text("bert")}, errors.TokenizerUnsupportedError, "'bert'.*gpt2, llama"),
        ({"pre": _text("tekken")}, errors.TokenizerUnsupportedError, "'tekken'.*gpt-2, llama-bpe"),
        ({"pre": None}, errors.TokenizerUnsupportedError, "''.*smollm"),
        ({"pre": _text("default")}, errors.TokenizerUnsupportedError, "'default'.*qwen2"),
        ({"token_type": _numbers(1, 1, -1)}, errors.TokenTypeError, "token 2 has the type -1"),
        ({"token_type": _numbers(1)}, errors.VocabularyCountError, "7 tokens but 1 token types"),
        ({"merges": _strings("a b", "ab c")}, errors.MergePartError, "merge 1 joins 'c'"),
        ({"merges": _strings("ab")}, errors.MergePartError, "merge 0 joins ''"),
        ({"tokens": None}, Status.GGUF_MISSING_KEY, "tokens"),
        ({"merges": None}, Status.GGUF_MISSING_KEY, "merges"),
    ],
)
def test_defects(changes: Mapping[str, MetadataValue | None], error: Kind, words: str) -> None:
    with raises(error, match=words):
        vocabulary_from_gguf(_metadata(changes))


def test_the_published_sentencepiece_vocabulary() -> None:
    vocabulary = published_tokenizer("llama-spm").vocabulary
    assert (vocabulary.bos_token_id, vocabulary.eos_token_id) == (1, 2)
    assert vocabulary.unknown_token_id == 0
    assert vocabulary.end_token_ids == (2,)
    assert vocabulary.add_bos
    assert vocabulary.add_space_prefix
    assert vocabulary.scores[259] == -1e9
    assert published_tokenizer("llama-spm").encode("Hello world") == [1, 15043, 3186]


def test_stories() -> None:
    with read_gguf(shared_data("stories260K/stories260K-F32.gguf")) as file:
        vocabulary = vocabulary_from_gguf(file.metadata)
    assert len(vocabulary.tokens) == 512
    assert replace(vocabulary) == vocabulary


def test_chat_templates() -> None:
    with read_gguf(published_path("qwen2")) as file:
        template = chat_template_from_gguf(file.metadata)
    assert template is not None
    assert "<|im_start|>" in template
    assert chat_template_from_gguf(_metadata()) is None
