"""Where an answer's tokens come from: a conversation, or a sequence of their own."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from sslm.answering.cutoff import Cutoff
from sslm.opening.runner import Runner
from sslm.program.choice import Choice
from sslm.progress import Progress
from sslm.runtime.guards import Cancellation
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence as TokenSequence
from sslm.runtime.sequences.state import Chunk
from sslm.runtime.transactions.checkpoints import CheckpointBudget
from sslm.runtime.transactions.token_request import FollowedSchema, TokenRequest
from sslm.runtime.transactions.token_session import TokenSession


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
        answer_schema: FollowedSchema | None,
        has_logits: bool,
        cutoff: Cutoff,
        on_progress: Progress,
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
        on_chunk: Told each chunk that is computed, of which every row is then scored; or None.
    """

    def __init__(
        self,
        runner: Runner,
        *,
        is_traced: bool = False,
        on_chunk: Callable[[Chunk], None] | None = None,
    ) -> None:
        self._runner = runner
        self._is_traced = is_traced
        self._on_chunk = on_chunk

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
        answer_schema: FollowedSchema | None,
        has_logits: bool,
        cutoff: Cutoff,
        on_progress: Progress,
    ) -> Iterator[TokenRequest[None]]:
        """Admit the memory of one sequence until the block ends.

        Raises:
            MemoryBudgetError: If it does not fit the bound beside the others.
            ForkedProcessError: If the model was opened by another process.
        """
        options = SequenceOptions(
            context_tokens=len(prompt_ids) + answer_tokens - 1,
            has_all_logits=self._on_chunk is not None,
            chooses=True,
            is_traced=self._is_traced,
        )
        with (
            self._runner.pool(options) as pool,
            TokenSession(
                self._runner.program,
                pool,
                self._runner.model_id,
                advance=self._run,
                context_tokens=options.context_tokens,
                budget=CheckpointBudget(size_bytes=0, count=0),
                note=None,
            ) as session,
            session.begin(
                prompt_ids,
                answer_tokens=answer_tokens,
                choice=choice,
                answer_schema=answer_schema,
                cancellation=cutoff.cancellation,
                require_time=cutoff.require_time,
                on_progress=on_progress,
                clock_ns=time.perf_counter_ns,
                is_traced=self._is_traced,
                has_logits=has_logits,
                has_all_logits=self._on_chunk is not None,
            ) as request,
        ):
            yield request

    def keep(self, text: str) -> None:
        """Keep nothing."""

    def _run(self, sequence: TokenSequence, cancellation: Cancellation | None) -> None:
        for _, chunk in self._runner.advance([sequence], cancellation=cancellation):
            if self._on_chunk is not None:
                self._on_chunk(chunk)
