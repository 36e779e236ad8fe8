"""Log-probabilities as commands show them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sslm.cli.screen.output import note

if TYPE_CHECKING:
    from sslm.answering.results import Completion
    from sslm.sampling.logprobs import Logprob, TokenLogprob
    from sslm.text.tokenizer import Tokenizer


def logprob_facts(
    logprobs: "Sequence[TokenLogprob] | None", tokenizer: "Tokenizer"
) -> list[dict[str, object]] | None:
    """Return log-probabilities as JSON output carries them; decimals are texts, which are exact."""
    if logprobs is None:
        return None
    return [
        _facts(one, tokenizer) | {"top": [_facts(likely, tokenizer) for likely in one.top]}
        for one in logprobs
    ]


def note_logprobs(completion: "Completion", tokenizer: "Tokenizer") -> None:
    """Write a line for each token of an answer to stderr, if its log-probabilities are there."""
    for one in completion.logprobs or ():
        others = ", ".join(_told(likely, tokenizer) for likely in one.top)
        note(f"logprob {_told(one, tokenizer)}" + (f"; likely: {others}" if others else ""))


def _facts(one: "Logprob", tokenizer: "Tokenizer") -> dict[str, object]:
    return {
        "token_id": one.token_id,
        "token": _text(one.token_id, tokenizer),
        "logprob": str(one.decimal),
        "q20": one.q20,
    }


def _told(one: "Logprob", tokenizer: "Tokenizer") -> str:
    return f"{one.decimal} {_text(one.token_id, tokenizer)!r}"


def _text(token_id: int, tokenizer: "Tokenizer") -> str:
    """Return the text of a token, or the name of one that has none."""
    data = tokenizer.token_bytes(token_id)
    return data.decode("utf-8", "replace") if data else tokenizer.spelling(token_id)
