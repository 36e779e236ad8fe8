"""Small real vocabularies, and the published ones."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from sslm.convert.vocabulary import vocabulary_from_gguf
from sslm.formats.gguf.file import read_gguf
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import (
    CHARACTER_OF_BYTE,
    PreTokenizer,
    TokenizerKind,
    TokenType,
    Vocabulary,
)
from tests.data import shared_data

PUBLISHED = ("gpt-2", "llama-bpe", "qwen2", "qwen35", "llama-spm", "starcoder", "refact")


def published_path(name: str) -> Path:
    return shared_data(f"vocab/ggml-vocab-{name}.gguf")


def published_strings(name: str) -> Iterator[tuple[str, list[int]]]:
    """Yield the strings that llama.cpp tests this vocabulary with, and the ids that it expects."""
    path = f"vocab/ggml-vocab-{name}.gguf"
    texts = shared_data(f"{path}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    assert texts.pop() == ""
    lines = shared_data(f"{path}.out").read_text().splitlines()
    for text, line in zip(texts, lines, strict=True):
        yield text, [int(word) for word in line.split()]


@cache
def published_tokenizer(name: str) -> Tokenizer:
    with read_gguf(published_path(name)) as file:
        return Tokenizer(vocabulary_from_gguf(file.metadata))


def byte_level_fields() -> dict[str, Any]:
    """Ids 0-255 are the bytes, 256-257 'he' and 'hel', 258-261 controls, 262 user-defined."""
    bytes_spelled = tuple(CHARACTER_OF_BYTE[byte] for byte in range(256))
    controls = ("<|im_start|>", "<|im_end|>", "<|end|>", "<s>")
    tokens = (*bytes_spelled, "he", "hel", *controls, "<think>")
    kinds = [TokenType.NORMAL] * 258 + [TokenType.CONTROL] * 4 + [TokenType.USER_DEFINED]
    return {
        "kind": TokenizerKind.BYTE_BPE,
        "pre_tokenizer": PreTokenizer.SMOLLM,
        "tokens": tokens,
        "token_types": bytes(kinds),
        "merges": ((ord("h"), ord("e")), (256, ord("l"))),
        "bos_token_id": 261,
        "eos_token_id": 259,
        "end_token_ids": (259, 260),
    }


def sentencepiece_fields() -> dict[str, Any]:
    """Ids 0-2 are <unk> <s> </s>, 3-258 the bytes, then pieces."""
    pieces = {"▁": -9.0, "a": -8.0, "b": -7.0, "aa": -1.0, "ab": -1.0, "▁▁": -1.0, "▁ab": -0.5}
    tokens = ("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces)
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]
    kinds += [TokenType.BYTE] * 256 + [TokenType.NORMAL] * len(pieces)
    return {
        "kind": TokenizerKind.SENTENCEPIECE,
        "pre_tokenizer": PreTokenizer.DEFAULT,
        "tokens": tokens,
        "token_types": bytes(kinds),
        "scores": (*[0.0] * 259, *pieces.values()),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
        "end_token_ids": (2,),
        "add_bos": True,
        "add_space_prefix": True,
    }


def byte_level_tokenizer(**changes: Any) -> Tokenizer:
    return Tokenizer(Vocabulary(**(byte_level_fields() | changes)))


def sentencepiece_tokenizer(**changes: Any) -> Tokenizer:
    return Tokenizer(Vocabulary(**(sentencepiece_fields() | changes)))
