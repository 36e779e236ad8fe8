"""Lines of a file of answers: nothing in them depends on when or where they were made."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Final

from sslm.answering.results import Completion
from sslm.errors.base import SslmError
from sslm.errors.showing import presentable
from sslm.hashes import Sha256
from sslm.serving.batch_input import InputRow
from sslm.serving.openai_logprobs import chat_logprobs, text_logprobs
from sslm.serving.openai_request import Asked
from sslm.text.tokenizer import Tokenizer

_ID_CHARS: Final = 32
ANSWERED: Final = 200
REFUSED: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What decides the answers of a job beside its requests and the identity of the model.

    Args:
        seed: From which those of rows are derived.
        max_tokens: Of requests that do not say it.
        context_tokens: Most tokens of prompt and answer.
        date: Today, as chat templates are told, or None.
        model: The name by which requests may ask for the model.
        is_any_model: Whether they may ask for it by any other.
        schemas: Hex of the compiled schemas in the model's file, which requests may name, or None.
        schema: Hex of the schema that answers follow whose requests say nothing of one, or None.
        finish: How answers that follow a schema end whose requests do not say it, or None.
    """

    seed: int
    max_tokens: int
    context_tokens: int
    date: str | None
    model: str
    is_any_model: bool
    schemas: str | None = None
    schema: str | None = None
    finish: str | None = None

    def digest(self) -> str:
        """Return hex that stands for all of them."""
        facts = asdict(self)
        # Which names do decides no answer: it may be given when a job goes on.
        facts["is_any_model"] = False
        # Of jobs without schemas, what it was before there were any.
        for name in ("schemas", "schema", "finish"):
            if facts[name] is None:
                del facts[name]
        return _digest("job", json.dumps(facts, sort_keys=True).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMaker:
    """Makes the lines of one job.

    Args:
        model_id: Hex.
        arithmetic_version: Of the model.
        job: What else decides the answers.
        tokenizer: Of the model.
    """

    model_id: str
    arithmetic_version: int
    job: JobOptions
    tokenizer: Tokenizer

    def head(self, row: InputRow) -> bytes:
        """Return how the line of a row begins, which no other row, model or job has."""
        request = _digest("row", row.data)
        facts = (self.model_id, str(self.arithmetic_version), self.job.digest(), request)
        fields = {
            "id": "batch_req_" + _digest("line", "\n".join(facts).encode()),
            "custom_id": row.row_id,
            "sslm": {
                "model_id": self.model_id,
                "arithmetic_version": self.arithmetic_version,
                "job": self.job.digest(),
                "request": request,
            },
        }
        return _json(fields).removesuffix("}}").encode()

    def answer(
        self, row: InputRow, asked: Asked, seed: int, completions: Sequence[Completion]
    ) -> bytes:
        """Return the line of a row that was answered."""
        digests = [completion.digest for completion in completions]
        usage = [completion.usage for completion in completions]
        prompt, answers = usage[0].prompt_tokens, sum(one.completion_tokens for one in usage)
        body = {
            "id": self._name("chatcmpl" if asked.is_chat else "cmpl", row),
            "object": "chat.completion" if asked.is_chat else "text_completion",
            "created": 0,
            "model": asked.model or self.job.model,
            "choices": [
                _choice(index, completion, self.tokenizer, is_chat=asked.is_chat)
                for index, completion in enumerate(completions)
            ],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": answers,
                "total_tokens": prompt + answers,
            },
        }
        digest = digests[0] if len(digests) == 1 else _row_digest(digests)
        return self._line(row, {"seed": seed, "digest": digest}, ANSWERED, body)

    def refusal(self, row: InputRow, error: SslmError) -> bytes:
        """Return the line of a row that was not."""
        body = {
            "error": {
                "message": str(presentable(str(error))),
                "type": "invalid_request_error",
                "param": None,
                "code": error.cause,
                "status": int(error.status),
            }
        }
        return self._line(row, {}, REFUSED, body)

    def _line(
        self, row: InputRow, sslm: Mapping[str, object], code: int, body: Mapping[str, object]
    ) -> bytes:
        facts = "".join(f", {_json(name)}: {_json(fact)}" for name, fact in sslm.items())
        response = {
            "status_code": code,
            "request_id": self._name("req", row),
            "body": body,
        }
        tail = f'{facts}}}, "response": {_json(response)}, "error": null}}\n'
        return self.head(row) + tail.encode()

    def _name(self, kind: str, row: InputRow) -> str:
        return f"{kind}-{_digest(self.job.digest(), row.data)}"


def is_refusal(line_beginning: bytes) -> bool:
    """Tell of the beginning of a whole line, a few hundred bytes behind its head, which it is."""
    return f'}}, "response": {{"status_code": {REFUSED}, '.encode() in line_beginning


def _choice(
    index: int, completion: Completion, tokenizer: Tokenizer, *, is_chat: bool
) -> dict[str, object]:
    told_logprobs = chat_logprobs if is_chat else text_logprobs
    said: dict[str, object] = (
        {"message": {"role": "assistant", "content": completion.text}}
        if is_chat
        else {"text": completion.text}
    )
    return {
        "index": index,
        **said,
        "logprobs": told_logprobs(completion, tokenizer),
        "finish_reason": completion.finish_reason,
        "sslm": {
            "seed": completion.seed,
            "choosing": {name: _plain(value) for name, value in completion.choosing.items()},
            "digest": completion.digest,
            "token_ids": completion.token_ids,
            "stop_reason": completion.stop_reason,
            "length_reason": completion.length_reason,
        }
        | _exact(completion),
    }


def _exact(completion: Completion) -> dict[str, object]:
    if completion.logprobs is None:
        return {}
    return {"logprobs_q20": [one.q20 for one in completion.logprobs]}


def _plain(value: object) -> object:
    """Return an option as JSON has it; decimals are texts there, which are exact."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    return str(value) if isinstance(value, Decimal) else value


def _row_digest(digests: Sequence[str]) -> str:
    return Sha256(b"sslm row digest\0" + "".join(digests).encode()).hexdigest()


def _digest(kind: str, data: bytes) -> str:
    found = Sha256(f"sslm batch {kind}\0".encode() + data).hexdigest()
    return found[:_ID_CHARS]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
