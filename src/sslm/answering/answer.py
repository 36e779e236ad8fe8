"""What an answer is so far: chosen ids become text, until something ends it."""

import json
from collections.abc import Sequence
from typing import Any

from sslm.answering.request import Request
from sslm.answering.results import (
    SCHEMA_STOP,
    Completion,
    FinishReason,
    LengthReason,
    StreamChunk,
    Usage,
)
from sslm.runtime.sequences.schema_binding import Ending
from sslm.sampling.logprobs import TokenLogprob
from sslm.sampling.options import options_of
from sslm.text.detokenizer import Detokenizer
from sslm.text.partial_json import PartialText
from sslm.text.stops import StopStrings
from sslm.text.tokenizer import Tokenizer


class Answer:
    """Takes the chosen ids one by one, and says when to stop.

    Args:
        tokenizer: Of the model.
        request: What is answered.
        max_tokens: Most ids, at least 1; the request's, or fewer if the context ends before.

    Attributes:
        token_ids: Every id that was taken, the one that ended the answer included.
        is_complete: Whether the answer has come to its end; it takes no more ids then.
        finish_reason: Why it ended, or would if it were to end here.
        stop_reason: The id or string that ended it, or None.
        ending: Why its schema let nothing follow, if that ended it, or None.
    """

    def __init__(self, tokenizer: Tokenizer, request: Request, *, max_tokens: int) -> None:
        self.token_ids: list[int] = []
        self.is_complete = False
        self.finish_reason: FinishReason = "length"
        self.stop_reason: int | str | None = None
        self.ending: Ending | None = None
        self._stop_token_ids = request.stop_token_ids
        self._schema = request.schema
        self._is_whole = False
        self._end_ids = request.schema.bound.end_ids if request.schema else ()
        self._max_tokens = max_tokens
        self._is_cut = max_tokens < request.max_tokens
        self._choosing = request.choosing
        self._logprobs: list[TokenLogprob] | None = None if request.logprobs is None else []
        self._text: list[str] = []
        self._partial = PartialText(self._text)
        self._detokenizer = Detokenizer(tokenizer, is_continuation=request.is_continuation)
        self._stops = StopStrings(request.stop)

    @property
    def text(self) -> str:
        """The text that is certain so far."""
        return "".join(self._text)

    @property
    def partial(self) -> Any:
        """The value of the text so far as far as it is complete; None without a schema.

        See :meth:`sslm.text.partial_json.PartialJson.value`.
        """
        if self._schema is None:
            return None
        # A number ends with the text, and with nothing in it.
        return json.loads(self.text) if self._is_whole else self._partial.value()

    @property
    def length_reason(self) -> LengthReason | None:
        """What keeps the answer from going on, unless something in it ends it."""
        if self.finish_reason != "length":
            return None
        return "context" if self._is_cut else "max_tokens"

    def take(
        self,
        token_id: int,
        logprob: TokenLogprob | None = None,
        *,
        ending: Ending | None = None,
    ) -> list[StreamChunk]:
        """Take the next id, with its log-probability if those are asked for.

        Args:
            token_id: What was chosen.
            logprob: Its, or None.
            ending: Why the schema lets nothing follow it but what ends an answer, or None.

        Returns:
            The pieces of text that it makes certain, none or several.
        """
        self.token_ids.append(token_id)
        if self._logprobs is not None and logprob is not None:
            self._logprobs.append(logprob)
        if token_id in self._stop_token_ids:
            self._end(token_id)
            self._is_whole = token_id in self._end_ids
            return self._rest([token_id])
        result = self._stops.push(self._detokenizer.push(token_id))
        pieces = [self._piece(result.text, [token_id])]
        if result.stop is not None:
            self._end(result.stop)
        elif ending is not None:
            self._end_by_schema(ending)
            pieces += self._rest([])
        elif len(self.token_ids) == self._max_tokens:
            self.is_complete = True
            pieces += self._rest([])
        return pieces

    def completion(
        self,
        digest: bytes,
        usage: Usage,
        *,
        prompt_logprobs: Sequence[TokenLogprob | None] | None = None,
        forced_tokens: int = 0,
    ) -> Completion:
        """Return the answer as it is handed out, once it is complete."""
        return Completion(
            text=self.text,
            token_ids=list(self.token_ids),
            digest=digest.hex(),
            finish_reason=self.finish_reason,
            stop_reason=self.stop_reason,
            length_reason=self.length_reason,
            seed=self._choosing.seed,
            choosing=options_of(self._choosing.choice),
            logprobs=None if self._logprobs is None else list(self._logprobs),
            prompt_logprobs=None if prompt_logprobs is None else list(prompt_logprobs),
            parser=self._schema.parser if self._schema and self._is_whole else None,
            forced_tokens=forced_tokens,
            usage=usage,
        )

    def _rest(self, token_ids: list[int]) -> list[StreamChunk]:
        """Return the piece that ends an answer, unless there is nothing in it."""
        rest = self._stops.push(self._detokenizer.finish())
        text, stop = rest.text, rest.stop
        if stop is None:
            last = self._stops.finish()
            text, stop = text + last.text, last.stop
        if stop is not None:
            self._end(stop)
            self._is_whole, self.ending = False, None
        return [self._piece(text, token_ids)] if text or token_ids else []

    def _end(self, stop_reason: int | str) -> None:
        self.is_complete = True
        self.finish_reason, self.stop_reason = "stop", stop_reason

    def _end_by_schema(self, ending: Ending) -> None:
        self._end(SCHEMA_STOP)
        if ending == "dead_end":
            self.finish_reason, self.stop_reason = "dead_end", None
        self._is_whole, self.ending = True, ending

    def _piece(self, text: str, token_ids: list[int]) -> StreamChunk:
        self._text.append(text)
        return StreamChunk(text=text, token_ids=token_ids)
