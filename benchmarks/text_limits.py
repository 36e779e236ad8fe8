"""How long each operation on text takes for the largest input that is accepted."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.hostile.text_families import families
from tests.unit.text.vocabularies import byte_level_tokenizer, sentencepiece_tokenizer

from sslm import limits
from sslm.errors.base import SslmError
from sslm.text.chat_encoding import encode_chat
from sslm.text.message import Message
from sslm.text.special_tokens import SpecialTokenFinder
from sslm.text.templates.chat_template import ChatTemplate
from sslm.text.tokenizer import Tokenizer

_SIZE: Final = limits.TEXT_SIZE_CHARS_MAX
_WORDS: Final = ("Hello, world! <b>It's</b> 3.14159 " * (_SIZE // 34))[:_SIZE]
_OPEN: Final = "<" * _SIZE
_BUSY: Final = "{% for m in messages %}{% for i in range(10 ** 9) %}{{ i }}{% endfor %}{% endfor %}"
_ENDLESS: Final = "{% set n = namespace(i=0) %}" + (
    "{% for m in messages %}{% for k in messages %}{% set n.i = n.i + 1 %}{% endfor %}{% endfor %}"
)
_TOUCHING: Final = "{% for i in range(999) %}{% set x = messages[0].content.upper() %}{% endfor %}"


def _operations() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is done, in words, and the doing."""
    byte_level, pieces = byte_level_tokenizer(), sentencepiece_tokenizer()
    yield "tokenize words, byte-level", lambda: byte_level.encode(_WORDS)
    yield "tokenize words, SentencePiece", lambda: pieces.encode(_WORDS)
    yield "tokenize one word, SentencePiece", lambda: pieces.encode("a" * _SIZE)
    ids = [*b"Hello"] * (limits.CONTEXT_TOKENS_MAX // 5)
    yield "detokenize a full context", lambda: byte_level.decode(ids)
    alike = {"a" * size + "b": size for size in range(2, limits.SPECIAL_TOKEN_SIZE_CHARS_MAX)}
    finder = SpecialTokenFinder(alike)
    yield "find special tokens that begin alike", lambda: sum(1 for _ in finder.split("a" * _SIZE))
    for family in families():
        template = ChatTemplate(family.source)
        yield (
            f"chat, one message, {family.name}",
            _chat(family.tokenizer, template, [_WORDS[:-1024]]),
        )
    family = families()[0]
    many = ["Hi!"] * limits.CHAT_MESSAGE_COUNT_MAX
    chatml = ChatTemplate(family.source)
    yield "chat, all messages", _chat(family.tokenizer, chatml, many)
    yield "chat, one message of markers", _chat(family.tokenizer, chatml, [_OPEN[:-1024]])
    for name, source in (("busy", _BUSY), ("endless", _ENDLESS), ("touching", _TOUCHING)):
        template = ChatTemplate(source)
        yield f"refuse a {name} template, all messages", _chat(family.tokenizer, template, many)
        yield (
            f"refuse a {name} template, one message",
            _chat(family.tokenizer, template, [_WORDS[:-1024]]),
        )
    source = "{% if a %}b{% endif %}" * (limits.CHAT_TEMPLATE_NODE_COUNT_MAX // 5)
    yield "compile the longest template", lambda: ChatTemplate(source)


def _chat(
    tokenizer: Tokenizer, template: ChatTemplate, contents: list[str]
) -> Callable[[], object]:
    roles = ("user", "assistant")
    messages = [Message(roles[index % 2], one) for index, one in enumerate(contents)]
    return lambda: encode_chat(tokenizer, template, messages)


def main() -> int:
    """Print processor time and outcome of every operation."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    for name, operation in _operations():
        started = time.process_time()
        try:
            operation()
            outcome = "done"
        except SslmError as error:
            outcome = error.cause
        print(f"{time.process_time() - started:6.2f} s  {name}: {outcome}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
