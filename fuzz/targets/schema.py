"""Bytes as a compiled schema with a hash that is right, and as a section of schemas."""

from functools import cache
from typing import Final

from fuzz.schema_seeds import VOCAB_SIZE
from fuzz.sealed_mutation import sealed, sealed_mutation
from fuzz.target import ByteMutator, Outcomes, Target, require
from sslm.artifact.prepared_schema import PreparedSchema, decode_schema
from sslm.artifact.stored_schemas import StoredSchemas
from sslm.errors.base import ArtifactError, SchemaError
from sslm.formats.bounded_reader import BoundedReader
from sslm.formats.schemas.blob import encode_schema, read_schema
from sslm.formats.schemas.containers import encode_schema_file, read_schema_file
from sslm.schema.tokens.tables import first_difference
from sslm.schema.tokens.trie import TokenTrie

_SIZE_BYTES_MAX: Final = 1 << 12


def run(data: bytes, outcomes: Outcomes) -> None:
    """Read a file with its hash put right, and a section; write them again."""
    blob = sealed(data)
    with outcomes.refusals(ArtifactError):
        schema = decode_schema(read_schema_file(blob))
        outcomes.reached("read")
        _require_kept(schema)
        require(encode_schema_file(schema.encoded) == blob, "a file is what it is read as")
        _cross_check(schema, outcomes)
    with outcomes.refusals(ArtifactError):
        stored = StoredSchemas.read(
            memoryview(data), base_offset_bytes=0, vocabulary_sha256=bytes(32)
        )
        outcomes.reached("section")
        require(stored.with_others([]) == data, "a section is what it is read as")
        for name in stored:
            _require_kept(stored[name])


def _require_kept(schema: PreparedSchema) -> None:
    again = encode_schema(read_schema(BoundedReader(memoryview(schema.encoded))))
    require(again == schema.encoded, "what is read is written as the same bytes")


def _cross_check(schema: PreparedSchema, outcomes: Outcomes) -> None:
    if schema.vocab_size != VOCAB_SIZE:
        return
    with outcomes.refusals(SchemaError):
        difference = first_difference(
            schema.tables,
            _trie(),
            lambda text: list(text.encode()),
            leaves_blank=schema.options.leaves_blank,
        )
        outcomes.reached("differs" if difference else "cross-checked")


@cache
def _trie() -> TokenTrie:
    return TokenTrie({byte: bytes([byte]) for byte in range(VOCAB_SIZE)}, VOCAB_SIZE)


def mutate(data: bytes, size_bytes_max: int, seed: int, mutated: ByteMutator) -> bytes:
    """Change a file and seal it again."""
    return sealed_mutation(TARGET.seeds, data, size_bytes_max, seed, mutated)


TARGET: Final = Target(
    name="schema",
    subject="a sealed compiled schema to its reader and its cross-check, and a section of them",
    run=run,
    modules=(
        "sslm.artifact.prepared_schema",
        "sslm.artifact.schema_options",
        "sslm.artifact.stored_schemas",
        "sslm.formats.schemas.automaton",
        "sslm.formats.schemas.blob",
        "sslm.formats.schemas.containers",
        "sslm.formats.schemas.masks",
        "sslm.formats.schemas.tables",
        "sslm.formats.whole_numbers",
        "sslm.schema.tokens.tables",
    ),
    size_bytes_max=_SIZE_BYTES_MAX,
    reaches=("read", "section", "cross-checked"),
    mutate=mutate,
)
