"""A schema that was compiled for a vocabulary, to and from the bytes that files hold."""

from array import array
from dataclasses import dataclass, field

from sslm import limits
from sslm.artifact.schema_options import (
    decode_options,
    encode_options,
    require_canonical,
)
from sslm.errors.schema_files import SchemaNameError
from sslm.formats.bounded_reader import BoundedReader
from sslm.formats.names import is_schema_name
from sslm.formats.schemas.automaton import Row
from sslm.formats.schemas.blob import SchemaRecord, encode_schema, read_schema
from sslm.formats.schemas.containers import require_vocabulary
from sslm.formats.schemas.masks import mask_order
from sslm.formats.schemas.tables import StateTables
from sslm.progress import StageProgress, untold_stage
from sslm.schema.documents.canonical import canonical_json
from sslm.schema.documents.document import read_document
from sslm.schema.documents.options import SchemaOptions
from sslm.schema.regular.budget import Budget
from sslm.schema.schema_compiler import CompiledSchema, compile_schema
from sslm.schema.tokens.spans import OnlyTokens, Split
from sslm.schema.tokens.step_table import NO_STATE, ByteAutomaton, StepTable
from sslm.schema.tokens.tables import TokenTables, build_token_tables
from sslm.schema.tokens.trie import TokenTrie


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedSchema:
    """All that is known of a schema once it is compiled for a vocabulary.

    Args:
        name: By which it is found among others.
        document: The JSON Schema, in its one spelling.
        options: How it was compiled.
        has_canonical_spans: Whether text without a choice is split as the tokenizer does.
        compiler_version: Of what compiled it.
        vocabulary_sha256: 32 bytes: of the vocabulary, as a model file holds it.
        vocab_size: Token ids are below it.
        tables: Its automaton, and what that allows of the vocabulary.
        digest: 32 bytes, of vocabulary, automaton and tables: what an answer can depend on.
        encoded: What files hold of it.
    """

    name: str
    document: bytes
    options: SchemaOptions
    has_canonical_spans: bool
    compiler_version: int
    vocabulary_sha256: bytes
    vocab_size: int
    tables: TokenTables
    digest: bytes
    encoded: bytes = field(repr=False)

    @property
    def state_count(self) -> int:
        """States of the automaton."""
        return self.tables.table.state_count

    @property
    def mask_count(self) -> int:
        """Different masks of these states."""
        return len(self.tables.masks)

    @property
    def shortest_tokens(self) -> int:
        """Tokens of the shortest answer."""
        return self.tables.distances[0]

    def require_vocabulary(self, vocabulary_sha256: bytes) -> None:
        """Raise SchemaVocabularyError unless it was compiled for a vocabulary."""
        require_vocabulary(self.name, self.vocabulary_sha256, vocabulary_sha256)


def require_schema_name(name: str) -> None:
    """Raise SchemaNameError unless schemas in files can have a name."""
    if not isinstance(name, str) or not is_schema_name(name):
        raise SchemaNameError(str(name)[:80], limits.SCHEMA_NAME_SIZE_CHARS_MAX)


def prepare_schema(
    compiled: CompiledSchema,
    options: SchemaOptions,
    *,
    name: str,
    trie: TokenTrie,
    split: Split | None,
    vocabulary_sha256: bytes,
    report: StageProgress = untold_stage,
) -> PreparedSchema:
    """Work out what a compiled schema means for a vocabulary.

    Args:
        compiled: The schema.
        options: How it was compiled.
        name: It gets; checked already.
        trie: The vocabulary's content.
        split: The tokenizer's own, for text without a choice; None leaves its spelling open.
        vocabulary_sha256: 32 bytes, of the vocabulary as a model file holds it.
        report: Told how far it is; what it raises ends it.

    Raises:
        UnspellableSchemaError, SchemaBudgetError: As
            :func:`sslm.schema.tokens.tables.build_token_tables`.
        SchemaCapacityError: If it is larger than those that files hold.
    """
    table = _table(compiled.automaton)
    leaves_blank = options.leaves_blank
    tables = _in_order(
        build_token_tables(table, trie, split, leaves_blank=leaves_blank, report=report)
    )
    documents = {uri: read_document(other) for uri, other in sorted(options.documents.items())}
    return _finished(
        SchemaRecord(
            name=name,
            options=encode_options(options, has_canonical_spans=split is not None),
            document=canonical_json(compiled.document),
            documents=canonical_json(documents) if documents else b"",
            vocabulary_sha256=vocabulary_sha256,
            vocab_size=trie.vocab_size,
            rows=_rows(compiled.automaton),
            accepting=table.accepting,
            tables=StateTables(
                only_tokens=tables.only.tokens,
                only_targets=tables.only.targets,
                distances=tables.distances,
                mask_indices=tables.mask_indices,
            ),
            masks=tables.masks,
        ),
    )


def decode_schema(reader: BoundedReader) -> PreparedSchema:
    """Check a compiled schema, which is all that a reader holds from where it is on.

    Whether its tables are those of its automaton is for
    ``cross_check.first_difference``, and whether its automaton is that of its document for
    :func:`compiles_alike`.

    Raises:
        ArtifactError: One class per defect; see ``sslm.errors.schema_files``.
    """
    encoded = bytes(
        reader.span("", offset_bytes=reader.position, size_bytes=reader.remaining_bytes)
    )
    return _domain(read_schema(reader), encoded)


def compiles_alike(
    schema: PreparedSchema, budget: Budget | None = None, report: StageProgress | None = None
) -> bool:
    """Compile the document of a schema again; tell whether that gives its automaton.

    *report* is told how far it is; what it raises ends it.

    Raises:
        SchemaError: If it does not compile, or takes more than *budget*.
    """
    compiled = compile_schema(schema.document, schema.options, budget, report)
    expected, found = _table(compiled.automaton), schema.tables.table
    return (expected.byte_classes, expected.steps, expected.accepting) == (
        found.byte_classes,
        found.steps,
        found.accepting,
    )


def renamed(schema: PreparedSchema, name: str) -> PreparedSchema:
    """Return a schema under another name, checked already; nothing else changes."""
    record = read_schema(BoundedReader(memoryview(schema.encoded)))
    return _finished(_with_name(record, name))


def _with_name(record: SchemaRecord, name: str) -> SchemaRecord:
    facts = {one: getattr(record, one) for one in SchemaRecord.__slots__}
    return SchemaRecord(**{**facts, "name": name})


def _finished(record: SchemaRecord) -> PreparedSchema:
    """Read back what is written: that is what everybody else gets."""
    encoded = encode_schema(record)
    return decode_schema(BoundedReader(memoryview(encoded)))


def _domain(record: SchemaRecord, encoded: bytes) -> PreparedSchema:
    options, has_canonical_spans, compiler_version = decode_options(
        record.options, record.documents
    )
    require_canonical("schema document", record.document)
    tables = record.tables
    return PreparedSchema(
        name=record.name,
        document=record.document,
        options=options,
        has_canonical_spans=has_canonical_spans,
        compiler_version=compiler_version,
        vocabulary_sha256=record.vocabulary_sha256,
        vocab_size=record.vocab_size,
        tables=TokenTables(
            table=StepTable(_ReadAutomaton(record.rows, record.accepting)),
            only=OnlyTokens(tokens=tables.only_tokens, targets=tables.only_targets),
            distances=tables.distances,
            mask_indices=tables.mask_indices,
            masks=record.masks,
        ),
        digest=record.digest,
        encoded=encoded,
    )


class _ReadAutomaton:
    """An automaton as it was read."""

    def __init__(self, rows: tuple[Row, ...], accepting: bytes) -> None:
        self._rows = rows
        self._accepting = accepting

    @property
    def state_count(self) -> int:
        return len(self._rows)

    def row(self, state: int) -> list[tuple[int, int, int]]:
        return list(self._rows[state])

    def is_accepting(self, state: int) -> bool:
        return bool(self._accepting[state])


def _table(automaton: ByteAutomaton) -> StepTable:
    """Return the table of an automaton, which is the same however its ranges are cut."""
    accepting = bytes(automaton.is_accepting(state) for state in range(automaton.state_count))
    return StepTable(_ReadAutomaton(_rows(automaton), accepting))


def _rows(automaton: ByteAutomaton) -> tuple[Row, ...]:
    """Return the steps of an automaton, with ranges that lead to one state joined."""
    rows = []
    for state in range(automaton.state_count):
        joined: list[tuple[int, int, int]] = []
        for low, high, target in automaton.row(state):
            if joined and joined[-1][1] + 1 == low and joined[-1][2] == target:
                joined[-1] = (joined[-1][0], high, target)
            else:
                joined.append((low, high, target))
        rows.append(tuple(joined))
    return tuple(rows)


def _in_order(tables: TokenTables) -> TokenTables:
    """Return tables with the masks in the order in which files hold them."""
    order = sorted(range(len(tables.masks)), key=lambda index: mask_order(tables.masks[index]))
    place = {index: at for at, index in enumerate(order)}
    place[NO_STATE] = NO_STATE
    return TokenTables(
        table=tables.table,
        only=tables.only,
        distances=tables.distances,
        mask_indices=array("I", [place[index] for index in tables.mask_indices]),
        masks=tuple(tables.masks[index] for index in order),
    )
