"""The loop from a prompt's ids to an answer's text."""

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sslm import limits
from sslm.engine.options import require_int
from sslm.engine.results import NANOSECONDS_PER_MS, Completion, FinishReason, StreamChunk, Usage
from sslm.engine.runner import Runner
from sslm.errors.native import RunCancelledError
from sslm.errors.runtime import ContextLengthError, EmptyPromptError, OptionRangeError
from sslm.runtime.sequence import Sequence as TokenSequence
from sslm.runtime.sequence import SequenceOptions
from sslm.text.detokenizer import Detokenizer
from sslm.text.stops import StopStrings
from sslm.text.tokenizer import Tokenizer, checked_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A prompt with what is asked of its answer.

    Args:
        prompt_ids: At least one id.
        max_tokens: Most ids of the answer, at least 1; the end of the context may come first.
        stop: Strings that end the answer.
        stop_token_ids: Ids that end the answer.
        is_continuation: Whether the answer's text goes on in the prompt's, so that a leading space
            counts.

    Raises:
        EmptyPromptError: If there is no prompt.
        OptionRangeError: If an option is out of range.
    """

    prompt_ids: tuple[int, ...]
    max_tokens: int
    stop: tuple[str, ...]
    stop_token_ids: frozenset[int]
    is_continuation: bool = True

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise EmptyPromptError
        require_int("max_tokens", self.max_tokens, lowest=1, highest=limits.CONTEXT_TOKENS_MAX)
        count, size = limits.STOP_COUNT_MAX, limits.STOP_SIZE_CHARS_MAX
        if len(self.stop) > count:
            raise OptionRangeError("stop", f"{len(self.stop)} strings", f"at most {count}")
        for stop in self.stop:
            if not 1 <= len(checked_text("a stop string", stop)) <= size:
                expected = f"a string of 1 to {size} characters"
                raise OptionRangeError("stop", f"one of {len(stop)} characters", expected)


class Generation:
    """One answer in the making: an iterator of pieces, then a result.

    Args:
        runner: Runs the model.
        tokenizer: Of the model.
        request: What to answer.

    Raises:
        ContextLengthError: If the prompt leaves no room for an answer.
        TokenIdRangeError: If a prompt id is not in the vocabulary.
    """

    def __init__(self, runner: Runner, tokenizer: Tokenizer, request: Request) -> None:
        room = runner.context_tokens - len(request.prompt_ids)
        if room < 1:
            raise ContextLengthError(len(request.prompt_ids) + 1, runner.context_tokens)
        self._runner = runner
        self._tokenizer = tokenizer
        self._request = request
        self._max_tokens = min(request.max_tokens, room)
        self._token_ids: list[int] = []
        self._text: list[str] = []
        self._finish_reason: FinishReason = "length"
        self._stop_reason: int | str | None = None
        self._digest = b""
        self.is_complete = False
        self._is_cancelled = False
        self._started_ns = self._first_token_ns = self._last_token_ns = 0

    def cancel(self) -> None:
        """Let the thread that computes stop before its next slice; any thread may call this."""
        self._is_cancelled = True

    def pieces(self) -> Generator[StreamChunk, None, None]:
        """Compute the answer, yielding text as it becomes certain."""
        needed = len(self._request.prompt_ids) + self._max_tokens - 1
        self._started_ns = time.perf_counter_ns()
        with (
            suppress(RunCancelledError),
            self._runner.sequence(SequenceOptions(context_tokens=needed)) as sequence,
        ):
            sequence.push(self._request.prompt_ids)
            yield from self._decode(sequence)
            self._digest = sequence.answer_digest(self._token_ids)
            self.is_complete = True

    def _decode(self, sequence: TokenSequence) -> Iterator[StreamChunk]:
        detokenizer = Detokenizer(self._tokenizer, is_continuation=self._request.is_continuation)
        stops = StopStrings(self._request.stop)
        while len(self._token_ids) < self._max_tokens:
            token_id = self._next_token(sequence)
            if token_id in self._request.stop_token_ids:
                self._finish_reason, self._stop_reason = "stop", token_id
                break
            result = stops.push(detokenizer.push(token_id))
            yield self._piece(result.text, [token_id])
            if result.stop is not None:
                self._finish_reason, self._stop_reason = "stop", result.stop
                return
            if len(self._token_ids) < self._max_tokens:
                sequence.push([token_id])
        # An id that ended the answer is among its ids, even if text before it holds a stop.
        ended_by_id = isinstance(self._stop_reason, int)
        rest = stops.push(detokenizer.finish())
        text, ended_by = rest.text, rest.stop
        if ended_by is None:
            last = stops.finish()
            text, ended_by = text + last.text, last.stop
        if ended_by is not None:
            self._finish_reason, self._stop_reason = "stop", ended_by
        if text or ended_by_id:
            yield self._piece(text, self._token_ids[-1:] if ended_by_id else [])

    def _next_token(self, sequence: TokenSequence) -> int:
        while sequence.selected is None:
            if self._is_cancelled:
                raise RunCancelledError
            self._runner.advance([sequence])
        self._token_ids.append(sequence.selected)
        self._last_token_ns = time.perf_counter_ns()
        self._first_token_ns = self._first_token_ns or self._last_token_ns
        return sequence.selected

    def _piece(self, text: str, token_ids: list[int]) -> StreamChunk:
        self._text.append(text)
        return StreamChunk(text=text, token_ids=token_ids)

    def result(self) -> Completion:
        """Return the answer, once the pieces have come to their end."""
        return Completion(
            text="".join(self._text),
            token_ids=self._token_ids,
            digest=self._digest.hex(),
            finish_reason=self._finish_reason,
            stop_reason=self._stop_reason,
            usage=Usage(
                prompt_tokens=len(self._request.prompt_ids),
                completion_tokens=len(self._token_ids),
                prefill_ms=(self._first_token_ns - self._started_ns) / NANOSECONDS_PER_MS,
                decode_ms=(self._last_token_ns - self._first_token_ns) / NANOSECONDS_PER_MS,
            ),
        )


def stop_strings(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return stops as a tuple, however the caller gave them."""
    if stop is None:
        return ()
    if not isinstance(stop, Iterable):
        raise OptionRangeError("stop", repr(stop), "a string or several")
    return (stop,) if isinstance(stop, str) else tuple(stop)
