"""Where the record of a request goes."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from sslm import limits
from sslm.answer_schemas.asked import AskedSchema, ModelSchemas, asked_schema
from sslm.answering.prompts import Prompt, prompt_ids
from sslm.arguments import checked_int, checked_path, require_bool, require_known
from sslm.errors.choosing import ChoiceConflictError
from sslm.errors.runtime import EmptyPromptError, OptionRangeError
from sslm.errors.showing import briefly
from sslm.errors.text import TextTypeError
from sslm.program.program import Program
from sslm.progress import StageProgress
from sslm.runtime.sequences.token_ids import checked_token_ids
from sslm.runtime.transactions.token_request import FollowedSchema
from sslm.sampling.options import PLAIN, ChoosingOptions, SeededChoice, seeded_choice
from sslm.text.tokenizer import Tokenizer, checked_text

if TYPE_CHECKING:
    from sslm.answer_schemas.binder import AnswerSchema, SchemaBinder

DEFAULT_MAX_TOKENS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTarget:
    """Where a record goes, and what it is to hold.

    Args:
        path: The file's name.
        has_segments: Whether it has digests of every segment.
    """

    path: Path
    has_segments: bool


def record_target(record: object, has_segments: object) -> RecordTarget | None:
    """Return where a caller wants a record, or None for nowhere.

    Raises:
        OptionRangeError: If *record* is no path, or *has_segments* not True or False, or True
            without a record.
    """
    require_bool("record_segments", has_segments)
    if record is not None:
        return RecordTarget(path=checked_path("record", record), has_segments=bool(has_segments))
    if has_segments:
        raise OptionRangeError("record_segments", "True", "False without record")
    return None


class AnswerOptions(ChoosingOptions, total=False):
    """What may be asked of an answer, by the same names of every call.

    Beside these, how its tokens are chosen: see :class:`sslm.sampling.options.ChoosingOptions`.

    Attributes:
        max_tokens: Most ids of the answer, at least 1; by default ``DEFAULT_MAX_TOKENS``.
        stop: String or strings at which the answer ends; they are not part of it.
        stop_token_ids: Ids at which the answer ends, beside those of the model's own that do.
        schema: What the answer's text has to satisfy: the name of a compiled schema in the model's
            file, a :class:`sslm.Schema`, or a JSON Schema as a dict, a pydantic model or dataclass,
            or the ``pathlib`` path of a file; see :meth:`sslm.Schema.compile`. None, the default,
            is nothing.
        finish: With a schema, whether the answer is completed within ``max_tokens`` and the context
            (``"fit"``, the default), or may be cut off there (``"cut"``).
        end_of_text: With a schema, whether a token that ends answers may be chosen wherever the
            text may end (``"allowed"``, the default), or never (``"never"``): then the answer goes
            on for as long as something can follow, to a dead end if that does not fit any more.
        on_schema_progress: Told how far a schema is that has to be compiled first, as
            :meth:`sslm.Schema.compile` tells it.
        logprobs: Tell the log-probability of each token of the answer, and of so many of the most
            likely ones in its place, 0 … 20; None, the default, tells none.
        prompt_logprobs: The same of each token of the prompt but the first; not of calls that take
            over what was computed before, or compute in slices.
    """

    max_tokens: int
    stop: str | Sequence[str] | None
    stop_token_ids: Iterable[int] | None
    schema: object
    finish: Literal["fit", "cut"] | None
    end_of_text: Literal["allowed", "never"] | None
    on_schema_progress: StageProgress | None
    logprobs: int | None
    prompt_logprobs: int | None


class RecordedOptions(AnswerOptions, total=False):
    """What may be asked of an answer by the calls that can record it.

    Attributes:
        record: File that gets a record of the request, once it is complete; a record that is there
            is replaced. None writes nothing.
        record_segments: Whether the record has a digest of every segment at every token, too, so
            that a difference can be traced to the segment: costs time and four bytes each.
    """

    record: str | os.PathLike[str] | None
    record_segments: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked of an answer, whatever the prompt.

    Args:
        max_tokens: Most ids of the answer, at least 1; the end of the context may come first.
        stop: Strings that end the answer.
        stop_token_ids: Ids that end the answer.
        choosing: How its tokens are chosen.
        logprobs: Of how many tokens in the place of each log-probabilities are told beside its own;
            None tells none.
        prompt_logprobs: The same of the prompt.
        record: Where its record goes, or None.
        asked_schema: What it is to follow, or None.

    Raises:
        OptionRangeError: If an option is out of range.
    """

    max_tokens: int
    stop: tuple[str, ...]
    stop_token_ids: frozenset[int]
    choosing: SeededChoice = PLAIN
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    record: RecordTarget | None = None
    asked_schema: AskedSchema | None = None

    def __post_init__(self) -> None:
        most = limits.CONTEXT_TOKENS_MAX
        max_tokens = checked_int("max_tokens", self.max_tokens, lowest=1, highest=most)
        # As a plain integer, whatever library it came from.
        object.__setattr__(self, "max_tokens", max_tokens)
        count, size = limits.STOP_COUNT_MAX, limits.STOP_SIZE_CHARS_MAX
        if len(self.stop) > count:
            raise OptionRangeError("stop", f"more than {count} strings", f"at most {count}")
        for stop in self.stop:
            if not 1 <= len(checked_text("a stop string", stop)) <= size:
                expected = f"a string of 1 to {size} characters"
                raise OptionRangeError("stop", f"one of {len(stop)} characters", expected)

    def of(
        self,
        prompt_ids: Iterable[int],
        *,
        is_continuation: bool = True,
        require_time: Callable[[], None] = lambda: None,
    ) -> "Request":
        """Return a request for this.

        Args:
            prompt_ids: As Request has them.
            is_continuation: Likewise.
            require_time: Called while its schema is made; raises to stop.

        Raises:
            SslmError: As Request, and as making a schema.
        """
        own = {field.name: getattr(self, field.name) for field in fields(Wanted)}
        asked = self.asked_schema
        return Request(
            prompt_ids=tuple(prompt_ids),
            is_continuation=is_continuation,
            schema=None if asked is None else asked.made(require_time),
            **own,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Wanted):
    """A prompt with what is asked of its answer.

    Args:
        prompt_ids: At least one id.
        is_continuation: Whether the answer's text goes on in the prompt's, so that a leading space
            counts.
        schema: What the answer follows, or None.

    Raises:
        EmptyPromptError: If there is no prompt.
        OptionRangeError: If an option is out of range.
    """

    prompt_ids: tuple[int, ...]
    is_continuation: bool = True
    schema: "AnswerSchema | None" = None

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise EmptyPromptError
        # Zero-argument super() does not know the class that slots make anew.
        Wanted.__post_init__(self)


def wanted(
    options: AnswerOptions,
    *,
    end_token_ids: frozenset[int],
    vocab_size: int,
    schemas: Callable[[], "SchemaBinder"],
    kind: type[AnswerOptions] = AnswerOptions,
) -> Wanted:
    """Return what options ask for, which callers gave by name.

    Args:
        options: Of any names and types.
        end_token_ids: Ids with which the model itself ends an answer.
        vocab_size: Ids are below it.
        schemas: Returns what makes schemas; asked when one is made.
        kind: Which names there are.

    Raises:
        UnknownOptionError: If there is no option of a name.
        TextTypeError: If a stop string is bytes.
        OptionRangeError: If one is of another type or out of its range.
        ChoiceConflictError: If two contradict each other.
    """
    require_known(options, kind.__annotations__)
    named: Mapping[str, object] = options
    return Wanted(
        max_tokens=options.get("max_tokens", DEFAULT_MAX_TOKENS),
        stop=stop_strings(options.get("stop")),
        stop_token_ids=end_token_ids | _stop_ids(options.get("stop_token_ids"), vocab_size),
        choosing=seeded_choice(options, vocab_size),
        logprobs=_top_count("logprobs", options.get("logprobs")),
        prompt_logprobs=_top_count("prompt_logprobs", options.get("prompt_logprobs")),
        record=record_target(named.get("record"), named.get("record_segments", False)),
        asked_schema=asked_schema(named, schemas),
    )


def stop_strings(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return stops as a tuple, however the caller gave them; at most one too many is taken.

    Raises:
        TextTypeError: If they are bytes.
        OptionRangeError: If they are anything else than a string or several.
    """
    if stop is None:
        return ()
    if isinstance(stop, (bytes, bytearray)):
        raise TextTypeError("a stop string", type(stop).__name__)
    if not isinstance(stop, Iterable):
        raise OptionRangeError("stop", briefly(stop), "a string or several")
    return (stop,) if isinstance(stop, str) else tuple(islice(stop, limits.STOP_COUNT_MAX + 1))


def require_no_prompt_logprobs(wanted: Wanted, call: str, advice: str) -> None:
    """Raise ChoiceConflictError if a call that cannot tell them is asked for a prompt's."""
    if wanted.prompt_logprobs is not None:
        raise ChoiceConflictError("prompt_logprobs", call, advice)


def _top_count(name: str, value: object) -> int | None:
    if value is None:
        return None
    return checked_int(name, value, lowest=0, highest=limits.TOP_LOGPROBS_MAX)


def _stop_ids(ids: object, vocab_size: int) -> frozenset[int]:
    if ids is None:
        return frozenset()
    most = limits.STOP_TOKEN_ID_COUNT_MAX
    if isinstance(ids, (str, bytes, bytearray)) or not isinstance(ids, Iterable):
        raise OptionRangeError("stop_token_ids", briefly(ids), "several token ids")
    taken = list(islice(ids, most + 1))
    if len(taken) > most:
        raise OptionRangeError("stop_token_ids", f"more than {most} ids", f"at most {most}")
    return frozenset(
        checked_int("stop_token_ids", token_id, lowest=0, highest=vocab_size - 1)
        for token_id in taken
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMaker:
    """What a model knows about requests.

    Args:
        tokenizer: Of the model.
        stop_token_ids: Ids that end an answer.
        context_tokens: Most tokens of prompt and answer.
        program: Of the model; says which ids have a token.
        schemas: Where schemas come from.
    """

    tokenizer: Tokenizer
    stop_token_ids: frozenset[int]
    context_tokens: int
    program: Program
    schemas: ModelSchemas

    def ids(self, prompt: Prompt, *, is_continued: bool = False) -> tuple[int, ...]:
        """Return the checked ids of a prompt, which *is_continued* behind others or comes first.

        Raises:
            SslmError: What :func:`sslm.answering.prompts.prompt_ids` raises.
            TokenIdTypeError, TokenIdRangeError: If one is none of the vocabulary.
        """
        ids = prompt_ids(
            self.tokenizer,
            prompt,
            self.context_tokens,
            self.program.max_position_embeddings,
            is_continued=is_continued,
        )
        return tuple(checked_token_ids(ids, self.program))

    def wanted(self, options: AnswerOptions) -> Wanted:
        """Return what options ask for; see :func:`sslm.answering.request.wanted`."""
        return wanted(
            options,
            end_token_ids=self.stop_token_ids,
            vocab_size=self.program.token_count,
            schemas=self.schemas,
        )

    def request(self, prompt: Prompt, wanted: Wanted, *, is_continued: bool) -> Request:
        """Return a request to continue a prompt; raises what :meth:`ids` and Request raise."""
        return wanted.of(self.ids(prompt, is_continued=is_continued))


def followed_schema(request: Request, max_tokens: int) -> FollowedSchema | None:
    """Return what an answer follows, which can be completed within its tokens if it is to fit.

    Raises:
        SchemaBudgetTokensError: If it cannot.
    """
    wanted = request.schema
    if wanted is None:
        return None
    wanted.require_room(max_tokens)
    # What stops or is told at each token is looked at where that is chosen.
    has_segments = request.record is not None and request.record.has_segments
    is_watched = has_segments or request.stop or request.stop_token_ids - wanted.own_end_ids
    return FollowedSchema(
        schema=wanted.bound,
        answer_tokens=max_tokens if wanted.is_fitted else None,
        takes_spans=not is_watched and request.logprobs is None,
    )
