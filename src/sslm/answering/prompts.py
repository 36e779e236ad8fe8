"""Taking in what a caller wants continued, and no more of it than fits."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, Sized
from itertools import islice
from typing import TypeVar

from sslm import limits
from sslm.errors.runtime import ContextLengthError, OptionRangeError
from sslm.errors.text import TextTypeError
from sslm.text.message import Message
from sslm.text.tokenizer import Tokenizer, checked_text

MessageLike = Message | Mapping[str, str]
Prompt = str | Sequence[int]

_T = TypeVar("_T")


def prompt_ids(
    tokenizer: Tokenizer,
    prompt: Prompt,
    context_tokens: int,
    model_tokens: int,
    require_time: Callable[[], None] = lambda: None,
    *,
    is_continued: bool = False,
) -> list[int]:
    """Return the ids of a prompt; text is tokenized, ids are taken as they are, unchecked.

    Args:
        tokenizer: Of the model.
        prompt: Text or ids.
        context_tokens: Most tokens of prompt and answer.
        model_tokens: Of the largest context that the model allows, for errors.
        require_time: Called after each id, as an iterator may take its time, and while text is
            tokenized; raises to stop.
        is_continued: Whether it goes on behind other tokens, so that no begin token comes first.

    Raises:
        TextTypeError: If it is neither text nor ids.
        ContextLengthError: If it is seen not to fit, without tokenizing it or taking in all ids.
        SslmError: What :meth:`Tokenizer.encode` raises.
    """
    if isinstance(prompt, str):
        text = checked_text("the text", prompt)
        tokenizer.require_room(text, context_tokens=context_tokens, model_tokens=model_tokens)
        add_bos = False if is_continued else None
        return tokenizer.encode(prompt, add_bos=add_bos, require_time=require_time)
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
    ids = (
        list(islice(_timed(prompt, require_time), context_tokens)) if count < context_tokens else []
    )
    if max(count, len(ids)) >= context_tokens:
        raise ContextLengthError(max(count, len(ids)) + 1, context_tokens, model_tokens)
    return ids


def bounded_prompts(prompts: Iterable[Prompt], require_time: Callable[[], None]) -> list[Prompt]:
    """Return the prompts of one call, of which no more are taken than are allowed.

    *require_time* is called after each, and raises to stop.

    Raises:
        OptionRangeError: If they are not several, or too many.
    """
    if not _is_several(prompts):
        raise OptionRangeError("prompts", f"of type {type(prompts).__name__}", "a list of prompts")
    most = limits.PROMPT_COUNT_MAX
    taken = list(islice(_timed(prompts, require_time), most + 1))
    if len(taken) > most:
        raise OptionRangeError("prompts", f"more than {most}", f"at most {most}")
    return taken


def bounded_messages(
    messages: Iterable[MessageLike], require_time: Callable[[], None]
) -> list[Message]:
    """Return the messages of a conversation, of which at most one too many is taken.

    *require_time* is called after each, and raises to stop.

    Raises:
        OptionRangeError: If they are not several.
        SslmError: What a bad message raises.
    """
    if not _is_several(messages):
        expected = "a list of messages"
        raise OptionRangeError("messages", f"of type {type(messages).__name__}", expected)
    taken = islice(_timed(messages, require_time), limits.CHAT_MESSAGE_COUNT_MAX + 1)
    return [one if isinstance(one, Message) else Message.from_mapping(one) for one in taken]


def _is_several(value: object) -> bool:
    if isinstance(value, (str, bytes, bytearray, Mapping, Set)):
        return False
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:  # An array without dimensions says that it is iterable.
        return False
    return True


def _timed(items: Iterable[_T], require_time: Callable[[], None]) -> Iterator[_T]:
    for item in items:
        # What has a length is there already, and its rows are answered one by one.
        if not isinstance(items, Sized):
            require_time()
        yield item
