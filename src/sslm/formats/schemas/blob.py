"""One compiled schema: bytes <-> records; see docs/format.md, 16."""

import struct
from dataclasses import dataclass, fields
from typing import Final

from sslm import limits
from sslm.errors.schema_files import SchemaCapacityError, SchemaMaskError, StoredSchemaNameError
from sslm.formats.bounded_reader import BoundedReader
from sslm.formats.names import is_schema_name
from sslm.formats.schemas.automaton import Row, encode_automaton, read_automaton
from sslm.formats.schemas.masks import encode_masks, mask_size_bytes, read_masks
from sslm.formats.schemas.tables import StateTables, encode_tables, read_tables
from sslm.hashes import Sha256

HASH_SIZE_BYTES: Final = 32
_TABLES: Final = struct.Struct("<7I")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRecord:
    """A schema that was compiled for a vocabulary.

    Args:
        name: Of ASCII letters, digits, ``.``, ``_`` and ``-``.
        options: How it was compiled: JSON, unchecked.
        document: The JSON Schema, unchecked.
        documents: JSON: what it refers to besides itself, unchecked; empty for nothing.
        vocabulary_sha256: 32 bytes: of the vocabulary.
        vocab_size: Token ids are below it.
        rows: The steps of its automaton.
        accepting: 1 for each state where a text may end, else 0.
        tables: What the states mean for the vocabulary.
        masks: In ascending order of :func:`sslm.formats.schemas.masks.mask_order`.
        digest: 32 bytes, of vocabulary, automaton and tables: what an answer can depend on.
    """

    name: str
    options: bytes
    document: bytes
    documents: bytes
    vocabulary_sha256: bytes
    vocab_size: int
    rows: tuple[Row, ...]
    accepting: bytes
    tables: StateTables
    masks: tuple[bytes, ...]
    digest: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaHead:
    """What the beginning of a compiled schema says; sizes in bytes."""

    name_size: int
    options_size: int
    document_size: int
    documents_size: int
    vocab_size: int
    state_count: int
    shape_count: int
    mask_count: int
    automaton_size: int
    tables_size: int
    masks_size: int


_HEAD_NUMBERS: Final = len(fields(SchemaHead))
_HEAD: Final = struct.Struct(f"<32s{_HEAD_NUMBERS}II")


def encode_schema(record: SchemaRecord) -> bytes:
    """Return the one spelling of a compiled schema, whose digest is not looked at.

    Raises:
        SchemaCapacityError: If it is larger than those that are read.
        SchemaAutomatonError: If its states are not numbered as compiling does.
    """
    for what, found, most in _capacities(record):
        _require_capacity(what, found, most)
    shape_count, automaton = encode_automaton(record.rows, record.accepting)
    tables = encode_tables(record.rows, record.accepting, record.tables)
    masks = encode_masks(record.masks)
    name = record.name.encode("ascii")
    parts = (name, record.options, record.document, record.documents, automaton, tables, masks)
    for what, part in (("bytes of its automaton", automaton), ("bytes of its table", tables)):
        _require_capacity(what, len(part), limits.STORED_SCHEMA_PART_SIZE_BYTES_MAX)
    total = _HEAD.size + sum(map(len, parts))
    _require_capacity("bytes", total, limits.STORED_SCHEMA_SIZE_BYTES_MAX)
    head = _HEAD.pack(
        record.vocabulary_sha256,
        *map(len, parts[:4]),
        record.vocab_size,
        len(record.rows),
        shape_count,
        len(record.masks),
        *map(len, parts[4:]),
        0,
    )
    return b"".join([head, *parts])


def read_schema(reader: BoundedReader) -> SchemaRecord:
    """Check the form of a compiled schema, which is all that a reader holds, and return it.

    Whether its tables are those that its automaton and the vocabulary give is not known here.

    Raises:
        ArtifactError: One class per defect; see ``sslm.errors.schema_files`` and
            ``sslm.errors.reading``.
    """
    name, vocabulary, head = read_head(reader)
    options, document, documents, automaton, tables, masks = (
        reader.take(part, size_bytes=size)
        for part, size in (
            ("options", head.options_size),
            ("schema document", head.document_size),
            ("documents that the schema refers to", head.documents_size),
            ("automaton", head.automaton_size),
            ("table of states", head.tables_size),
            ("masks", head.masks_size),
        )
    )
    reader.require_end("the compiled schema")
    rows, accepting = read_automaton(
        automaton, state_count=head.state_count, shape_count=head.shape_count
    )
    found_masks = read_masks(masks, count=head.mask_count, vocab_size=head.vocab_size)
    return SchemaRecord(
        name=name,
        options=bytes(options),
        document=bytes(document),
        documents=bytes(documents),
        vocabulary_sha256=vocabulary,
        vocab_size=head.vocab_size,
        rows=rows,
        accepting=accepting,
        tables=read_tables(
            tables,
            rows,
            accepting,
            mask_count=head.mask_count,
            vocab_size=head.vocab_size,
        ),
        masks=found_masks,
        digest=_digest(vocabulary, head, automaton, tables, masks),
    )


def read_head(reader: BoundedReader) -> tuple[str, bytes, SchemaHead]:
    """Read the name of a compiled schema, the hash of its vocabulary, and how large its parts are.

    The reader is at its options afterwards.

    Raises:
        ArtifactError: If a number is out of range, or the name is none.
    """
    vocabulary = bytes(reader.take("vocabulary", size_bytes=HASH_SIZE_BYTES))
    head = SchemaHead(
        name_size=reader.u32(
            "size of the name", at_least=1, at_most=limits.SCHEMA_NAME_SIZE_CHARS_MAX
        ),
        options_size=_size(reader, "options", limits.STORED_SCHEMA_OPTIONS_SIZE_BYTES_MAX),
        document_size=_size(reader, "schema document", limits.SCHEMA_SIZE_BYTES_MAX),
        documents_size=_size(reader, "other documents", limits.SCHEMA_SIZE_BYTES_MAX),
        vocab_size=reader.u32("vocabulary size", at_least=1, at_most=limits.VOCAB_SIZE_MAX),
        state_count=reader.u32("states", at_least=1, at_most=limits.SCHEMA_STATES_MAX),
        shape_count=reader.u32("shapes", at_least=1, at_most=limits.SCHEMA_STATES_MAX),
        mask_count=reader.u32("masks", at_least=1, at_most=limits.SCHEMA_MASK_COUNT_MAX),
        automaton_size=_size(reader, "automaton", limits.STORED_SCHEMA_PART_SIZE_BYTES_MAX),
        tables_size=_size(reader, "table", limits.STORED_SCHEMA_PART_SIZE_BYTES_MAX),
        masks_size=_size(reader, "masks", limits.STORED_SCHEMA_SIZE_BYTES_MAX),
    )
    reader.u32("field that is kept", at_most=0)
    masks_size = head.mask_count * mask_size_bytes(head.vocab_size)
    if masks_size > limits.STORED_SCHEMA_MASKS_SIZE_BYTES_MAX:
        raise SchemaMaskError(head.mask_count - 1, f"and those before take {masks_size} bytes")
    name = reader.utf8_of("name of the schema", size_bytes=head.name_size)
    if not is_schema_name(name):
        raise StoredSchemaNameError(name, "is no name of a schema")
    return name, vocabulary, head


def _size(reader: BoundedReader, part: str, at_most: int) -> int:
    return reader.u32(f"size of the {part}", at_most=at_most)


def _digest(vocabulary: bytes, head: SchemaHead, *parts: memoryview) -> bytes:
    digest = Sha256(b"sslm schema\0" + vocabulary)
    digest.update(
        _TABLES.pack(
            head.vocab_size,
            head.state_count,
            head.shape_count,
            head.mask_count,
            *(part.nbytes for part in parts),
        )
    )
    for part in parts:
        digest.update(part)
    return digest.digest()


def _capacities(record: SchemaRecord) -> tuple[tuple[str, int, int], ...]:
    masks_size = len(record.masks) * mask_size_bytes(record.vocab_size)
    return (
        ("states", len(record.rows), limits.SCHEMA_STATES_MAX),
        ("masks", len(record.masks), limits.SCHEMA_MASK_COUNT_MAX),
        ("bytes of masks", masks_size, limits.STORED_SCHEMA_MASKS_SIZE_BYTES_MAX),
        ("bytes of options", len(record.options), limits.STORED_SCHEMA_OPTIONS_SIZE_BYTES_MAX),
        ("bytes of JSON Schema", len(record.document), limits.SCHEMA_SIZE_BYTES_MAX),
        ("bytes of other documents", len(record.documents), limits.SCHEMA_SIZE_BYTES_MAX),
    )


def _require_capacity(what: str, found: int, most: int) -> None:
    if found > most:
        raise SchemaCapacityError(what, found, most)
