"""Log-probabilities of the rows that a sequence computed."""

import sys
from collections.abc import Sequence

from sslm.opening.runner import Runner
from sslm.runtime.sequences.state import Chunk
from sslm.sampling.logprobs import Logprob, TokenLogprob


class PromptLogprobs:
    """Log-probabilities of the tokens of a prompt, taken from its chunks as they are computed.

    Args:
        runner: Of the model.
        prompt_ids: The prompt.
        top_count: How many of the most likely tokens are told for each.

    Attributes:
        found: One for each token so far; None for the first, which nothing predicts.
    """

    def __init__(self, runner: Runner, prompt_ids: Sequence[int], top_count: int) -> None:
        self._runner = runner
        self._prompt_ids = prompt_ids
        self._top_count = top_count
        self.found: list[TokenLogprob | None] = [None]

    def take(self, chunk: Chunk) -> None:
        """Take what the rows of a chunk, all of which are scored, predict of the prompt."""
        first = chunk.span.first_position
        for row in range(chunk.span.row_count):
            following = first + row + 1
            if following == len(self.found) < len(self._prompt_ids):
                token_id = self._prompt_ids[following]
                self.found.append(
                    row_logprob(self._runner, chunk, row, token_id, top_count=self._top_count)
                )


def last_logprob(runner: Runner, chunk: Chunk, token_id: int, *, top_count: int) -> TokenLogprob:
    """Return the log-probability of the token that comes after the last row of a chunk."""
    return row_logprob(runner, chunk, chunk.span.row_count - 1, token_id, top_count=top_count)


def row_logprob(
    runner: Runner, chunk: Chunk, row: int, token_id: int, *, top_count: int
) -> TokenLogprob:
    """Return the log-probability of the token that comes after a row.

    Args:
        runner: Of the model.
        chunk: Of a sequence that was made to choose by scores; its results are still there.
        row: Of the chunk, one that was scored.
        token_id: What comes after it.
        top_count: How many of the most likely tokens are told beside it.

    Raises:
        LogitRangeError: If the largest logit is beyond what log-probabilities are computed of.
        ObjectClosedError: If the model is closed.
    """
    span = chunk.span
    if span.logits is None or span.logit_exponents is None:
        raise AssertionError("the sequence was made with room for scores")
    at, size = row - span.first_logits_row, 8 * runner.program.vocab_size
    exponents = span.logit_exponents.cast("B")[4 * at : 4 * at + 4]
    exponent = int.from_bytes(exponents, sys.byteorder, signed=True)
    logits = span.logits.cast("B")[size * at : size * (at + 1)]
    told = runner.logprobs(logits, exponent, [token_id], top_count=top_count)
    q20 = told.values[0]
    if q20 is None:
        raise AssertionError("a token that is chosen or given is one that is allowed")
    top = tuple(Logprob(token_id=one, q20=value) for one, value in told.top)
    return TokenLogprob(token_id=token_id, q20=q20, top=top)
