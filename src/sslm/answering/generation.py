"""The loop from a prompt's ids to an answer's text."""

from collections.abc import Generator
from typing import Any

from sslm.answering.answer import Answer
from sslm.answering.cutoff import Cutoff
from sslm.answering.logprobs import PromptLogprobs, last_logprob
from sslm.answering.recorder import Recorder
from sslm.answering.request import Request, followed_schema
from sslm.answering.results import NANOSECONDS_PER_MS, Completion, StreamChunk, Usage
from sslm.answering.token_source import LoneSource, TokenSource
from sslm.errors.native import RunCancelledError
from sslm.log import LOGGER
from sslm.opening.runner import Runner
from sslm.progress import Progress
from sslm.runtime.sequences.token_ids import checked_token_ids
from sslm.runtime.transactions.token_request import Receipt, TokenRequest
from sslm.sampling.logprobs import TokenLogprob
from sslm.text.tokenizer import Tokenizer


class Generation:
    """One answer in the making: an iterator of pieces, then a result.

    Args:
        runner: Runs the model.
        tokenizer: Of the model.
        request: What to answer.
        cutoff: What may end it early.
        source: Where its tokens come from; None for a sequence of its own.

    Raises:
        ContextLengthError: If the prompt leaves no room for an answer.
        ArgumentError, UnwritableFileError, DiskFullError: If its record cannot be written.
        TokenIdTypeError, TokenIdRangeError: If a prompt id is none of the vocabulary.
    """

    def __init__(
        self,
        runner: Runner,
        tokenizer: Tokenizer,
        request: Request,
        cutoff: Cutoff,
        source: TokenSource | None = None,
    ) -> None:
        target = request.record
        is_traced = target is not None and target.has_segments
        self._prompt_logprobs: PromptLogprobs | None = None
        if request.prompt_logprobs is not None:
            self._prompt_logprobs = PromptLogprobs(
                runner, request.prompt_ids, request.prompt_logprobs
            )
        self._source = source or LoneSource(
            runner,
            is_traced=is_traced,
            on_chunk=self._prompt_logprobs.take if self._prompt_logprobs else None,
        )
        context_tokens = self._source.context_tokens
        room = context_tokens - len(request.prompt_ids)
        if room < 1:
            raise runner.program.too_long(len(request.prompt_ids) + 1, context_tokens)
        self._prompt_ids = checked_token_ids(request.prompt_ids, runner.program)
        self._runner = runner
        self._max_tokens = min(request.max_tokens, room)
        self._choice = request.choosing.choice
        self._answer_schema = followed_schema(request, self._max_tokens)
        self._top_count = request.logprobs
        self._answer = Answer(tokenizer, request, max_tokens=self._max_tokens)
        self._recorder: Recorder | None = None
        if target is not None:
            self._recorder = Recorder(
                target,
                runner.program,
                runner.model_id,
                request=request,
                context_tokens=context_tokens,
                max_tokens=self._max_tokens,
            )
        self._digest = b""
        self.is_complete = False
        self._cutoff = cutoff
        self.on_progress: Progress | None = None
        self._position = self._cached_count = self._new_count = self._forced_count = 0
        self._receipt: Receipt | None = None

    @property
    def text(self) -> str:
        """The text that is certain so far."""
        return self._answer.text

    @property
    def partial(self) -> Any:
        """The value of the text so far, if it follows a schema; see :attr:`Answer.partial`."""
        return self._answer.partial

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
        try:
            self._cutoff.begin()
            opened = self._source.opened(
                self._prompt_ids,
                answer_tokens=self._max_tokens,
                choice=self._choice,
                answer_schema=self._answer_schema,
                has_logits=self._top_count is not None,
                cutoff=self._cutoff,
                on_progress=self._report,
            )
            with self._cutoff.watched(), opened as tokens:
                try:
                    while not self._answer.is_complete:
                        yield from self._taken(tokens, tokens.next_tokens())
                    self._digest = tokens.digest()
                    self._source.keep(self.text)
                    self._receipt, self._cached_count = tokens.receipt(), tokens.cached_count
                    self._new_count = tokens.computed_count
                    self._forced_count = tokens.forced_count
                    if self._recorder is not None:
                        self._recorder.write(self._answer, self._digest, tokens.links)
                    self.is_complete = True
                finally:
                    self._position = tokens.position
        except RunCancelledError:
            LOGGER.debug("ended early after %d answer tokens", len(self._answer.token_ids))
            if not self._cutoff.is_cancelled:
                raise self._cutoff.exceeded(
                    prompt_tokens=min(self._position, len(self._prompt_ids)),
                    token_ids=tuple(self._answer.token_ids),
                    text=self.text,
                ) from None
        else:
            receipt = self._receipt
            log_answer(self.result(), total_ns=receipt.total_ns if receipt else None)

    def _taken(
        self, tokens: TokenRequest[Any], token_ids: list[int]
    ) -> Generator[StreamChunk, None, None]:
        """Take what was chosen, and what alone may come before it."""
        *forced_ids, token_id = token_ids
        for forced_id in forced_ids:
            yield from self._answer.take(forced_id)
        if self._recorder is not None:
            self._recorder.take(tokens)
        logprob = self._logprob(tokens, token_id)
        yield from self._answer.take(token_id, logprob, ending=tokens.ending)

    def _logprob(self, tokens: TokenRequest[Any], token_id: int) -> TokenLogprob | None:
        """Return what is told of a token that was chosen, before the next one is."""
        if self._top_count is None:
            return None
        return last_logprob(self._runner, tokens.last_chunk(), token_id, top_count=self._top_count)

    def _report(self, done: int, total: int) -> None:
        if self.on_progress is not None:
            self.on_progress(done, total)

    def result(self) -> Completion:
        """Return the answer, once the pieces have come to their end."""
        found = self._prompt_logprobs.found if self._prompt_logprobs else None
        return self._answer.completion(
            self._digest,
            self._usage(),
            prompt_logprobs=found,
            forced_tokens=self._forced_count,
        )

    def _usage(self) -> Usage:
        receipt = self._receipt
        return Usage(
            prompt_tokens=len(self._prompt_ids),
            completion_tokens=len(self._answer.token_ids),
            cached_tokens=self._cached_count,
            computed_tokens=self._new_count,
            prefill_ms=milliseconds(receipt.cached_ns + receipt.prefill_ns) if receipt else None,
            decode_ms=milliseconds(receipt.decode_ns) if receipt else None,
            cached_ms=milliseconds(receipt.cached_ns) if receipt else None,
            total_ms=milliseconds(receipt.total_ns) if receipt else None,
        )


def milliseconds(duration_ns: int) -> float:
    """Return a duration as results tell it."""
    return duration_ns / NANOSECONDS_PER_MS


def log_answer(completion: Completion, *, total_ns: int | None) -> None:
    """Log that a request was answered, without a word of it."""
    usage = completion.usage
    LOGGER.info(
        "answered %d prompt tokens with %d tokens (%s)%s; %d tokens were saved before",
        usage.prompt_tokens,
        usage.completion_tokens,
        completion.finish_reason,
        "" if total_ns is None else f" in {total_ns // NANOSECONDS_PER_MS} ms",
        usage.cached_tokens,
    )
