"""What a request of the OpenAI interface asks for, in the words of this package."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from sslm import limits
from sslm.answering.request import AnswerOptions
from sslm.answering.rows import RowRequest
from sslm.errors.batches import BatchFieldError, BatchModelError, BatchValueError
from sslm.errors.showing import briefly, int_range
from sslm.serving.json_text import JsonValue
from sslm.serving.openai_schema import FIELDS, schema_options

CHAT_URL: Final = "/v1/chat/completions"
TEXT_URL: Final = "/v1/completions"

_PASSED: Final = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "stop", "stop_token_ids"),
    *("presence_penalty", "frequency_penalty", "repetition_penalty"),
    *("damping", "damping_order", "damping_top_k"),
)
"""Fields that are options of the same names."""
_COMMON: Final = ("model", "max_tokens", "n", "stream", "logit_bias", "logprobs", *_PASSED, *FIELDS)
_FIELDS: Final = {
    CHAT_URL: ("messages", "max_completion_tokens", "top_logprobs", *_COMMON),
    TEXT_URL: ("prompt", *_COMMON),
}
"""Fields of a body, by where it is sent."""
_ASIDE: Final = (
    "metadata",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
)
"""Fields of OpenAI's that say who asks, or how it is booked: no answer depends on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request asks for.

    Args:
        url: ``CHAT_URL`` or ``TEXT_URL``.
        row: Prompt or messages, with the options of the answers.
        count: How many answers.
        model: By which name the model is asked for, or None.
    """

    url: str
    row: RowRequest
    count: int
    model: str | None

    @property
    def is_chat(self) -> bool:
        """Whether a conversation is to be answered."""
        return self.url == CHAT_URL


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNames:
    """By which names a model may be asked for.

    Args:
        name: Its own.
        model_id: The other one.
        is_any: Whether every other name does, too.
    """

    name: str
    model_id: str
    is_any: bool = False

    def require(self, found: JsonValue) -> str | None:
        """Return the name that a request has, or None if it has none.

        Raises:
            BatchValueError: If it is no text.
            BatchModelError: If it is another model's.
        """
        if found is None:
            return None
        if not isinstance(found, str) or len(found) > limits.BATCH_ROW_ID_SIZE_CHARS_MAX:
            most = limits.BATCH_ROW_ID_SIZE_CHARS_MAX
            raise BatchValueError("model", briefly(found), f"a text of at most {most} characters")
        if not self.is_any and found not in (self.name, self.model_id):
            raise BatchModelError(found, self.name)
        return found


def asked(url: JsonValue, body: JsonValue, *, names: ModelNames, max_tokens: int) -> Asked:
    """Return what a body asks for; null stands for a field that is not there.

    Args:
        url: Where the request is sent.
        body: What is sent there.
        names: By which the model may be asked for.
        max_tokens: Of a request that does not say it.

    Raises:
        BatchValueError: If a field has a value that cannot be understood.
        BatchFieldError: If a field is not known.
        BatchModelError: If another model is asked for.
        SchemaError: If its schema is no document that schemas can be.
    """
    if not isinstance(url, str) or url not in _FIELDS:
        raise BatchValueError("url", briefly(url), " or ".join(_FIELDS))
    if not isinstance(body, Mapping):
        raise BatchValueError("body", briefly(body), "an object")
    require_fields("body", body, (*_FIELDS[url], *_ASIDE))
    given = {name: value for name, value in body.items() if value is not None}
    model = names.require(given.get("model"))
    if given.get("stream", False) is not False:
        raise BatchValueError("body.stream", briefly(given["stream"]), "false, or nothing")
    options: dict[str, Any] = {name: given[name] for name in _PASSED if name in given}
    options["max_tokens"] = _max_tokens(given, max_tokens)
    if "logit_bias" in given:
        options["logit_bias"] = _logit_bias(given["logit_bias"])
    if (logprobs := _logprobs(given, is_chat=url == CHAT_URL)) is not None:
        options["logprobs"] = logprobs
    options |= schema_options(given)
    return Asked(
        url=url,
        row=RowRequest(
            prompt=_prompt(given) if url == TEXT_URL else "",
            messages=_messages(given) if url == CHAT_URL else None,
            options=cast(AnswerOptions, options),
        ),
        count=_count(given.get("n", 1)),
        model=model,
    )


def require_fields(place: str, found: Mapping[str, JsonValue], known: tuple[str, ...]) -> None:
    """Raise BatchFieldError if there is a field that is not known, and that holds anything."""
    for name, value in found.items():
        if name not in known and not _is_absent(value):
            raise BatchFieldError(f"{place}.{name}".lstrip("."), ", ".join(known))


def _needed(given: Mapping[str, JsonValue], name: str) -> JsonValue:
    if name not in given:
        raise BatchValueError(f"body.{name}", "missing", "what is to be answered")
    return given[name]


def _is_absent(value: JsonValue) -> bool:
    """Tell whether a field might as well not be there: clients write some without a value."""
    return value is None or (isinstance(value, str | Sequence | Mapping) and not value)


def _prompt(given: Mapping[str, JsonValue]) -> Any:
    prompt = _needed(given, "prompt")
    if isinstance(prompt, list) and any(isinstance(one, str | list) for one in prompt):
        found = f"a list of {len(prompt)} prompts"
        raise BatchValueError("body.prompt", found, "one: give each a line of its own")
    return prompt


def _messages(given: Mapping[str, JsonValue]) -> list[Mapping[str, str]]:
    messages = _needed(given, "messages")
    if not isinstance(messages, list):
        raise BatchValueError("body.messages", briefly(messages), "a list of messages")
    # What is in them is checked where messages are.
    return cast(list[Mapping[str, str]], messages)


def _max_tokens(given: Mapping[str, JsonValue], default: int) -> JsonValue:
    names = [name for name in ("max_tokens", "max_completion_tokens") if name in given]
    if len(names) > 1 and given[names[0]] != given[names[1]]:
        found = briefly(given[names[1]])
        raise BatchValueError(f"body.{names[1]}", found, f"what {names[0]} is, or only one of them")
    return given[names[0]] if names else default


def _logit_bias(found: JsonValue) -> dict[int, JsonValue]:
    """Return biases by ids, which are texts in JSON."""
    expected = "an object of biases by token ids"
    if not isinstance(found, Mapping):
        raise BatchValueError("body.logit_bias", briefly(found), expected)
    biases: dict[int, JsonValue] = {}
    for key, bias in found.items():
        # One spelling of each id, so that none is given twice.
        if not (key.isascii() and key.isdecimal() and len(key) <= 7 and str(int(key)) == key):
            raise BatchValueError("body.logit_bias", f"for {briefly(key)}", expected)
        biases[int(key)] = bias
    return biases


def _logprobs(given: Mapping[str, JsonValue], *, is_chat: bool) -> JsonValue:
    """Return of how many tokens log-probabilities are wanted beside the chosen one's, or None."""
    found = given.get("logprobs")
    if not is_chat:
        return found
    if found is not None and not isinstance(found, bool):
        raise BatchValueError("body.logprobs", briefly(found), "true or false")
    top = given.get("top_logprobs")
    if top is not None and not found:
        raise BatchValueError("body.top_logprobs", briefly(top), "nothing without logprobs")
    return (0 if top is None else top) if found else None


def _count(found: JsonValue) -> int:
    most = limits.ANSWER_COUNT_MAX
    if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= most:
        raise BatchValueError("body.n", briefly(found), int_range(1, most))
    return found
