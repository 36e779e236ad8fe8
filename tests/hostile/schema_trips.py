"""Spoiled compiled schemas: refused by name, or read as just what they say."""

from collections.abc import Iterator

from sslm.answer_schemas.vocabulary import schema_vocabulary
from sslm.artifact.prepared_schema import PreparedSchema, decode_schema
from sslm.errors.base import SchemaError
from sslm.formats.schemas.containers import encode_schema_file, read_schema_file
from sslm.schema.tokens.tables import first_difference
from tests.hostile.byte_sweep import Trip
from tests.schema_files import again, small_schema, small_tokenizer


def schema_subjects() -> Iterator[tuple[str, bytes]]:
    """Names and files of a schema with and without canonical spans."""
    yield "schema", encode_schema_file(small_schema().prepared.encoded)
    free = small_schema(canonical_spans=False).prepared.encoded
    yield "schema without canonical spans", encode_schema_file(free)


def schema_trip(sound: bytes) -> Trip:
    """Read a file, write it again, and work its tables out again.

    There is one file for given content, so what was read must give the same bytes again. What is
    not what the sound file says of its automaton or tables must have another digest.
    """
    tokenizer = small_tokenizer()
    trie = schema_vocabulary(tokenizer).trie
    original = _decoded(sound)

    def trip(content: bytes, offset: int) -> str | None:
        schema = _decoded(content)
        if encode_schema_file(again(schema.encoded)) != content:
            return "what was read is not what the file says"
        is_same = _tables(schema) == _tables(original)
        if is_same != (schema.digest == original.digest):
            return "the digest is not that of vocabulary, automaton and tables"
        split = tokenizer.encode_continuation if schema.has_canonical_spans else None
        try:
            difference = first_difference(schema.tables, trie, split)
        except SchemaError as error:
            return f"the sound automaton gives no tables: {error}" if is_same else None
        if is_same and difference and schema.has_canonical_spans == original.has_canonical_spans:
            return f"the sound tables are said to differ: {difference}"
        return None

    return trip


def _decoded(content: bytes) -> PreparedSchema:
    return decode_schema(read_schema_file(content))


def _tables(schema: PreparedSchema) -> tuple[object, ...]:
    tables = schema.tables
    return (
        schema.vocabulary_sha256,
        schema.vocab_size,
        tables.table.byte_classes,
        tables.table.steps,
        tables.table.accepting,
        tables.only,
        tables.distances,
        tables.mask_indices,
        tables.masks,
    )
