"""The schema that an answer follows, bound to the vocabulary of a model."""

import dataclasses
import json
import os
import types
import typing
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

from sslm.artifact.stored_schemas import StoredSchemas
from sslm.engine.schema import Schema
from sslm.engine.schema_vocabulary import schema_vocabulary
from sslm.errors.binding import SchemaBudgetTokensError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import briefly
from sslm.schema.bound_schema import BoundSchema
from sslm.text.tokenizer import Tokenizer

Finish = Literal["fit", "cut"]

_KEPT_COUNT: Final = 32
"""Bound schemas that a model keeps: those that were asked for last."""


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
    """

    bound: BoundSchema
    name: str
    own_end_ids: frozenset[int]
    is_fitted: bool
    allows_ends: bool
    kind: type | None

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


class _Bound:
    """A schema of a model, with and without what ends an answer."""

    def __init__(self, schema: BoundSchema, name: str) -> None:
        self.schema = schema
        self.name = name

    @cached_property
    def endless(self) -> BoundSchema:
        """The schema by which an answer goes on for as long as it can."""
        return self.schema.ending_with(())


class SchemaBinder:
    """Makes schemas of what callers give, for one model; what was made is kept for the next one.

    Args:
        stored: The compiled schemas of the model's file.
        tokenizer: Of the model.
        end_ids: With which the model ends an answer.
        is_pinned: Whether the file is known to be the one that was meant, so that its schemas need
            not be compiled again and compared.
    """

    def __init__(
        self,
        stored: StoredSchemas,
        tokenizer: Tokenizer,
        *,
        end_ids: frozenset[int],
        is_pinned: bool,
    ) -> None:
        self._stored = stored
        self._tokenizer = tokenizer
        self._end_ids = tuple(sorted(end_ids))
        self._is_pinned = is_pinned
        self._trusted: set[str] = set()
        self._kept: OrderedDict[object, _Bound] = OrderedDict()
        self._kept_lock = Lock()

    def is_stored(self, name: str) -> bool:
        """Whether the file has a schema of this name."""
        return name in self._stored

    def named(self, name: str) -> Schema:
        """Return a schema of the file; raises what :meth:`sslm.Model.schema` raises."""
        found = Schema(self._stored.named(name))
        if name not in self._trusted and not self._is_pinned:
            found.cross_check(self._tokenizer)
        self._trusted.add(name)
        return found

    def answer_schema(
        self, source: object, finish: object, end_of_text: object
    ) -> AnswerSchema | None:
        """Return what an answer follows; None without a schema.

        Args:
            source: A name of the model's file, a ``Schema``, or what
                :meth:`sslm.engine.schema.Schema.compile` takes, JSON text left out; or None.
            finish: ``"fit"``, ``"cut"``, or None for the first.
            end_of_text: ``"allowed"``, ``"never"``, or None for the first.

        Raises:
            OptionRangeError: If *finish* or *end_of_text* is none of these, or there is no schema.
            SslmError: As finding, compiling and checking a schema.
        """
        for name, value, known in (
            ("finish", finish, ("fit", "cut")),
            ("end_of_text", end_of_text, ("allowed", "never")),
        ):
            if value is not None and value not in known:
                raise OptionRangeError(name, briefly(value), " or ".join(map(repr, known)))
            if value is not None and source is None:
                raise OptionRangeError(name, briefly(value), "None, as there is no schema")
        if source is None:
            return None
        found, allows_ends = self._found(source), end_of_text != "never"
        return AnswerSchema(
            bound=found.schema if allows_ends else found.endless,
            name=found.name,
            own_end_ids=frozenset(self._end_ids),
            is_fitted=finish != "cut",
            allows_ends=allows_ends,
            kind=source if isinstance(source, type) else None,
        )

    def _found(self, source: object) -> "_Bound":
        key = _key(source)
        found = None if key is None else self._recall(key)
        if found is None:
            schema = self._schema(source)
            vocabulary = schema_vocabulary(self._tokenizer)
            digest = schema.prepared.digest
            bound = BoundSchema(
                schema.tables, vocabulary.trie, digest=digest, end_ids=self._end_ids
            )
            found = _Bound(bound, schema.name)
            if key is not None:
                self._keep(key, found)
        return found

    def _recall(self, key: object) -> "_Bound | None":
        with self._kept_lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def _keep(self, key: object, bound: "_Bound") -> None:
        with self._kept_lock:
            self._kept[key] = bound
            if len(self._kept) > _KEPT_COUNT:
                self._kept.popitem(last=False)

    def _schema(self, source: object) -> Schema:
        if isinstance(source, str):
            return self.named(source)
        if isinstance(source, Schema):
            source.require_tokenizer(self._tokenizer)
            return source
        if isinstance(source, os.PathLike) and Path(source).suffix == ".sslms":
            return Schema.load(source, tokenizer=self._tokenizer)
        return Schema.compile(source, tokenizer=self._tokenizer)


def _key(source: object) -> object:
    """Return what equal sources have in common, or None for one that may change."""
    if isinstance(source, (str, bytes, type, Schema)):
        return type(source), source
    if isinstance(source, dict):
        try:
            # Not sorted: answers have their keys in the order of the schema.
            return json.dumps(source)
        except (TypeError, ValueError, RecursionError):
            return None
    return None


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
