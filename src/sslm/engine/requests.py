"""Asking a model: the calls that compute in the thread of their caller."""

import datetime
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Unpack, cast

from sslm.answer_schemas.asked import ModelSchemas
from sslm.answering.cutoff import Cutoff, require_time
from sslm.answering.generation import Generation
from sslm.answering.prompts import MessageLike, Prompt, bounded_messages, prompt_ids
from sslm.answering.request import AnswerOptions, RecordedOptions, Request, Wanted, wanted
from sslm.answering.results import Completion
from sslm.answering.stream import Stream
from sslm.arguments import require_callback
from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import briefly
from sslm.evidence.recorded_schema import answer_schema_of
from sslm.evidence.records import Record, as_record, kept_ids, options_left
from sslm.evidence.reexecution import require_replayable
from sslm.opening.runner import Runner
from sslm.progress import Progress
from sslm.text.chat_encoding import encode_chat
from sslm.text.detokenizer import Detokenizer
from sslm.text.templates.chat_template import ChatTemplate
from sslm.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from sslm.answer_schemas.binder import SchemaBinder


class Requests(ABC):
    """What can be asked of a model, once it says what it is."""

    _runner: Runner
    _stop_token_ids: frozenset[int]

    @property
    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""

    @property
    @abstractmethod
    def chat_template(self) -> ChatTemplate:
        """The model's chat template."""

    @abstractmethod
    def _schemas(self) -> ModelSchemas:
        """Return where schemas come from."""

    @abstractmethod
    def _require_usable(self) -> None:
        """Raise if the model is closed, or of another process."""

    def generate(
        self,
        prompt: Prompt,
        *,
        deadline_s: float | None = None,
        **options: Unpack[RecordedOptions],
    ) -> Completion:
        """Continue a prompt, greedily if nothing else is asked.

        Args:
            prompt: Text, in which control tokens are literal, or token ids.
            deadline_s: Seconds that the call may take, 0 or more, or None for no bound.
            **options: What is asked of the answer; see :class:`RecordedOptions`.

        Raises:
            ArgumentError: If the request cannot be met, one class per cause; nothing was computed.
            MemoryBudgetError: If its sequence does not fit ``memory_bytes`` beside others.
            DeadlineExceededError: If time was over first; it tells how far the answer was.
        """
        return self._prompt_stream(Cutoff(deadline_s), prompt, self._recorded(options)).read()

    def stream(
        self,
        prompt: Prompt,
        *,
        deadline_s: float | None = None,
        on_progress: Progress | None = None,
        **options: Unpack[RecordedOptions],
    ) -> Stream:
        """Continue a prompt, piece by piece; see :meth:`generate`.

        Time between two pieces counts towards *deadline_s*. While the prompt is taken in,
        *on_progress* is told how many of its tokens are, and how many there are.
        """
        require_callback("on_progress", on_progress)
        stream = self._prompt_stream(Cutoff(deadline_s), prompt, self._recorded(options))
        return stream.telling(on_progress)

    def chat(
        self,
        messages: Sequence[MessageLike],
        *,
        date: datetime.date | None = None,
        deadline_s: float | None = None,
        **options: Unpack[RecordedOptions],
    ) -> Completion:
        """Answer a conversation, greedily if nothing else is asked.

        Args:
            messages: Mappings with ``role`` and ``content``, or ``Message``; control tokens in
                their content are literal.
            date: Today, for chat templates that mention it; the clock is never read.
            deadline_s: As for :meth:`generate`.
            **options: As for :meth:`generate`.

        Raises:
            NoChatTemplateError: If the model has no chat template.
            SslmError: As :meth:`generate`, and what a bad message or template raises.
        """
        cutoff = Cutoff(deadline_s)
        return self._chat_stream(cutoff, messages, self._recorded(options), date=date).read()

    def chat_stream(
        self,
        messages: Sequence[MessageLike],
        *,
        date: datetime.date | None = None,
        deadline_s: float | None = None,
        on_progress: Progress | None = None,
        **options: Unpack[RecordedOptions],
    ) -> Stream:
        """Answer a conversation, piece by piece; see :meth:`chat` and :meth:`stream`."""
        require_callback("on_progress", on_progress)
        cutoff = Cutoff(deadline_s)
        stream = self._chat_stream(cutoff, messages, self._recorded(options), date=date)
        return stream.telling(on_progress)

    def branch(
        self,
        original: Record | str | os.PathLike[str],
        token_count: int,
        *,
        deadline_s: float | None = None,
        on_progress: Progress | None = None,
        **options: Unpack[RecordedOptions],
    ) -> Stream:
        """Go on from the first tokens of a recorded answer, as the record would or otherwise.

        What is kept of the answer belongs to the prompt of this one, also where tokens are chosen
        by those of the answer.

        Args:
            original: A record of this model, or the path of one.
            token_count: How many of the answer's ids are kept, from 0 to all.
            deadline_s: As for :meth:`generate`.
            on_progress: As for :meth:`stream`.
            **options: In place of the record's own, and with another decoder (a temperature, or
                damping) of all that is the recorded one's; ``max_tokens`` counts new ids, and is
                what the recorded request had left. A ``schema`` is followed from the beginning of
                an answer, so none of its ids can be kept then.

        Raises:
            OptionRangeError: If there are not so many, or they would come before a schema's text.
            RecordSchemaError, RecordSchemaMissingError: If the record follows a schema, none is
                given, and the model's file does not have it.
            RecordModelError, RecordArithmeticError, RecordTokenError: If it is another model's.
            SslmError: As :meth:`stream`.
        """
        require_callback("on_progress", on_progress)
        self._require_usable()
        original = as_record(original)
        require_replayable(original.saved, self._runner.program, self._runner.model_id)
        kept = kept_ids(original, token_count)
        merged = options_left(
            original, len(kept), end_token_ids=self._stop_token_ids, others=options
        )
        cutoff = Cutoff(deadline_s)
        if kept and merged.get("schema", original.saved.schema) is not None:
            expected = "0: an answer follows its schema from its beginning; schema=None leaves it"
            raise OptionRangeError("token_count", str(len(kept)), expected)
        wanted = self._recorded(cast(RecordedOptions, self._with_schema(original, merged, cutoff)))
        is_continuation = original.saved.is_continuation or bool(kept)
        ids = (*original.prompt_token_ids, *kept)
        request = wanted.of(
            ids,
            is_continuation=is_continuation,
            require_time=partial(self._require_going_on, cutoff),
        )
        return self._request_stream(cutoff, request).telling(on_progress)

    def _with_schema(
        self, original: Record, options: dict[str, object], cutoff: Cutoff
    ) -> dict[str, object]:
        """Return options with the schema of a record, if that follows one and no other is given."""
        followed = original.saved.schema
        if followed is None or "schema" in options:
            return options
        going_on = partial(self._require_going_on, cutoff)
        answer_schema_of(followed, self._binder(), None, lambda *facts: going_on())
        return {**options, "schema": followed.name}

    def kept_text(self, original: Record | str | os.PathLike[str], token_count: int) -> str:
        """Return the text of a recorded answer's first ids, those that end one left out.

        Raises:
            OptionRangeError: If there are not so many.
            RecordModelError, RecordArithmeticError, RecordTokenError: If it is another model's.
        """
        original = as_record(original)
        require_replayable(original.saved, self._runner.program, self._runner.model_id)
        kept = kept_ids(original, token_count)
        detokenizer = Detokenizer(self.tokenizer, is_continuation=original.saved.is_continuation)
        texts = (detokenizer.push(one) for one in kept if one not in self._stop_token_ids)
        return "".join(texts) + detokenizer.finish()

    def _wanted(self, options: AnswerOptions) -> Wanted:
        """Return what options ask for; see :func:`sslm.answering.request.wanted`."""
        return wanted(
            options,
            end_token_ids=self._stop_token_ids,
            vocab_size=self._runner.program.token_count,
            schemas=self._binder,
        )

    def _recorded(self, options: RecordedOptions) -> Wanted:
        """Return what options ask for, a record among it."""
        return wanted(
            options,
            end_token_ids=self._stop_token_ids,
            vocab_size=self._runner.program.token_count,
            schemas=self._binder,
            kind=RecordedOptions,
        )

    def _binder(self) -> "SchemaBinder":
        return self._schemas()()

    def _prompt_stream(self, cutoff: Cutoff, prompt: Prompt, wanted: Wanted) -> Stream:
        return self._request_stream(cutoff, self._prompt_request(cutoff, prompt, wanted))

    def _prompt_request(self, cutoff: Cutoff, prompt: Prompt, wanted: Wanted) -> Request:
        self._require_usable()
        has_time = partial(require_time, cutoff)
        has_time()
        ids = prompt_ids(self.tokenizer, prompt, *self._rooms(), has_time)
        has_time()
        return wanted.of(ids, require_time=partial(self._require_going_on, cutoff))

    def _chat_stream(
        self,
        cutoff: Cutoff,
        messages: Sequence[MessageLike],
        wanted: Wanted,
        *,
        date: datetime.date | None,
    ) -> Stream:
        request = self._chat_request(cutoff, messages, wanted, date=date)
        return self._request_stream(cutoff, request)

    def _chat_request(
        self,
        cutoff: Cutoff,
        messages: Sequence[MessageLike],
        wanted: Wanted,
        *,
        date: datetime.date | None,
    ) -> Request:
        self._require_usable()
        has_time = partial(require_time, cutoff)
        has_time()
        require_date(date)
        ids = encode_chat(
            self.tokenizer,
            self.chat_template,
            bounded_messages(messages, has_time),
            date=date,
            require_room=self._require_room,
            require_time=has_time,
        )
        has_time()
        return wanted.of(
            ids, is_continuation=False, require_time=partial(self._require_going_on, cutoff)
        )

    def _rooms(self) -> tuple[int, int]:
        """Return the tokens of this context, and of the largest that the model allows."""
        return self._runner.context_tokens, self._runner.program.max_position_embeddings

    def _require_room(self, text: str) -> None:
        context_tokens, model_tokens = self._rooms()
        self.tokenizer.require_room(text, context_tokens=context_tokens, model_tokens=model_tokens)

    def _require_going_on(self, cutoff: Cutoff) -> None:
        """Raise if a request is to end before it has begun, or its model was closed meanwhile."""
        self._require_usable()
        require_time(cutoff)

    def _request_stream(self, cutoff: Cutoff, request: Request) -> Stream:
        return Stream(Generation(self._runner, self.tokenizer, request, cutoff))


def require_date(date: object) -> None:
    """Raise OptionRangeError unless it is a day or None."""
    if date is not None and not isinstance(date, datetime.date):
        raise OptionRangeError("date", briefly(date), "a datetime.date or None")
