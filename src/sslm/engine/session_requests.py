"""Opening conversations with a model."""

import datetime
from dataclasses import replace

from sslm import limits
from sslm.answering.results import SessionFootprint
from sslm.arguments import checked_int, require_bool
from sslm.conversation.memory import SessionSizes, session_sizes
from sslm.conversation.session import Session
from sslm.conversation.source import Conversation
from sslm.engine.async_requests import AsyncRequests
from sslm.engine.requests import require_date
from sslm.text.message import Message


class SessionRequests(AsyncRequests):
    """What a model offers for conversations."""

    _weights_size_bytes: int

    def session(
        self,
        *,
        system: str | None = None,
        date: datetime.date | None = None,
        context_tokens: int | None = None,
        state_bytes: int | None = None,
        checkpoint_bytes: int | None = None,
        checkpoint_count: int = limits.CHECKPOINT_COUNT_MAX,
        timings: bool = False,
    ) -> Session:
        """Open a conversation, whose memory is admitted at once and held until it is closed.

        Args:
            system: What the system says first, or None.
            date: Today, for chat templates that mention it; the clock is never read.
            context_tokens: Most tokens of a prompt and its answer; None for the model's.
            state_bytes: Most bytes that the states of a request may take, or None for no bound.
            checkpoint_bytes: Most bytes that are kept between requests; 0 keeps nothing. None is
                room for a whole context and 32 private copies, or what ``memory_bytes`` leaves.
            checkpoint_count: Most checkpoints that are kept, 0 … 64; a turn takes three.
            timings: Whether ``usage`` of its answers has times.

        Raises:
            NoChatTemplateError: If the model has no chat template.
            OptionRangeError: If an option is out of range.
            StateBudgetError: If the states of the context exceed *state_bytes*.
            MemoryBudgetError: If all that is open would exceed ``memory_bytes``.
        """
        first = () if system is None else (Message("system", system),)
        sizes = self._session_sizes(context_tokens, state_bytes, checkpoint_bytes, checkpoint_count)
        return self._open_session(first, sizes, date, timings)

    def restore_session(
        self,
        blob: bytes | bytearray | memoryview,
        *,
        context_tokens: int | None = None,
        state_bytes: int | None = None,
        checkpoint_bytes: int | None = None,
        checkpoint_count: int = limits.CHECKPOINT_COUNT_MAX,
        timings: bool = False,
    ) -> Session:
        """Open a conversation that was saved; what was not saved of it is computed now.

        Args:
            blob: What ``session.save`` returned; nobody has to be trusted with it.
            context_tokens: As for :meth:`session`.
            state_bytes: As for :meth:`session`.
            checkpoint_bytes: As for :meth:`session`.
            checkpoint_count: As for :meth:`session`.
            timings: As for :meth:`session`.

        Raises:
            ArtifactError: If the bytes are damaged or of another model; one class per cause.
            SslmError: As :meth:`session`, and as computing raises it.
        """
        from sslm.conversation.blob import read_session, restore_states

        saved = read_session(blob)
        sizes = self._session_sizes(context_tokens, state_bytes, checkpoint_bytes, checkpoint_count)
        session = self._open_session(saved.messages, sizes, saved.date, timings)
        try:
            restore_states(self._runner, session._tokens, saved.states)
        except BaseException:
            session.close()
            raise
        return session

    def session_footprint(
        self,
        *,
        context_tokens: int | None = None,
        state_bytes: int | None = None,
        checkpoint_bytes: int | None = None,
    ) -> SessionFootprint:
        """Return the bytes that the model and one session take, before that is opened.

        Takes what :meth:`session` does, and raises what that raises of it.
        """
        sizes = self._session_sizes(context_tokens, state_bytes, checkpoint_bytes)
        return SessionFootprint(
            weights=self._weights_size_bytes,
            scratch=self._runner.own_scratch_size_bytes,
            states=sizes.states,
            checkpoints=sizes.checkpoints,
        )

    def _session_sizes(
        self,
        context_tokens: int | None,
        state_bytes: int | None,
        checkpoint_bytes: int | None,
        checkpoint_count: int = limits.CHECKPOINT_COUNT_MAX,
    ) -> SessionSizes:
        self._require_usable()
        longest, most = self._runner.context_tokens, limits.MEMORY_BYTES_MAX
        if context_tokens is None:
            context_tokens = longest
        context_tokens = checked_int("context_tokens", context_tokens, lowest=1, highest=longest)
        if state_bytes is not None:
            state_bytes = checked_int("state_bytes", state_bytes, lowest=1, highest=most)
        if checkpoint_bytes is not None:
            checkpoint_bytes = checked_int(
                "checkpoint_bytes", checkpoint_bytes, lowest=0, highest=most
            )
        count = checked_int(
            "checkpoint_count", checkpoint_count, lowest=0, highest=limits.CHECKPOINT_COUNT_MAX
        )
        sizes = session_sizes(
            self._runner,
            context_tokens,
            state_bytes=state_bytes,
            checkpoint_bytes=checkpoint_bytes,
        )
        return replace(sizes, checkpoint_count=count)

    def _open_session(
        self,
        messages: Conversation,
        sizes: SessionSizes,
        date: datetime.date | None,
        has_timings: bool,
    ) -> Session:
        require_date(date)
        require_bool("timings", has_timings)
        return Session(
            self._runner,
            self.tokenizer,
            self.chat_template,
            stop_token_ids=self._stop_token_ids,
            schemas=self._schemas(),
            background=self._background,
            sizes=sizes,
            messages=messages,
            date=date,
            has_timings=has_timings,
            weights_size_bytes=self._weights_size_bytes,
        )
