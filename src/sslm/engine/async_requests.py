"""Asking a model from coroutines: the same calls, in threads of the model."""

import datetime
from collections.abc import Sequence
from functools import partial

from sslm.engine.async_stream import AsyncStream
from sslm.engine.background import Background
from sslm.engine.cutoff import Cutoff
from sslm.engine.prompts import MessageLike, Prompt
from sslm.engine.requests import DEFAULT_MAX_TOKENS, Requests
from sslm.engine.results import Completion


class AsyncRequests(Requests):
    """Twins of what :class:`Requests` offers: the same arguments, results and errors.

    A coroutine that is cancelled goes on within milliseconds, when its request has rolled back.
    """

    _background: Background

    async def agenerate(
        self,
        prompt: Prompt,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        deadline_s: float | None = None,
    ) -> Completion:
        """Continue a prompt greedily; see :meth:`generate`."""
        return await self.astream(
            prompt, max_tokens=max_tokens, stop=stop, deadline_s=deadline_s
        ).read()

    def astream(
        self,
        prompt: Prompt,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        deadline_s: float | None = None,
    ) -> AsyncStream:
        """Continue a prompt greedily, piece by piece; see :meth:`stream`.

        What is wrong with the prompt is raised when the first piece is awaited.
        """
        cutoff = Cutoff(deadline_s)
        start = partial(self._prompt_stream, cutoff, prompt, max_tokens=max_tokens, stop=stop)
        return AsyncStream(self._background, cutoff, start)

    async def achat(
        self,
        messages: Sequence[MessageLike],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        date: datetime.date | None = None,
        deadline_s: float | None = None,
    ) -> Completion:
        """Answer a conversation greedily; see :meth:`chat`."""
        return await self.achat_stream(
            messages, max_tokens=max_tokens, stop=stop, date=date, deadline_s=deadline_s
        ).read()

    def achat_stream(
        self,
        messages: Sequence[MessageLike],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        date: datetime.date | None = None,
        deadline_s: float | None = None,
    ) -> AsyncStream:
        """Answer a conversation greedily, piece by piece; see :meth:`chat_stream`."""
        cutoff = Cutoff(deadline_s)
        start = partial(
            self._chat_stream, cutoff, messages, max_tokens=max_tokens, stop=stop, date=date
        )
        return AsyncStream(self._background, cutoff, start)
