"""Where an answer's tokens come from: a conversation, or a sequence of their own."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from sslm.engine.cutoff import Cutoff
from sslm.engine.runner import Runner
from sslm.program.choice import Choice
from sslm.runtime.checkpoints import CheckpointBudget
from sslm.runtime.sequence_options import SequenceOptions
from sslm.runtime.session import TokenSession
from sslm.runtime.session_request import TokenRequest

Report = Callable[[int, int], None]
"""Told how many tokens of a prompt are taken in, and how many there are."""


class TokenSource(Protocol):
    """Opens requests, each of which is over when its block ends."""

    @property
    def context_tokens(self) -> int:
        """Most tokens of prompt and answer."""

    def opened(
        self,
        prompt_ids: Sequence[int],
        *,
        answer_tokens: int,
        choice: Choice,
        cutoff: Cutoff,
        on_progress: Report,
    ) -> AbstractContextManager[TokenRequest[Any]]:
        """Return a request that computes nothing yet."""

    def keep(self, text: str) -> None:
        """Make the open request and the text of its answer part of what the next one begins with.

        Nothing happens where nothing is kept.
        """


class LoneSource:
    """Sequences with pages of their own, of which nothing is kept.

    Args:
        runner: Of the model.
        is_traced: Whether the digests of every segment are kept.
    """

    def __init__(self, runner: Runner, *, is_traced: bool = False) -> None:
        self._runner = runner
        self._is_traced = is_traced

    @property
    def context_tokens(self) -> int:
        """Those of the model."""
        return self._runner.context_tokens

    @contextmanager
    def opened(
        self,
        prompt_ids: Sequence[int],
        *,
        answer_tokens: int,
        choice: Choice,
        cutoff: Cutoff,
        on_progress: Report,
    ) -> Iterator[TokenRequest[None]]:
        """Admit the memory of one sequence until the block ends.

        Raises:
            MemoryBudgetError: If it does not fit the bound beside the others.
            ForkedProcessError: If the model was opened by another process.
        """
        options = SequenceOptions(
            context_tokens=len(prompt_ids) + answer_tokens - 1,
            chooses=True,
            is_traced=self._is_traced,
        )
        with (
            self._runner.pool(options) as pool,
            TokenSession(
                self._runner.program,
                pool,
                self._runner.model_id,
                advance=self._runner.run,
                context_tokens=options.context_tokens,
                budget=CheckpointBudget(size_bytes=0, count=0),
                note=None,
            ) as session,
            session.begin(
                prompt_ids,
                answer_tokens=answer_tokens,
                choice=choice,
                cancellation=cutoff.cancellation,
                require_time=cutoff.require_time,
                on_progress=on_progress,
                clock_ns=time.perf_counter_ns,
                is_traced=self._is_traced,
            ) as request,
        ):
            yield request

    def keep(self, text: str) -> None:
        """Keep nothing."""
