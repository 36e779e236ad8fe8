"""The schema that an answer follows, bound to the vocabulary of a model."""

import dataclasses
import json
import os
import types
import typing
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from sslm import limits
from sslm.answer_schemas.kept import KeptSchema, KeptSchemas
from sslm.answer_schemas.one_at_a_time import OneAtATime
from sslm.answer_schemas.schema import Schema
from sslm.answer_schemas.vocabulary import VOCABULARY_WORK, schema_vocabulary
from sslm.artifact.file_bytes import CopiedFile
from sslm.artifact.stored_schemas import StoredSchemas
from sslm.errors.base import SslmError
from sslm.errors.binding import SchemaBudgetTokensError
from sslm.hashes import Sha256
from sslm.json_nesting import is_within
from sslm.opening.admission import Admission, Lease
from sslm.schema.regular.budget import AUTOMATON_WORK, Report
from sslm.schema.tokens.bound_schema import BoundSchema
from sslm.text.tokenizer import Tokenizer

Finish = Literal["fit", "cut"]

_SCHEMA_SUFFIX: Final = ".sslms"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSchema:
    """What an answer follows.

    Args:
        bound: The schema.
        name: Of the schema.
        own_end_ids: With which the model ends an answer; those of *bound*, or it has none.
        is_fitted: Whether it is completed within its tokens, and not cut off.
        allows_ends: Whether a token that ends answers may be chosen wherever the text may end.
        kind: The class that the schema was made of, or None.
        lease: Of the memory that the schema takes.
    """

    bound: BoundSchema
    name: str
    own_end_ids: frozenset[int]
    is_fitted: bool
    allows_ends: bool
    kind: type | None
    lease: Lease = dataclasses.field(repr=False, compare=False)

    def require_room(self, max_tokens: int) -> None:
        """Raise SchemaBudgetTokensError if no answer that is to fit has so few tokens."""
        if self.is_fitted and max_tokens < self.bound.shortest:
            raise SchemaBudgetTokensError(max_tokens, self.bound.shortest)

    @property
    def parser(self) -> Callable[[str], object]:
        """What returns the value that a complete text says; it can be sent where the class can."""
        return json.loads if self.kind is None else partial(parse_as, self.kind)


def parse_as(kind: type, text: str) -> object:
    """Return what a text says as an object of a class that schemas are made of."""
    parse = getattr(kind, "model_validate_json", None)
    return parse(text) if callable(parse) else _instance(kind, json.loads(text))


class SchemaBinder:
    """Makes schemas of what callers give, for one model; what was made is kept for the next one.

    Args:
        stored: The compiled schemas of the model's file.
        tokenizer: Of the model.
        end_ids: With which the model ends an answer.
        is_pinned: Whether the file is known to be the one that was meant, so that its schemas need
            not be compiled again and compared.
        admission: Of the model's memory, in which compiled schemas count; None has no bound.
    """

    def __init__(
        self,
        stored: StoredSchemas,
        tokenizer: Tokenizer,
        *,
        end_ids: frozenset[int],
        is_pinned: bool,
        admission: Admission | None = None,
    ) -> None:
        self._stored = stored
        self._tokenizer = tokenizer
        self._end_ids = tuple(sorted(end_ids))
        self._is_pinned = is_pinned
        self._trusted: set[str] = set()
        self._makers = OneAtATime()
        self._kept = KeptSchemas(self._makers)
        self._admission = Admission(None) if admission is None else admission
        self._admission.add_spare(self._kept)

    def is_stored(self, name: str) -> bool:
        """Whether the file has a schema of this name."""
        return name in self._stored

    def named(self, name: str, report: Report | None = None) -> Schema:
        """Return a schema of the file; raises what :meth:`sslm.Model.schema` raises."""
        found = Schema(self._stored.named(name))
        if name not in self._trusted and not self._is_pinned:
            found.cross_check(self._tokenizer, on_progress=report)
        self._trusted.add(name)
        return found

    def answer_schema(
        self,
        source: object,
        finish: object = None,
        end_of_text: object = None,
        report: Report = lambda what, done, total: None,
    ) -> AnswerSchema:
        """Return what an answer follows.

        Args:
            source: A name of the model's file, a ``Schema``, or what
                :meth:`sslm.answer_schemas.schema.Schema.compile` takes, JSON text left out.
            finish: ``"fit"``, ``"cut"``, or None for the first.
            end_of_text: ``"allowed"``, ``"never"``, or None for the first.
            report: Told how far making it is; what it raises ends that, and nothing is kept.

        Raises:
            MemoryBudgetError: If the compiled schema does not fit ``memory_bytes``.
            SslmError: As finding, compiling and checking a schema.
        """
        allows_ends = end_of_text != "never"
        found = self._kept.get(
            partial(_key, source),
            partial(self._made, source, report),
            partial(report, AUTOMATON_WORK, 0, 0),
        )
        return AnswerSchema(
            bound=found.schema if allows_ends else found.endless,
            name=found.name,
            own_end_ids=frozenset(self._end_ids),
            is_fitted=finish != "cut",
            allows_ends=allows_ends,
            kind=source.kind if isinstance(source, Schema) else _class(source),
            lease=found.lent(self._admission),
        )

    def _made(self, source: object, report: Report) -> KeptSchema:
        # First, and once, also where several threads ask for different schemas.
        vocabulary = self._makers.run(
            schema_vocabulary,
            partial(schema_vocabulary, self._tokenizer, report),
            partial(report, VOCABULARY_WORK, 0, 0),
        )
        schema = self._schema(source, report)
        digest = schema.prepared.digest
        bound = BoundSchema(schema.tables, vocabulary.trie, digest=digest, end_ids=self._end_ids)
        return KeptSchema(bound, schema.name)

    def _schema(self, source: object, report: Report) -> Schema:
        if isinstance(source, str):
            return self.named(source, report)
        if isinstance(source, Schema):
            source.require_tokenizer(self._tokenizer)
            return source
        if isinstance(source, os.PathLike) and Path(source).suffix.lower() == _SCHEMA_SUFFIX:
            return Schema.load(source, tokenizer=self._tokenizer, on_progress=report)
        return Schema.compile(source, tokenizer=self._tokenizer, on_progress=report)


def _class(source: object) -> type | None:
    return source if isinstance(source, type) else None


def _key(source: object) -> object:
    """Return what equal sources have in common as they are now, or None for what has nothing."""
    if isinstance(source, (str, bytes, type, Schema)):
        return type(source), source
    if isinstance(source, os.PathLike):
        return _file_key(Path(source))
    if isinstance(source, dict):
        try:
            if is_within(
                source,
                levels=limits.SCHEMA_NESTING_MAX,
                values=limits.SCHEMA_VALUE_COUNT_MAX,
            ):
                # Not sorted: answers have their keys in the order of the schema.
                return json.dumps(source)
        except RecursionError:
            raise
        except (TypeError, ValueError, RuntimeError):
            # Also of one that another thread changes meanwhile.
            return None
    return None


def _file_key(path: Path) -> object:
    is_schema = path.suffix.lower() == _SCHEMA_SUFFIX
    most = limits.STORED_SCHEMA_SIZE_BYTES_MAX if is_schema else limits.SCHEMA_SIZE_BYTES_MAX
    try:
        content = CopiedFile(path, size_at_most_bytes=most).view
    except SslmError:
        # Whoever reads it says why it cannot be.
        return None
    return str(path), Sha256(content).digest()


def _instance(hint: Any, value: Any) -> Any:
    """Return parsed JSON as an object of a type that schemas are made of."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, dict):
        hints = typing.get_type_hints(hint)
        return hint(**{name: _instance(hints[name], one) for name, one in value.items()})
    if origin in (typing.Union, types.UnionType):
        return _first_instance(arguments, value)
    if origin is list:
        return [_instance(arguments[0], one) for one in value]
    if origin is dict:
        return {name: _instance(arguments[1], one) for name, one in value.items()}
    if origin is tuple:
        repeated = arguments[:1] * len(value) if arguments[-1:] == (Ellipsis,) else arguments
        return tuple(_instance(one, part) for one, part in zip(repeated, value, strict=True))
    return value


def _first_instance(hints: tuple[Any, ...], value: Any) -> Any:
    """Return a value as the first type of several that it fits, dataclasses before others."""
    if isinstance(value, dict):
        for hint in hints:
            if isinstance(hint, type) and dataclasses.is_dataclass(hint):
                names = {field.name for field in dataclasses.fields(hint)}
                if set(value) <= names:
                    try:
                        return _instance(hint, value)
                    except (TypeError, ValueError):
                        continue
    if isinstance(value, list):
        for hint in hints:
            if typing.get_origin(hint) in (list, tuple):
                return _instance(hint, value)
    return value
