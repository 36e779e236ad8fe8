"""A schema that a request asks for, which is made no earlier than the request."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from sslm.arguments import require_callback
from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import briefly
from sslm.opening.admission import Admission
from sslm.progress import StageProgress
from sslm.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from sslm.answer_schemas.binder import AnswerSchema, SchemaBinder
    from sslm.artifact.stored_schemas import StoredSchemas

_WORDS: Final = {"finish": ("fit", "cut"), "end_of_text": ("allowed", "never")}
"""Options that say more of a schema, and what they may be."""
_CALLBACK: Final = "on_schema_progress"


class ModelSchemas:
    """Makes a model's schema binder when it is first asked for; see there for the arguments."""

    def __init__(
        self,
        stored: "StoredSchemas",
        tokenizer: Tokenizer,
        *,
        end_ids: frozenset[int],
        is_pinned: bool,
        admission: Admission,
    ) -> None:
        self._given = stored, tokenizer, end_ids, is_pinned, admission
        self._binders: dict[str, SchemaBinder] = {}

    def __call__(self) -> "SchemaBinder":
        """Return the binder, the same each time."""
        found = self._binders.get("")
        if found is None:
            # Not with the package: what compiles schemas takes a while to import.
            from sslm.answer_schemas.binder import SchemaBinder

            stored, tokenizer, end_ids, is_pinned, admission = self._given
            made = SchemaBinder(
                stored, tokenizer, end_ids=end_ids, is_pinned=is_pinned, admission=admission
            )
            # In one step, so that threads that come at once get the same.
            found = self._binders.setdefault("", made)
        return found


class AskedSchema:
    """What options say of a schema, checked as far as that takes no time.

    Args:
        schemas: Returns what makes schemas.
        source: What the caller gave.
        finish: One of its words, or None.
        end_of_text: Likewise.
        on_progress: Told how far making it is, or None.
    """

    def __init__(
        self,
        schemas: "Callable[[], SchemaBinder]",
        source: object,
        finish: object,
        end_of_text: object,
        on_progress: "StageProgress | None",
    ) -> None:
        self._schemas = schemas
        self._source = source
        self._words = finish, end_of_text
        self._on_progress = on_progress
        self._made: AnswerSchema | None = None

    def made(self, require_time: Callable[[], None]) -> "AnswerSchema":
        """Return the schema, the same each time.

        Args:
            require_time: Called all the while; raises to stop.

        Raises:
            SslmError: As finding, compiling and checking a schema.
        """
        if self._made is None:

            def report(what: str, done: int, total: int) -> None:
                require_time()
                if self._on_progress is not None:
                    self._on_progress(what, done, total)

            self._made = self._schemas().answer_schema(self._source, *self._words, report)
        return self._made


def asked_schema(
    options: Mapping[str, object], schemas: "Callable[[], SchemaBinder]"
) -> AskedSchema | None:
    """Return what options say of a schema; None if none is asked for.

    Args:
        options: By their names.
        schemas: Returns what makes schemas; not asked before the schema is made.

    Raises:
        OptionRangeError: If an option is none of its words, or says more of a schema without one.
    """
    source = options.get("schema")
    for name, known in _WORDS.items():
        value = options.get(name)
        if value is not None and value not in known:
            raise OptionRangeError(name, briefly(value), " or ".join(map(repr, known)))
        if value is not None and source is None:
            raise OptionRangeError(name, briefly(value), "None, as there is no schema")
    on_progress = options.get(_CALLBACK)
    require_callback(_CALLBACK, on_progress)
    if source is None:
        return None
    finish, end_of_text = map(options.get, _WORDS)
    report = cast("StageProgress | None", on_progress)
    return AskedSchema(schemas, source, finish, end_of_text, report)
