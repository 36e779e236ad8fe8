"""Small compiled schemas, and ways to change what files hold of them."""

import json

from sslm.answer_schemas.schema import Schema
from sslm.formats.bounded_reader import BoundedReader
from sslm.formats.schemas.blob import SchemaRecord, encode_schema, read_schema
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import (
    CHARACTER_OF_BYTE,
    PreTokenizer,
    TokenizerKind,
    TokenType,
    Vocabulary,
)

SMALL = {
    "title": "Lamp",
    "type": "object",
    "properties": {
        "is_on": {"type": "boolean"},
        "level": {"type": "integer", "minimum": 0, "maximum": 20},
        "mood": {"type": "string", "maxLength": 2},
    },
    "required": ["is_on"],
    "additionalProperties": False,
}
MERGES = ("i s", "o n", "_ on", "t r", "u e", "tr ue", '{ "', '" :', "l e", "v e", "le ve")
"""In the order of their ranks."""


def small_vocabulary(*more: str) -> Vocabulary:
    """All bytes, some words of the small schema, and an end token."""
    pairs = [pair.split() for pair in MERGES]
    words = ["".join(pair) for pair in pairs]
    tokens = (*map(CHARACTER_OF_BYTE.__getitem__, range(256)), *words, *more, "<|end|>")
    return Vocabulary(
        kind=TokenizerKind.BYTE_BPE,
        pre_tokenizer=PreTokenizer.GPT_2,
        tokens=tokens,
        token_types=bytes([TokenType.NORMAL] * (len(tokens) - 1) + [TokenType.CONTROL]),
        merges=tuple((tokens.index(left), tokens.index(right)) for left, right in pairs),
        eos_token_id=len(tokens) - 1,
        end_token_ids=(len(tokens) - 1,),
    )


def small_tokenizer(*more: str) -> Tokenizer:
    """The tokenizer of that vocabulary."""
    return Tokenizer(small_vocabulary(*more))


def small_schema(name: str = "lamp", **options: object) -> Schema:
    """The small schema, compiled for the small vocabulary."""
    return Schema.compile(SMALL, tokenizer=small_tokenizer(), name=name, **options)  # type: ignore[arg-type]


def record_of(schema: Schema) -> SchemaRecord:
    """What a file holds of a schema, taken apart."""
    return read_schema(BoundedReader(memoryview(schema.prepared.encoded)))


def again(encoded: bytes) -> bytes:
    """Read a compiled schema, and write it."""
    return encode_schema(read_schema(BoundedReader(memoryview(encoded))))


def text(document: object) -> str:
    """A document as JSON text with spaces in it."""
    return json.dumps(document, indent=1)
