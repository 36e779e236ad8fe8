"""Taking in what a caller wants continued, and no more of it than fits."""

import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice

from sslm import limits
from sslm.errors.runtime import ContextLengthError, OptionRangeError
from sslm.errors.text import TextTypeError
from sslm.text.message import Message
from sslm.text.tokenizer import Tokenizer, checked_text

MessageLike = Message | Mapping[str, str]
Prompt = str | Sequence[int]


def prompt_ids(tokenizer: Tokenizer, prompt: Prompt, context_tokens: int) -> list[int]:
    """Return the ids of a prompt; text is tokenized, ids are taken as they are, unchecked.

    Raises:
        TextTypeError: If it is neither text nor ids.
        ContextLengthError: If it is seen not to fit, without tokenizing it or taking in all ids.
        SslmError: What :meth:`Tokenizer.encode` raises.
    """
    if isinstance(prompt, str):
        tokenizer.require_room(checked_text("the text", prompt), context_tokens)
        return tokenizer.encode(prompt)
    if not _is_several(prompt):
        what = "the prompt, unless it is a list of token ids,"
        raise TextTypeError(what, type(prompt).__name__)
    try:
        count = len(prompt) if hasattr(prompt, "__len__") else 0
    except OverflowError:
        count = sys.maxsize
    except TypeError as error:  # An array without dimensions has no length.
        raise TextTypeError("the prompt", type(prompt).__name__) from error
    # One id more is the answer's.
    ids = list(islice(prompt, context_tokens)) if count < context_tokens else []
    if max(count, len(ids)) >= context_tokens:
        raise ContextLengthError(max(count, len(ids)) + 1, context_tokens)
    return ids


def bounded_prompts(prompts: Iterable[Prompt]) -> list[Prompt]:
    """Return the prompts of one call, of which no more are taken than are allowed.

    Raises:
        OptionRangeError: If they are not several, or too many.
    """
    if not _is_several(prompts):
        raise OptionRangeError("prompts", f"of type {type(prompts).__name__}", "a list of prompts")
    most = limits.PROMPT_COUNT_MAX
    taken = list(islice(prompts, most + 1))
    if len(taken) > most:
        raise OptionRangeError("prompts", f"more than {most}", f"at most {most}")
    return taken


def bounded_messages(messages: Iterable[MessageLike]) -> list[Message]:
    """Return the messages of a conversation, of which at most one too many is taken.

    Raises:
        OptionRangeError: If they are not several.
        SslmError: What a bad message raises.
    """
    if not _is_several(messages):
        expected = "a list of messages"
        raise OptionRangeError("messages", f"of type {type(messages).__name__}", expected)
    taken = islice(messages, limits.CHAT_MESSAGE_COUNT_MAX + 1)
    return [one if isinstance(one, Message) else Message.from_mapping(one) for one in taken]


def _is_several(value: object) -> bool:
    is_one = isinstance(value, (str, bytes, bytearray, Mapping, Set))
    return isinstance(value, Iterable) and not is_one
