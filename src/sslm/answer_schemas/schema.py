"""Schemas of answers, compiled for the vocabulary of a model."""

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Literal, Self

from sslm import limits
from sslm.answer_schemas.sources import about_source, schema_document, schema_title
from sslm.answer_schemas.vocabulary import (
    require_tokenizer,
    schema_vocabulary,
    split_continuation,
)
from sslm.arguments import checked_path, require_bool, require_callback
from sslm.artifact.prepared_schema import (
    PreparedSchema,
    compiles_alike,
    decode_schema,
    prepare_schema,
    renamed,
    require_schema_name,
)
from sslm.artifact.schema_files import read_prepared_schema, write_prepared_schema
from sslm.errors.schema_files import SchemaTablesError
from sslm.formats.bounded_reader import BoundedReader
from sslm.progress import StageProgress
from sslm.schema.documents.options import (
    FREE_LEVELS,
    RECURSION_LEVELS,
    FormatMeaning,
    FreeKeyChoice,
    SchemaOptions,
)
from sslm.schema.documents.refusals import Unsupported
from sslm.schema.regular.budget import Budget
from sslm.schema.regular.spacing import Spacing
from sslm.schema.schema_compiler import check, compile_schema
from sslm.schema.tokens.tables import TokenTables, first_difference
from sslm.text.tokenizer import Tokenizer

DEFAULT_NAME: Final = "schema"
_NO_NAME: Final = re.compile("[^A-Za-z0-9._-]+")


class Schema:
    """A JSON Schema, compiled for one vocabulary: what each place of an answer allows, by token id.

    Immutable; threads may share one. It is picklable, and equal to another one if their names and
    their files would be the same.
    """

    def __init__(self, prepared: PreparedSchema, kind: type | None = None) -> None:
        self._prepared = prepared
        self._kind = kind

    @staticmethod
    def check(
        source: object,
        *,
        free_levels: int = FREE_LEVELS,
        recursion_levels: int = RECURSION_LEVELS,
        unknown_keywords: Literal["refuse", "ignore"] = "refuse",
        formats: FormatMeaning = "assert",
        free_keys: FreeKeyChoice = "allow",
        spacing: Spacing = "compact",
        documents: Mapping[str, object] | None = None,
        on_progress: StageProgress | None = None,
    ) -> list[Unsupported]:
        """Return everything in a schema that cannot be enforced exactly; nothing if all can.

        Arguments are those of :meth:`compile`; no vocabulary is needed.

        Raises:
            SchemaError: If *source* is no schema. Whether a value satisfies it, and whether it is
                within the budgets, only :meth:`compile` finds out, and ``sslm schema check``.
            OptionRangeError: If an option is out of range.
        """
        options = SchemaOptions(
            free_levels=free_levels,
            recursion_levels=recursion_levels,
            unknown_keywords=unknown_keywords,
            formats=formats,
            free_keys=free_keys,
            spacing=spacing,
            documents=documents or {},
        )
        require_callback("on_progress", on_progress)
        with about_source(source):
            return check(schema_document(source), options, on_progress)

    @classmethod
    def compile(
        cls,
        source: object,
        *,
        tokenizer: Tokenizer,
        name: str | None = None,
        canonical_spans: bool = True,
        free_levels: int = FREE_LEVELS,
        recursion_levels: int = RECURSION_LEVELS,
        unknown_keywords: Literal["refuse", "ignore"] = "refuse",
        formats: FormatMeaning = "assert",
        free_keys: FreeKeyChoice = "allow",
        spacing: Spacing = "compact",
        documents: Mapping[str, object] | None = None,
        budget: Budget | None = None,
        on_progress: StageProgress | None = None,
    ) -> Self:
        """Compile a schema.

        Args:
            source: A JSON Schema as a dict, as JSON text or bytes, or a ``pathlib.Path`` of a file
                of it; a pydantic model class; or a dataclass or TypedDict class of simple types.
            tokenizer: ``model.tokenizer`` of the model that is to answer.
            name: At most 64 letters, digits, ``.``, ``_`` and ``-``; None takes the class's, the
                file's or the title, or ``"schema"``.
            canonical_spans: Whether text without a choice is split into tokens as the tokenizer
                does it, and in no other way.
            free_levels: Lists and objects in each other where the schema says nothing.
            recursion_levels: How often a recursive part may contain itself.
            unknown_keywords: Whether keywords that nobody knows are refused or ignored.
            formats: ``"assert"`` enforces ``format``, ``"exact"`` with all texts that are valid, at
                many times the states; ``"annotate"`` ignores it.
            free_keys: ``"omit"`` leaves keys out that no schema names, where it may (schemas.md).
            spacing: White space: ``"compact"``, ``"spaced"`` or ``"flexible"`` (schemas.md).
            documents: What references may lead to besides the schema itself, by URI.
            budget: What compiling may take; None for the default.
            on_progress: Told what is being done, how far it is, and out of how much, often; what it
                raises ends it. Automata tell the share of the budget's steps (schemas.md).

        Raises:
            UnsupportedSchemaError: If something in it cannot be enforced exactly; :meth:`check`
                tells all of it.
            UnsatisfiableSchemaError, UnspellableSchemaError: If no answer satisfies it, or the
                vocabulary cannot spell one.
            SchemaBudgetError: If it takes more than *budget*; says what grew.
            SchemaSourceError, SchemaNameError, SchemaCapacityError: As their names say.
            SchemaError: Whatever else is wrong with it; one class per cause.
            OptionRangeError: If an option is out of range.
        """
        require_bool("canonical_spans", canonical_spans)
        require_callback("on_progress", on_progress)
        name = _checked_name(name, source)
        options = SchemaOptions(
            free_levels=free_levels,
            recursion_levels=recursion_levels,
            unknown_keywords=unknown_keywords,
            formats=formats,
            free_keys=free_keys,
            spacing=spacing,
            documents=documents or {},
        )
        require_tokenizer(tokenizer)
        spans, report = canonical_spans, on_progress or _keep_silent
        with about_source(source):
            prepared = _prepared(
                source, options, tokenizer, name=name, has_spans=spans, budget=budget, report=report
            )
        return cls(prepared, source if isinstance(source, type) else None)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        tokenizer: Tokenizer | None = None,
        cross_check: bool = True,
        on_progress: StageProgress | None = None,
    ) -> Self:
        """Read a schema that :meth:`save` wrote.

        Args:
            path: Of the file.
            tokenizer: Of the model that is to answer. Without it, only what can be seen of the file
                alone is checked.
            cross_check: Whether its document is compiled again and its tables are worked out
                again, and both compared, which takes as long as it took when it was compiled.
                False trusts whoever made the file.
            on_progress: As for :meth:`compile`.

        Raises:
            ArtifactError: If it is not such a file; one class per defect.
            SchemaVocabularyError: If it is for another vocabulary.
            SchemaTablesError: If its automaton or tables are not those that its document gives.
        """
        require_bool("cross_check", cross_check)
        require_callback("on_progress", on_progress)
        if tokenizer is not None:
            require_tokenizer(tokenizer)
        path = checked_path("path", path)
        with about_source(path):
            schema = cls(read_prepared_schema(path))
            if tokenizer is not None:
                schema.require_tokenizer(tokenizer)
                if cross_check:
                    schema.cross_check(tokenizer, on_progress=on_progress)
        return schema

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schema to a file, ``.sslms`` by custom, replacing what has that name.

        Raises:
            DiskFullError, UnwritableFileError: If the system has no room, or refuses.
            ArgumentError: If something lies there that is no regular file.
        """
        write_prepared_schema(checked_path("path", path), self._prepared)

    def renamed(self, name: str) -> "Schema":
        """Return this schema under another name.

        Raises:
            SchemaNameError: If schemas cannot have it.
        """
        require_schema_name(name)
        return self if name == self.name else Schema(renamed(self._prepared, name), self._kind)

    def require_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Raise SchemaVocabularyError unless it was compiled for the vocabulary of a tokenizer."""
        self._prepared.require_vocabulary(schema_vocabulary(tokenizer).sha256)

    def cross_check(
        self,
        tokenizer: Tokenizer,
        *,
        budget: Budget | None = None,
        on_progress: StageProgress | None = None,
    ) -> None:
        """Compile its document again, work its tables out again, and compare.

        Args:
            tokenizer: Of the model that is to answer.
            budget: What compiling may take; None for the default.
            on_progress: As for :meth:`compile`.

        Raises:
            SchemaVocabularyError: If it is for another vocabulary.
            SchemaTablesError: If something differs; says what, and in which state.
            SchemaError: If its document does not compile.
        """
        require_callback("on_progress", on_progress)
        report = on_progress or _keep_silent
        vocabulary = schema_vocabulary(tokenizer, report)
        self.require_tokenizer(tokenizer)
        if not compiles_alike(self._prepared, budget, report):
            raise SchemaTablesError(self.name, "the automaton", 0)
        has_spans = self._prepared.has_canonical_spans
        split = partial(split_continuation, tokenizer) if has_spans else None
        leaves_blank = self._prepared.options.leaves_blank
        difference = first_difference(
            self.tables, vocabulary.trie, split, leaves_blank=leaves_blank, report=report
        )
        if difference is not None:
            raise SchemaTablesError(self.name, *difference)

    @property
    def prepared(self) -> PreparedSchema:
        """All that is known of it."""
        return self._prepared

    @property
    def kind(self) -> type | None:
        """The class that it was compiled from, of which ``Completion.parsed`` is an object.

        None for other sources, and once it was saved or sent to another process.
        """
        return self._kind

    @property
    def name(self) -> str:
        """By which it is found among the schemas of a model."""
        return self._prepared.name

    @property
    def document(self) -> str:
        """The JSON Schema, compact, keys in their order."""
        return self._prepared.document.decode()

    @property
    def digest(self) -> str:
        """Hex name of all that an answer can depend on: vocabulary, automaton and tables."""
        return self._prepared.digest.hex()

    @property
    def tables(self) -> TokenTables:
        """The automaton, and what it allows of the vocabulary."""
        return self._prepared.tables

    @property
    def state_count(self) -> int:
        """States of the automaton: places of its answers that differ in what may follow."""
        return self._prepared.state_count

    @property
    def mask_count(self) -> int:
        """Different sets of tokens that these states allow."""
        return self._prepared.mask_count

    @property
    def shortest_tokens(self) -> int:
        """Tokens of the shortest answer; ``max_tokens`` cannot be below."""
        return self._prepared.shortest_tokens

    @property
    def size_bytes(self) -> int:
        """Bytes that a file holds of it."""
        return len(self._prepared.encoded)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self._prepared.encoded == other._prepared.encoded

    def __hash__(self) -> int:
        return hash(self._prepared.digest)

    def __repr__(self) -> str:
        states = f"{self.state_count} states, {self.mask_count} masks"
        return f"<sslm.Schema {self.name!r}: {states}>"

    def __copy__(self) -> "Schema":
        return self

    def __deepcopy__(self, memo: object) -> "Schema":
        return self

    def __reduce__(self) -> tuple[Callable[[bytes], "Schema"], tuple[bytes]]:
        """Send what a file holds; whoever receives it checks that as a file is checked."""
        return _received, (self._prepared.encoded,)


def _prepared(
    source: object,
    options: SchemaOptions,
    tokenizer: Tokenizer,
    *,
    name: str,
    has_spans: bool,
    budget: Budget | None,
    report: StageProgress,
) -> PreparedSchema:
    """Compile a schema; see :meth:`Schema.compile`."""
    compiled = compile_schema(schema_document(source), options, budget, report)
    vocabulary = schema_vocabulary(tokenizer, report)
    return prepare_schema(
        compiled,
        options,
        name=name,
        trie=vocabulary.trie,
        split=partial(split_continuation, tokenizer) if has_spans else None,
        vocabulary_sha256=vocabulary.sha256,
        report=report,
    )


def _keep_silent(what: str, done: int, total: int) -> None:
    """Tell nobody how far it is."""


def _received(encoded: bytes) -> Schema:
    return Schema(decode_schema(BoundedReader(memoryview(encoded))))


def _checked_name(name: str | None, source: object) -> str:
    """Return the name that was given, or the one that a source has."""
    if name is None:
        return _usable(schema_title(source)) or DEFAULT_NAME
    require_schema_name(name)
    return name


def _usable(title: str | None) -> str | None:
    """Return a title as a name, or None if nothing of it is left."""
    if title is None:
        return None
    return _NO_NAME.sub("-", title).strip("-")[: limits.SCHEMA_NAME_SIZE_CHARS_MAX] or None
