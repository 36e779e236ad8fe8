"""A conversation with a model, of which only what is new is computed."""

import datetime
import time
from collections.abc import Sequence
from functools import partial
from typing import NoReturn, Unpack

from sslm.answer_schemas.asked import ModelSchemas
from sslm.answering.async_stream import AsyncStream
from sslm.answering.background import Background
from sslm.answering.cutoff import Cutoff, require_time
from sslm.answering.generation import Generation
from sslm.answering.prompts import MessageLike, bounded_messages
from sslm.answering.request import RecordedOptions, require_no_prompt_logprobs, wanted
from sslm.answering.results import Completion, SessionFootprint, StreamChunk
from sslm.answering.stream import Stream
from sslm.arguments import checked_int, require_callback
from sslm.closing import Closing
from sslm.conversation.memory import SessionMemory, SessionSizes
from sslm.conversation.source import Conversation, SessionSource, message_marks
from sslm.errors.runtime import NotCopyableError, ObjectClosedError, OptionRangeError
from sslm.errors.sessions import NothingToUndoError
from sslm.errors.showing import briefly
from sslm.log import LOGGER
from sslm.opening.runner import Runner
from sslm.progress import Progress
from sslm.runtime.transactions.token_session import TokenSession
from sslm.text.chat_encoding import encode_chat
from sslm.text.message import Message
from sslm.text.templates.chat_template import ChatTemplate
from sslm.text.tokenizer import Tokenizer


class SessionStream(Stream):
    """A stream that :meth:`commit` can end, keeping what was shown.

    Reading it is a call of its session: SequenceInUseError or NestedCallError refuses it while
    another one is not over, and refuses others while it is read.

    Args:
        generation: The answer in the making.
        source: Where its tokens come from and go to.
    """

    def __init__(self, generation: Generation, source: SessionSource) -> None:
        super().__init__(generation)
        self._source = source

    def __next__(self) -> StreamChunk:
        self._generation.require_owner()
        if self._is_over:
            raise StopIteration
        with self._source.call():
            self._source.require_current()
            return super().__next__()

    def _piece(self) -> StreamChunk | None:
        piece = super()._piece()
        if piece is not None:
            self._source.shown += piece.text
        return piece

    def read(self) -> Completion:
        """Compute whatever is left, and return the whole answer.

        Raises:
            StreamUnfinishedError: If another thread closed the stream meanwhile.
            StreamSupersededError: If the conversation has gone on without this answer.
            SslmError: As iterating does.
        """
        self._generation.require_owner()
        if self._is_over:
            return self.result()
        with self._source.call():
            self._source.require_current()
            return self.read_in_call()

    def read_in_call(self) -> Completion:
        """Do what :meth:`read` does, within a call of the session that has begun."""
        return super().read()

    def commit(self) -> None:
        """Keep the message and what was shown of its answer, and end the stream.

        If nothing was shown, nothing is kept. After an error or an interrupt the texts can still be
        kept so; after the whole answer there is nothing to do.

        Raises:
            ObjectClosedError: If the session is closed.
            SequenceInUseError, NestedCallError: If a call of the session is not over.
            StreamSupersededError: If the conversation has gone on without this answer.
        """
        self._generation.require_owner()
        with self._source.call(), self._lock:
            self._source.require_current()
            self._source.keep_shown()
            self._pieces.close()


class Session(Closing):
    """One conversation and its owner; a context manager.

    Each answer has the text, ids and digest that ``model.chat`` gives for the same messages. Only
    the part of a prompt is computed with which no saved beginning agrees. A request that fails in
    any way leaves the session as it was, and can be made again.

    One call at a time: while one computes, every other, from another thread, a signal handler or a
    callback, is refused with SequenceInUseError or NestedCallError and changes nothing, also
    :meth:`reset`. Only :meth:`close` may come at any time; then what was said can still be read,
    :attr:`is_accepting` is false, :attr:`checkpoint_bytes` 0, and other calls raise
    ObjectClosedError. Made by ``model.session``.

    Args:
        runner: Runs the model.
        tokenizer: Of the model.
        template: Of the model.
        stop_token_ids: Ids that end an answer.
        background: Threads for coroutines.
        sizes: What it takes.
        messages: What was said so far.
        date: Today, for templates that mention it.
        has_timings: Whether answers tell how long they took; otherwise no clock is read, except for
            a deadline.
        weights_size_bytes: For :meth:`footprint`.

    Raises:
        MemoryBudgetError: If its memory does not fit the bound beside what others hold.
    """

    def __init__(
        self,
        runner: Runner,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        *,
        stop_token_ids: frozenset[int],
        schemas: ModelSchemas,
        background: Background,
        sizes: SessionSizes,
        messages: Conversation,
        date: datetime.date | None,
        has_timings: bool,
        weights_size_bytes: int,
    ) -> None:
        self._runner = runner
        self._tokenizer = tokenizer
        self._stop_token_ids = stop_token_ids
        self._schemas = schemas
        self._background = background
        self._date = date
        self._has_timings = has_timings
        self._weights_size_bytes = weights_size_bytes
        self._memory = SessionMemory(runner, sizes)
        self._tokens: TokenSession[Conversation] = TokenSession(
            runner.program,
            self._memory.pool,
            runner.model_id,
            advance=runner.run,
            context_tokens=sizes.context_tokens,
            budget=self._memory.budget,
            note=messages,
        )
        self._source: SessionSource | None = None
        # No method of this object, which an answer would then keep alive, and this object it.
        require_room = partial(
            tokenizer.require_room,
            context_tokens=sizes.context_tokens,
            model_tokens=runner.program.max_position_embeddings,
        )
        self._encode = partial(
            encode_chat, tokenizer, template, date=date, require_room=require_room
        )
        found = self.footprint()
        LOGGER.info(
            "admitted for a session of %d tokens: weights %d, scratch %d, states %d, "
            "checkpoints %d bytes",
            sizes.context_tokens,
            found.weights,
            found.scratch,
            found.states,
            found.checkpoints,
        )

    @property
    def messages(self) -> list[Message]:
        """What was said so far, an answer in progress left out."""
        return list(self._tokens.committed.note)

    @property
    def context_tokens(self) -> int:
        """Most tokens of a prompt and its answer."""
        return self._tokens.context_tokens

    @property
    def is_accepting(self) -> bool:
        """Whether requests are taken; if not, only :meth:`reset` helps, or it is closed."""
        return self._tokens.is_accepting

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes that checkpoints take now, a page that several share counted once."""
        if self._tokens.is_closed:
            return 0
        return self._tokens.committed.checkpoints.size_bytes

    def footprint(self) -> SessionFootprint:
        """Return what was admitted for the model and this session."""
        sizes = self._memory.sizes
        return SessionFootprint(
            weights=self._weights_size_bytes,
            scratch=self._runner.own_scratch_size_bytes,
            states=sizes.states,
            checkpoints=sizes.checkpoints,
        )

    # Answers.

    def say(
        self,
        text: str,
        *,
        deadline_s: float | None = None,
        **options: Unpack[RecordedOptions],
    ) -> Completion:
        """Say something and return the answer; both are then part of the conversation.

        Args:
            text: What the user says; control tokens in it are literal.
            deadline_s: Seconds that the call may take, or None for no bound.
            **options: What is asked of the answer, as for ``model.generate``.

        Raises:
            SessionNotAcceptingError: If the session has to be reset first.
            AnswerUnfinishedError: If another answer is neither read to its end nor closed, and
                nobody is reading it.
            SequenceInUseError: If another thread uses the session.
            NestedCallError: If a signal handler or callback came into a call of this thread's.
            SslmError: As ``model.chat`` raises it; the conversation is as it was.
        """
        return self._read(Cutoff(deadline_s), None, text, options)

    def stream(
        self,
        text: str,
        *,
        deadline_s: float | None = None,
        on_progress: Progress | None = None,
        **options: Unpack[RecordedOptions],
    ) -> SessionStream:
        """Say something and return the answer piece by piece; see :meth:`say`.

        It becomes part of the conversation with its last piece, or by ``commit()`` of the stream as
        far as it was shown. Leaving it otherwise rolls back.
        """
        require_callback("on_progress", on_progress)
        stream = self._stream(Cutoff(deadline_s), None, text, options)
        return stream.telling(on_progress)

    def edit(
        self,
        index: int,
        text: str,
        *,
        deadline_s: float | None = None,
        **options: Unpack[RecordedOptions],
    ) -> Completion:
        """Say something in place of an earlier message; what came after that is forgotten.

        What was said before it is not computed again, as far as checkpoints are left of it.

        Args:
            index: Of the message in :attr:`messages`: one that the user said.
            text: As for :meth:`say`.
            deadline_s: As for :meth:`say`.
            **options: As for :meth:`say`.

        Raises:
            OptionRangeError: If there is no such message, or somebody else said it.
            SslmError: As :meth:`say`; the conversation is as it was.
        """
        return self._read(Cutoff(deadline_s), index, text, options)

    def edit_stream(
        self,
        index: int,
        text: str,
        *,
        deadline_s: float | None = None,
        on_progress: Progress | None = None,
        **options: Unpack[RecordedOptions],
    ) -> SessionStream:
        """Say something in place of an earlier message; see :meth:`edit` and :meth:`stream`."""
        require_callback("on_progress", on_progress)
        stream = self._stream(Cutoff(deadline_s), index, text, options)
        return stream.telling(on_progress)

    async def asay(
        self,
        text: str,
        *,
        deadline_s: float | None = None,
        **options: Unpack[RecordedOptions],
    ) -> Completion:
        """Say something and return the answer; see :meth:`say`."""
        return await self.astream(text, deadline_s=deadline_s, **options).read()

    def astream(
        self,
        text: str,
        *,
        deadline_s: float | None = None,
        **options: Unpack[RecordedOptions],
    ) -> AsyncStream:
        """Say something and return the answer piece by piece; see :meth:`stream`.

        What is wrong with it is raised when the first piece is awaited.
        """
        cutoff = Cutoff(deadline_s)
        start = partial(self._stream, cutoff, None, text, options)
        return AsyncStream(self._background, cutoff, start)

    # What is done to the conversation.

    def commit(self) -> None:
        """Keep the last message with what was shown of its answer, if that was left early.

        If nothing was shown, the message does not stay either; after a whole answer there is
        nothing to do.

        Raises:
            NothingToUndoError: If nothing was said yet, or the conversation has gone on since.
            SequenceInUseError, NestedCallError: If a call is not over.
        """
        with self._tokens.call():
            if self._source is None:
                raise NothingToUndoError("keep", len(self.messages))
            self._source.keep_shown()

    def undo(self) -> Message:
        """Take back the user's last message with all that came after it, and return it.

        Raises:
            NothingToUndoError: If there is none.
            AnswerUnfinishedError: If an answer is neither read to its end nor closed.
            SequenceInUseError, NestedCallError: If a call is not over.
        """
        with self._tokens.call():
            messages = self._tokens.committed.note
            for index in range(len(messages) - 1, -1, -1):
                if messages[index].role == "user":
                    self._tokens.keep_note(messages[:index])
                    return messages[index]
        raise NothingToUndoError("take back", len(messages))

    def reset(self, messages: Sequence[MessageLike] = ()) -> None:
        """Begin anew; checkpoints are forgotten, and an answer that nobody computes is rolled back.

        While a call computes one, this waits for nothing and is refused; the stream's ``close``
        ends it first.

        Args:
            messages: What was said so far: mappings with ``role`` and ``content``, or ``Message``.

        Raises:
            SequenceInUseError, NestedCallError: If a call is not over; nothing was forgotten.
            SslmError: What a bad message raises; nothing was forgotten.
        """
        note = tuple(bounded_messages(messages, lambda: None))
        with self._tokens.call():
            self._tokens.reset(note)
            self._source = None

    def save(self, *, kv: bool = False) -> bytes:
        """Return the conversation as bytes, for ``model.restore_session``.

        Args:
            kv: Whether to keep what was computed of it. Without it, texts and ids remain, 1 to 3 KB
                after a few turns, and restoring computes them again, to the same bits.

        Raises:
            ObjectClosedError: If the session is closed.
            SequenceInUseError, NestedCallError: If a call is not over.
        """
        self._runner.require_owner()
        # Imported when it is needed: most conversations are not saved.
        from sslm.conversation.blob import save_session

        with self._tokens.call():
            return save_session(self._tokens, self._encode, self._date, kv=kv)

    def close(self) -> None:
        """Give all memory back; any thread may call this, and again.

        What another thread computes ends within milliseconds. In a process that a fork brought the
        session to, there is nothing to give back.
        """
        if self._runner.is_owner:
            self._tokens.close()
            self._memory.close()

    def _read(
        self, cutoff: Cutoff, index: int | None, text: str, options: RecordedOptions
    ) -> Completion:
        with self._tokens.call():
            return self._made_stream(cutoff, index, text, options).read_in_call()

    def _stream(
        self, cutoff: Cutoff, index: int | None, text: str, options: RecordedOptions
    ) -> SessionStream:
        # In this order, as in Cutoff.begin: a task that is cancelled goes on when the session is
        # free again, however long it takes to read what is said, or to compile a schema.
        cutoff.has_begun = True
        require_time(cutoff)
        with self._tokens.call():
            return self._made_stream(cutoff, index, text, options)

    def _made_stream(
        self, cutoff: Cutoff, index: int | None, text: str, options: RecordedOptions
    ) -> SessionStream:
        self._runner.require_owner()
        self._tokens.require_ready()
        require_time(cutoff)
        before = self._tokens.committed.note
        kept = before if index is None else before[: _user_index(before, index)]
        asked = (*kept, Message("user", text))
        encode = partial(self._encode, require_time=partial(require_time, cutoff))
        ids = encode(asked, add_generation_prompt=True)
        marks = message_marks(encode, asked, ids, self._tokens.cached_count(ids))
        require_time(cutoff)
        asks = wanted(
            options,
            end_token_ids=self._stop_token_ids,
            vocab_size=self._runner.program.token_count,
            schemas=self._schemas,
            kind=RecordedOptions,
        )
        if asks.record is not None and asks.record.has_segments:
            # What a checkpoint holds was computed without them.
            raise OptionRangeError("record_segments", "True", "False in a session")
        advice = "ask model.chat for them: a session computes only what is new"
        require_no_prompt_logprobs(asks, "in a session", advice)
        going_on = partial(self._require_going_on, cutoff)
        request = asks.of(ids, is_continuation=False, require_time=going_on)
        source = SessionSource(
            self._tokens,
            before=before,
            asked=asked,
            encode=self._encode,
            marks=marks,
            clock_ns=time.perf_counter_ns if self._has_timings else None,
        )
        generation = Generation(self._runner, self._tokenizer, request, cutoff, source)
        self._source = source
        return SessionStream(generation, source)

    def _require_going_on(self, cutoff: Cutoff) -> None:
        """Raise if a request is to end before it has begun, or who would answer was closed."""
        self._runner.require_open()
        if self._tokens.is_closed:
            raise ObjectClosedError("session")
        require_time(cutoff)

    def __repr__(self) -> str:
        state = "closed" if self._tokens.is_closed else "open"
        return f"<sslm.Session, {len(self.messages)} messages, {state}>"

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("session", "session.save() makes bytes for model.restore_session")


def _user_index(messages: Conversation, index: int) -> int:
    """Return the index of a message of the user's.

    Raises:
        OptionRangeError: If there is none.
    """
    expected = "the index of a message that the user said"
    if not messages:
        raise OptionRangeError("index", briefly(index), f"{expected}, and there is no message yet")
    index = checked_int("index", index, lowest=0, highest=len(messages) - 1)
    role = messages[index].role
    if role != "user":
        raise OptionRangeError("index", f"{index}, a message of the {role}", expected)
    return index
