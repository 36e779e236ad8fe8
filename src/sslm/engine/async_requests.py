"""Asking a model from coroutines: the same calls, in threads of the model."""

import datetime
from collections.abc import Sequence
from functools import partial
from typing import Unpack

from sslm.answering.async_stream import AsyncStream
from sslm.answering.background import Background
from sslm.answering.cutoff import Cutoff
from sslm.answering.prompts import MessageLike, Prompt
from sslm.answering.request import RecordedOptions
from sslm.answering.results import Completion
from sslm.engine.requests import Requests


class AsyncRequests(Requests):
    """Twins of what :class:`Requests` offers: the same arguments, results and errors.

    A coroutine that is cancelled goes on within milliseconds, when its request has rolled back.
    """

    _background: Background

    async def agenerate(
        self,
        prompt: Prompt,
        *,
        deadline_s: float | None = None,
        **options: Unpack[RecordedOptions],
    ) -> Completion:
        """Continue a prompt; see :meth:`generate`."""
        return await self.astream(prompt, deadline_s=deadline_s, **options).read()

    def astream(
        self,
        prompt: Prompt,
        *,
        deadline_s: float | None = None,
        **options: Unpack[RecordedOptions],
    ) -> AsyncStream:
        """Continue a prompt, piece by piece; see :meth:`stream`.

        What is wrong with the prompt, or with the schema, is raised when the first piece is
        awaited.
        """
        cutoff = Cutoff(deadline_s)
        start = partial(self._prompt_stream, cutoff, prompt, self._recorded(options))
        return AsyncStream(self._background, cutoff, start)

    async def achat(
        self,
        messages: Sequence[MessageLike],
        *,
        date: datetime.date | None = None,
        deadline_s: float | None = None,
        **options: Unpack[RecordedOptions],
    ) -> Completion:
        """Answer a conversation; see :meth:`chat`."""
        stream = self.achat_stream(messages, date=date, deadline_s=deadline_s, **options)
        return await stream.read()

    def achat_stream(
        self,
        messages: Sequence[MessageLike],
        *,
        date: datetime.date | None = None,
        deadline_s: float | None = None,
        **options: Unpack[RecordedOptions],
    ) -> AsyncStream:
        """Answer a conversation, piece by piece; see :meth:`chat_stream`."""
        cutoff = Cutoff(deadline_s)
        start = partial(self._chat_stream, cutoff, messages, self._recorded(options), date=date)
        return AsyncStream(self._background, cutoff, start)
