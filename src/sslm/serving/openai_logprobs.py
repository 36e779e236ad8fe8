"""Log-probabilities as the OpenAI interface has them."""

from sslm.answering.results import Completion
from sslm.sampling.logprobs import Logprob
from sslm.text.tokenizer import Tokenizer


def chat_logprobs(completion: Completion, tokenizer: Tokenizer) -> dict[str, object] | None:
    """Return what an answer to a conversation tells, or None if that was not asked for."""
    if completion.logprobs is None:
        return None
    return {
        "content": [
            _told(one, tokenizer)
            | {"top_logprobs": [_told(likely, tokenizer) for likely in one.top]}
            for one in completion.logprobs
        ]
    }


def text_logprobs(completion: Completion, tokenizer: Tokenizer) -> dict[str, object] | None:
    """Return what the continuation of a text tells, or None if that was not asked for.

    Where two of the most likely tokens have one text, the likelier one is told.
    """
    if completion.logprobs is None:
        return None
    return {
        "tokens": [_text(one, tokenizer) for one in completion.logprobs],
        "token_logprobs": [_number(one) for one in completion.logprobs],
        "top_logprobs": [
            {_text(likely, tokenizer): _number(likely) for likely in reversed(one.top)}
            for one in completion.logprobs
        ],
    }


def _told(one: Logprob, tokenizer: Tokenizer) -> dict[str, object]:
    data = tokenizer.token_bytes(one.token_id)
    return {
        "token": _text(one, tokenizer),
        "logprob": _number(one),
        "bytes": list(data) if data else None,
    }


def _text(one: Logprob, tokenizer: Tokenizer) -> str:
    """Return the text of a token, or the name of one that has none."""
    data = tokenizer.token_bytes(one.token_id)
    return data.decode("utf-8", "replace") if data else tokenizer.spelling(one.token_id)


def _number(one: Logprob) -> float:
    """Return six exact decimal places as JSON has numbers: a float prints as its shortest one."""
    return float(one.decimal)
