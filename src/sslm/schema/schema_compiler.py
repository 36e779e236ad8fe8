"""From a schema document to the automaton of all texts that it allows."""

from dataclasses import replace
from typing import Final

from sslm.errors.base import SchemaError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.schema import UnsatisfiableSchemaError
from sslm.errors.schema_documents import (
    SchemaSizeError,
    SchemaSyntaxError,
    SchemaValueError,
    UnsupportedSchemaError,
)
from sslm.errors.showing import briefly
from sslm.hashes import Sha256
from sslm.progress import StageProgress
from sslm.schema.documents.canonical import canonical_json
from sslm.schema.documents.document import Json, read_document
from sslm.schema.documents.options import SchemaOptions
from sslm.schema.documents.references import References
from sslm.schema.documents.refusals import Refusals, Unsupported
from sslm.schema.regular.automaton import Automaton
from sslm.schema.regular.budget import WHOLE_SCHEMA, Budget
from sslm.schema.regular.compiler import LanguageCompiler
from sslm.schema.regular.language import Language, Named, Spaced
from sslm.schema.values.evaluating import Evaluator
from sslm.schema.values.keys import KeyLanguages
from sslm.schema.values.places import Place, PlaceTable
from sslm.schema.values.speakers import Member, SpeakerTable
from sslm.schema.values.spelling import spelled
from sslm.schema.values.universe import Universes
from sslm.schema.values.unsatisfiable import cause_of

_PARTS_FOR_THE_CAUSE: Final = 64
"""Parts of the budget: each trial for why nothing satisfies a schema may take one."""

COMPILER_VERSION: Final = 1
"""Raised whenever a schema may come to mean another language."""


class CompiledSchema:
    """A schema, and the automaton of the spellings of all its values.

    Attributes:
        automaton: The automaton.
        document: The schema.
        digest: SHA-256, as hexadecimal digits, of schema, options and compiler version: equal
            digests mean equal automata.
    """

    def __init__(self, automaton: Automaton, document: Json, digest: str, front: "_Front") -> None:
        self.automaton = automaton
        self.document = document
        self.digest = digest
        self._front = front

    def canonical_text(self, value: object) -> bytes | None:
        """Return how a value is spelled where this schema applies.

        With the spacing ``"flexible"``, that is its text without white space.

        Args:
            value: Any value, whether the schema allows it or not, as
                :func:`sslm.schema.documents.document.read_document` takes it, but text is a text.

        Returns:
            The spelling; None if the value nests deeper than the schema was compiled for, or has
            keys that were left out.

        Raises:
            SchemaValueError: If it is no value of JSON, or too large.
        """
        try:
            # In a list, so that bytes and texts are not taken for documents.
            read = read_document([value])
        except (SchemaSyntaxError, SchemaSizeError) as error:
            raise SchemaValueError(str(error)) from error
        assert isinstance(read, list)
        return self._front.spelled(read[0])

    def allows(self, value: object) -> bool:
        """Tell whether a value is one that can be written; see :meth:`canonical_text`."""
        text = self.canonical_text(value)
        return text is not None and self.automaton.matches(text)


class _Front:
    """Everything between a document and its language."""

    def __init__(
        self,
        document: Json,
        options: SchemaOptions,
        budget: Budget | None,
        report: StageProgress | None,
        at: tuple[str, ...],
    ) -> None:
        self.compiler = LanguageCompiler(budget, report)
        self.refusals = Refusals()
        references = References(document, options.documents)
        speakers = SpeakerTable(references)
        keys = KeyLanguages(self.compiler)
        self.places = PlaceTable(speakers, keys, options)
        self._evaluator = Evaluator(
            speakers=speakers,
            places=self.places,
            universes=Universes(self.places, keys),
            patterns=keys,
            compiler=self.compiler,
            refusals=self.refusals,
            ignores_unknown=options.unknown_keywords == "ignore",
            formats=options.formats,
        )
        root = references.inside(references.root, *at)
        self._root = Member(root, references.entered(root, ()))
        self._place: Place | None = None
        self._spacing = options.spacing

    @property
    def needs_all_texts(self) -> bool:
        """Whether formats must leave out no text, since the complement of one is needed."""
        return self._evaluator.needs_all_texts

    def language(self) -> Language:
        """Return the texts that the schema allows, as far as it is not refused."""
        self._place = self.places.root(self._root)
        value = self._evaluator.value(self._root, self._place)
        for doubt in value.doubts:
            self.refusals.add(doubt.pointer, doubt.keyword, doubt.hint)
        language = value.language
        if self._spacing != "compact":
            language = Spaced(language, self._spacing)
        return Named(language, WHOLE_SCHEMA)

    def spelled(self, value: Json) -> bytes | None:
        """Return how a value is written."""
        assert self._place is not None
        is_spaced = self._spacing == "spaced"
        return spelled(value, self._place, self.places, is_spaced=is_spaced)


def compile_schema(
    source: object,
    options: SchemaOptions | None = None,
    budget: Budget | None = None,
    report: StageProgress | None = None,
) -> CompiledSchema:
    """Compile a schema.

    Args:
        source: The document: JSON as bytes or text, or a value; see
            :func:`sslm.schema.documents.document.read_document`.
        options: Depths and what is ignored.
        budget: What compiling may take.
        report: Told how far it is; what it raises ends it.

    Raises:
        SchemaSyntaxError: If *source* is not JSON.
        SchemaDuplicateKeyError: If an object in it has a key twice.
        SchemaSizeError: If it is too large, nests too deep, or speaks of too much.
        MalformedSchemaError: If a keyword has a value that it does not take.
        SchemaReferenceError: If a reference leads nowhere.
        UnsupportedSchemaError: If something in it cannot be enforced exactly.
        UnsatisfiableSchemaError: If it allows no value.
        SchemaBudgetError: If it takes more than *budget*.
        OptionRangeError: If *budget* is none.
    """
    if budget is not None and not isinstance(budget, Budget):
        raise OptionRangeError("budget", briefly(budget), "a Budget or None")
    options = options or SchemaOptions()
    document = read_document(source)
    front, language = _understood(document, options, budget, report)
    front.refusals.raise_first()
    try:
        automaton = front.compiler.automaton(language)
    except UnsatisfiableSchemaError as error:
        cause = _cause(document, options, budget or Budget(), report)
        raise (UnsatisfiableSchemaError(cause) if cause else error) from None
    return CompiledSchema(automaton, document, _digest(document, options), front)


def check(
    source: object, options: SchemaOptions | None = None, report: StageProgress | None = None
) -> list[Unsupported]:
    """Return everything in a schema that cannot be enforced exactly, in the order it is met.

    *report* is told how far it is; what it raises ends it.

    Raises:
        SchemaError: For what :func:`compile_schema` raises of a document that is no schema, or
            that takes more than the default budget before its automaton is built.
    """
    options = options or SchemaOptions()
    try:
        front, _ = _understood(read_document(source), options, None, report)
    except UnsupportedSchemaError as error:
        return [Unsupported(error.pointer, error.keyword, error.hint)]
    return front.refusals.all()


def _cause(
    document: Json, options: SchemaOptions, budget: Budget, report: StageProgress | None
) -> str | None:
    """Return why nothing satisfies a document, for about as much as compiling it took at most."""
    part = replace(budget, steps=max(1, budget.steps // _PARTS_FOR_THE_CAUSE))

    def allows(changed: Json, at: tuple[str, ...]) -> bool | None:
        try:
            front, language = _understood(changed, options, part, report, at)
            return not front.compiler.is_empty(language)
        except SchemaError:
            return None

    return cause_of(document, allows)


def _understood(
    document: Json,
    options: SchemaOptions,
    budget: Budget | None,
    report: StageProgress | None,
    at: tuple[str, ...] = (),
) -> tuple[_Front, Language]:
    """Return the front of a document, or of its subschema at a place, with its language."""
    front = _Front(document, options, budget, report, at)
    language = front.language()
    if front.needs_all_texts:
        front = _Front(document, replace(options, formats="exact"), budget, report, at)
        language = front.language()
    return front, language


def _digest(document: Json, options: SchemaOptions) -> str:
    others = {uri: read_document(other) for uri, other in sorted(options.documents.items())}
    facts: list[Json] = [
        COMPILER_VERSION,
        options.free_levels,
        options.recursion_levels,
        options.unknown_keywords,
        options.formats,
        document,
        others,
    ]
    if added := options.added_choices:
        facts.append({**added})
    return Sha256(canonical_json(facts)).hexdigest()
