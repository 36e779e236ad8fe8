"""Chat templates: the Jinja programs that turn a conversation into a prompt."""

import datetime
from collections.abc import Callable, Sequence

from sslm import limits
from sslm.errors.base import SslmError
from sslm.errors.text import (
    MessageCountError,
    TemplateFailedError,
    TemplateSizeError,
    TemplateSyntaxError,
    TemplateWorkError,
    TextTooLongError,
)
from sslm.text.message import Message
from sslm.text.tokenizer import checked_text

_REASON_SIZE_CHARS_MAX = 500


class ChatTemplate:
    """A compiled chat template. It reads no clock, file or random number, and its work is bounded.

    Args:
        source: Jinja as Hugging Face's tokenizers understand it.

    Attributes:
        source: As given.
        literals: The string constants in its expressions: all that it can look for in a message.

    Raises:
        TemplateSizeError: If *source* is empty or too long.
        TemplateSyntaxError: If it is not valid Jinja.
        TemplateFeatureError: If it uses a part of Jinja that is refused here.
    """

    def __init__(self, source: str) -> None:
        checked_text("the chat template", source)
        most = limits.CHAT_TEMPLATE_SIZE_CHARS_MAX
        if not 1 <= len(source) <= most:
            raise TemplateSizeError(len(source), most)
        from jinja2 import TemplateSyntaxError as JinjaSyntaxError

        from sslm.text.templates.rewriting import compile_template

        self.source = source
        try:
            self._code, self.literals = compile_template(source)
        except (SslmError, MemoryError, RecursionError):
            raise
        except JinjaSyntaxError as error:
            raise TemplateSyntaxError(error.lineno, _reason(error)) from error
        except Exception as error:
            # Python's own compiler refuses some of what Jinja's lets through, in several ways.
            raise TemplateSyntaxError(0, _reason(error)) from error

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool,
        bos_token: str = "",
        eos_token: str = "",
        date: datetime.date | None = None,
        require_time: Callable[[], None] = lambda: None,
    ) -> str:
        """Return the prompt for *messages*, as text.

        Control tokens spelled in a message look like the template's own here; to keep them
        literal, see :func:`sslm.text.chat_encoding.encode_chat`.

        Args:
            messages: At least one.
            add_generation_prompt: Whether the prompt ends where the assistant's answer begins.
            bos_token: Spelling of the begin token, empty if there is none.
            eos_token: Spelling of the end token, likewise.
            date: Today, for templates that mention it; None leaves them without.
            require_time: Called every now and then; what it raises, of ours, ends rendering.

        Raises:
            MessageCountError: If there are no messages, or too many.
            ChatRefusedError: If the template refuses the conversation.
            TemplateWorkError: If rendering takes too much work or memory.
            TemplateFailedError: If it fails in any other way.
            TextTooLongError: If the messages together, or the result, are too long to tokenize.
            TextUnicodeError: If the result is not valid Unicode.
        """
        if not 1 <= len(messages) <= limits.CHAT_MESSAGE_COUNT_MAX:
            raise MessageCountError(len(messages), limits.CHAT_MESSAGE_COUNT_MAX)
        contents = [one.content for one in messages]
        _require_size("the conversation", contents)
        from sslm.text.templates.allowance import Allowance
        from sslm.text.templates.sandbox import run_template

        variables = {
            "messages": [{"role": one.role, "content": one.content} for one in messages],
            "add_generation_prompt": add_generation_prompt,
            "bos_token": bos_token,
            "eos_token": eos_token,
        }
        try:
            allowance = Allowance.for_messages(contents, require_time)
            text = run_template(self._code, variables, allowance, date)
        except (SslmError, MemoryError, RecursionError):
            raise
        except Exception as error:
            # A template can provoke any of Python's errors, and each is the template's failure.
            raise TemplateFailedError(_reason(error)) from error
        _require_prompt_size(len(text), contents)
        return checked_text("the rendered prompt", text)


def _require_size(what: str, texts: Sequence[str]) -> None:
    size_chars = sum(map(len, texts))
    if size_chars > limits.TEXT_SIZE_CHARS_MAX:
        raise TextTooLongError(what, size_chars, limits.TEXT_SIZE_CHARS_MAX)


def _require_prompt_size(size_chars: int, contents: Sequence[str]) -> None:
    most = (
        limits.CHAT_PROMPT_SIZE_CHARS_MAX
        + limits.CHAT_PROMPT_CHARS_PER_MESSAGE * len(contents)
        + limits.CHAT_PROMPT_COPIES_OF_CONTENT * sum(map(len, contents))
    )
    if size_chars > most:
        raise TemplateWorkError(f"a prompt of {size_chars} characters", most)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_REASON_SIZE_CHARS_MAX]
