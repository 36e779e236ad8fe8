"""The loop from a prompt's ids to an answer's text."""

import time
from collections.abc import Callable, Generator, Iterator

from sslm.engine.answer import Answer
from sslm.engine.cutoff import Cutoff
from sslm.engine.log import LOGGER
from sslm.engine.request import Request
from sslm.engine.results import NANOSECONDS_PER_MS, Completion, StreamChunk, Usage
from sslm.engine.runner import Runner
from sslm.errors.native import RunCancelledError
from sslm.errors.runtime import ContextLengthError
from sslm.runtime.sequence import Sequence as TokenSequence
from sslm.runtime.sequence_options import SequenceOptions
from sslm.runtime.token_ids import checked_token_ids
from sslm.text.tokenizer import Tokenizer

Progress = Callable[[int, int], None]
"""Told how many tokens of a prompt are taken in, and how many there are."""


class Generation:
    """One answer in the making: an iterator of pieces, then a result.

    Args:
        runner: Runs the model.
        tokenizer: Of the model.
        request: What to answer.
        cutoff: What may end it early.

    Raises:
        ContextLengthError: If the prompt leaves no room for an answer.
        TokenIdTypeError, TokenIdRangeError: If a prompt id is none of the vocabulary.
    """

    def __init__(
        self, runner: Runner, tokenizer: Tokenizer, request: Request, cutoff: Cutoff
    ) -> None:
        room = runner.context_tokens - len(request.prompt_ids)
        if room < 1:
            raise ContextLengthError(len(request.prompt_ids) + 1, runner.context_tokens)
        self._prompt_ids = checked_token_ids(request.prompt_ids, runner.program.vocab_size)
        self._runner = runner
        self._max_tokens = min(request.max_tokens, room)
        self._answer = Answer(tokenizer, request, max_tokens=self._max_tokens)
        self._digest = b""
        self.is_complete = False
        self._cutoff = cutoff
        self.on_progress: Progress | None = None
        self._computed_count = 0
        self._started_ns = self._first_token_ns = self._last_token_ns = 0

    @property
    def is_owner(self) -> bool:
        """Whether this process opened the model."""
        return self._runner.is_owner

    def require_owner(self) -> None:
        """Raise ForkedProcessError in a process that a fork brought the model to."""
        self._runner.require_owner()

    def cancel(self) -> None:
        """Let the thread that computes stop, within milliseconds; any thread may call this."""
        self._cutoff.cancel()

    def pieces(self) -> Generator[StreamChunk, None, None]:
        """Compute the answer, yielding text as it becomes certain.

        Raises:
            DeadlineExceededError: If the deadline passes first.
        """
        needed = len(self._prompt_ids) + self._max_tokens - 1
        self._started_ns = time.perf_counter_ns()
        try:
            self._cutoff.begin()
            with (
                self._cutoff.watched(),
                self._runner.sequence(SequenceOptions(context_tokens=needed)) as sequence,
            ):
                sequence.push(self._prompt_ids)
                yield from self._decode(sequence)
                self._digest = sequence.answer_digest(self._answer.token_ids)
                self.is_complete = True
        except RunCancelledError:
            LOGGER.debug("ended early after %d answer tokens", len(self._answer.token_ids))
            if not self._cutoff.is_cancelled:
                raise self._cutoff.exceeded(
                    prompt_tokens=min(self._computed_count, len(self._prompt_ids)),
                    token_ids=tuple(self._answer.token_ids),
                    text=self._answer.text,
                ) from None
        else:
            self._log_end()

    def _decode(self, sequence: TokenSequence) -> Iterator[StreamChunk]:
        while True:
            yield from self._answer.take(self._next_token(sequence))
            if self._answer.is_complete:
                return
            sequence.decode()

    def _next_token(self, sequence: TokenSequence) -> int:
        while sequence.selected is None:
            self._cutoff.require_time()
            self._runner.advance([sequence], cancellation=self._cutoff.cancellation)
            self._computed_count = sequence.position
            if self.on_progress and not self._answer.token_ids:
                self.on_progress(sequence.position, len(self._prompt_ids))
        self._last_token_ns = time.perf_counter_ns()
        self._first_token_ns = self._first_token_ns or self._last_token_ns
        return sequence.selected

    def _log_end(self) -> None:
        LOGGER.info(
            "answered %d prompt tokens with %d tokens (%s) in %d ms",
            len(self._prompt_ids),
            len(self._answer.token_ids),
            self._answer.finish_reason,
            (time.perf_counter_ns() - self._started_ns) // NANOSECONDS_PER_MS,
        )

    def result(self) -> Completion:
        """Return the answer, once the pieces have come to their end."""
        answer = self._answer
        return Completion(
            text=answer.text,
            token_ids=list(answer.token_ids),
            digest=self._digest.hex(),
            finish_reason=answer.finish_reason,
            stop_reason=answer.stop_reason,
            usage=Usage(
                prompt_tokens=len(self._prompt_ids),
                completion_tokens=len(answer.token_ids),
                prefill_ms=(self._first_token_ns - self._started_ns) / NANOSECONDS_PER_MS,
                decode_ms=(self._last_token_ns - self._first_token_ns) / NANOSECONDS_PER_MS,
            ),
        )
