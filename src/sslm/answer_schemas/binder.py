"""The schema that an answer follows, made once, kept, and bound to the vocabulary of a model."""

import copy
import dataclasses
import json
import os
import sys
import time
import types
import typing
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Literal, TypeVar
from weakref import WeakValueDictionary

from sslm import limits
from sslm.answer_schemas.schema import Schema
from sslm.answer_schemas.vocabulary import VOCABULARY_WORK, schema_vocabulary
from sslm.artifact.file_bytes import CopiedFile
from sslm.artifact.stored_schemas import StoredSchemas
from sslm.errors.base import ArtifactError, SchemaError, SslmError
from sslm.errors.binding import SchemaBudgetTokensError
from sslm.errors.runtime import MemoryBudgetError
from sslm.hashes import Sha256
from sslm.json_nesting import is_within
from sslm.opening.admission import Admission, Lease
from sslm.progress import StageProgress, untold_stage
from sslm.runtime.guards import POLL_S, Turns
from sslm.schema.regular.budget import AUTOMATON_WORK
from sslm.schema.tokens.bound_schema import BoundSchema
from sslm.text.tokenizer import Tokenizer
from sslm.threads import new_lock

_T = TypeVar("_T")
_REFUSALS: Final = (SchemaError, ArtifactError)
"""Families of errors that the same source has each time."""
_REFUSAL_SIZE_BYTES: Final = 1024
_STATE_SIZE_BYTES: Final = 400
Finish = Literal["fit", "cut"]
_SCHEMA_SUFFIX: Final = ".sslms"


class OneAtATime:
    """Lets calls of equal keys run one after the other; others do not wait for them."""

    def __init__(self) -> None:
        # Held by whoever works or waits, so that it keeps no key any longer.
        self._turns: WeakValueDictionary[object, Turns] = WeakValueDictionary()
        self._lock = new_lock()

    def run(self, key: object, call: Callable[[], _T], wait: Callable[[], None]) -> _T:
        """Run *call* when no other thread runs one of this key, and return what it returns.

        Args:
            key: What it works on.
            call: Looks first whether another thread has done it.
            wait: Called again and again until then; raises to give up.

        Raises:
            BaseException: What *call* or *wait* raises.
        """
        with self._lock:
            turns = self._turns.setdefault(key, Turns())
        while (turn := turns.turn_at_once(sys._getframe())) is None:
            if turns.is_this_threads():
                # A call that comes to itself, or a signal's handler, would wait for ever.
                return call()
            wait()
            time.sleep(POLL_S)
        try:
            return call()
        finally:
            turn.leave()


class KeptSchema:
    """A schema of a model, with and without what ends an answer."""

    def __init__(self, schema: BoundSchema, name: str) -> None:
        self.schema = schema
        self.name = name
        self._lease: Callable[[], Lease | None] = lambda: None
        self._is_being_lent = False

    def lent(self, admission: Admission) -> Lease:
        """Return a lease of its bytes, which answers that follow it at one time share.

        Raises:
            MemoryBudgetError: If they do not fit the bound beside what others hold.
        """
        lease = self._lease()
        if lease is None:
            # Otherwise it would be let go of to make room for itself.
            self._is_being_lent = True
            try:
                lease = admission.admit("a compiled schema", self.size_bytes)
            except MemoryBudgetError:
                self._is_being_lent = False
                admission.trim()
                raise
            finally:
                self._is_being_lent = False
            self._lease = weakref.ref(lease)
        return lease

    @property
    def idle_size_bytes(self) -> int:
        """What it takes, or 0 while answers that follow it have that admitted."""
        is_idle = self._lease() is None and not self._is_being_lent
        return self.size_bytes if is_idle else 0

    @cached_property
    def endless(self) -> BoundSchema:
        """The schema by which an answer goes on for as long as it can."""
        return self.schema.ending_with(())

    @property
    def size_bytes(self) -> int:
        """About what it takes: its tables, bound with and without ends, and objects for states."""
        return 3 * self.schema.size_bytes + _STATE_SIZE_BYTES * self.schema.state_count


class KeptSchemas:
    """Makes each schema once; the latest are kept, and refusals with them.

    Several threads may share one.

    Args:
        makers: Lets one thread make what several ask for.
    """

    def __init__(self, makers: OneAtATime) -> None:
        self._makers = makers
        self._kept: OrderedDict[object, KeptSchema | SchemaError | ArtifactError] = OrderedDict()
        self._sizes_bytes: dict[object, int] = {}
        self._lock = new_lock()

    @property
    def count(self) -> int:
        """How many are kept."""
        return len(self._kept)

    def get(
        self,
        key_now: Callable[[], object],
        make: Callable[[], KeptSchema],
        wait: Callable[[], None],
    ) -> KeptSchema:
        """Return what *make* gives, or gave when it was asked for the same before.

        Args:
            key_now: Returns what equal sources have in common, as the source is now; None for one
                that cannot be kept.
            make: Makes it.
            wait: Called while another thread makes it; raises to give up.

        Raises:
            BaseException: What these raise.
        """
        key = key_now()
        if key is None:
            return make()
        return self._recalled(key) or self._makers.run(
            key, lambda: self._recalled(key) or self._made(key, key_now, make), wait
        )

    def _recalled(self, key: object) -> KeptSchema | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        if found is None or isinstance(found, KeptSchema):
            return found
        raise copy.deepcopy(found)

    def _made(
        self, key: object, key_now: Callable[[], object], make: Callable[[], KeptSchema]
    ) -> KeptSchema:
        found: KeptSchema | SchemaError | ArtifactError
        size = len(key) if isinstance(key, (str, bytes)) else 0
        try:
            found = made = make()
        except _REFUSALS as error:
            # As it was, since callers add notes to theirs.
            self._keep(key, copy.deepcopy(error), size + _REFUSAL_SIZE_BYTES)
            raise
        # A file, or a dict of another thread's, may have changed meanwhile.
        if key_now() == key:
            self._keep(key, found, size + made.size_bytes)
        return made

    def _keep(
        self, key: object, found: KeptSchema | SchemaError | ArtifactError, size_bytes: int
    ) -> None:
        with self._lock:
            self._kept[key] = found
            self._sizes_bytes[key] = size_bytes
            while len(self._kept) > 1 and (
                len(self._kept) > limits.KEPT_SCHEMA_COUNT_MAX
                or sum(self._sizes_bytes.values()) > limits.KEPT_SCHEMAS_SIZE_BYTES_MAX
            ):
                self._drop_oldest()

    def shrink(self, most_bytes: int) -> None:
        """Let go of the oldest until those that no answer follows take at most so many bytes."""
        with self._lock:
            while self._kept and self._idle_bytes() > most_bytes:
                self._drop_oldest()

    def _idle_bytes(self) -> int:
        used = (
            found.size_bytes - found.idle_size_bytes
            for found in self._kept.values()
            if isinstance(found, KeptSchema)
        )
        return sum(self._sizes_bytes.values()) - sum(used)

    def _drop_oldest(self) -> None:
        oldest, _ = self._kept.popitem(last=False)
        del self._sizes_bytes[oldest]


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

    def named(self, name: str, report: StageProgress | None = None) -> Schema:
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
        report: StageProgress = untold_stage,
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

    def _made(self, source: object, report: StageProgress) -> KeptSchema:
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

    def _schema(self, source: object, report: StageProgress) -> Schema:
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
