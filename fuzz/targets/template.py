"""Chat templates with conversations: parsing, rendering, and who wrote the control tokens."""

import datetime
import re
import struct
from collections.abc import Sequence
from functools import cache
from typing import Final

from tests.unit.text.chat_templates import CHATML, LLAMA_3, QWEN
from tests.unit.text.vocabularies import byte_level_tokenizer

from fuzz.choices import Choices
from fuzz.target import ByteMutator, Outcomes, Target, require
from sslm.errors.base import ArgumentError, ArtifactError
from sslm.text.chat_encoding import encode_chat
from sslm.text.message import ROLES, Message
from sslm.text.templates.chat_template import ChatTemplate
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import TokenType

_PUBLISHED: Final = (CHATML, LLAMA_3, QWEN)
_DATE: Final = datetime.date(2024, 2, 29)
_MESSAGE_COUNT_MAX: Final = 6
_PIECE_SIZE_BYTES_MAX: Final = 400
_CONTROL_CHARACTERS: Final = "<|>_imstarendI/"

_HAS_DATE: Final = 0x10
_HAS_SURROGATES: Final = 0x20
_IS_ANSWERED: Final = 0x40
_IS_PUBLISHED: Final = 0x80


@cache
def _tokenizer() -> Tokenizer:
    return byte_level_tokenizer()


def run(data: bytes, outcomes: Outcomes) -> None:
    """Take a byte of switches, then a template and contents with a zero byte before each."""
    if not data:
        return
    switches = data[0]
    errors = "surrogateescape" if switches & _HAS_SURROGATES else "replace"
    source, *contents = data[1:].decode(errors=errors).split("\0")
    contents = contents[:_MESSAGE_COUNT_MAX] or [""]
    with outcomes.refusals(ArgumentError, ArtifactError):
        if switches & _IS_PUBLISHED:
            template = ChatTemplate(_PUBLISHED[switches % len(_PUBLISHED)])
            contents = [source, *contents]
        else:
            template = ChatTemplate(source)
        outcomes.reached("template compiled")
        messages = _messages(contents, switches)
        ids = _encoded(template, messages, switches)
        outcomes.reached("conversation encoded")
        _check_controls(template, ids)
        if switches & _IS_PUBLISHED:
            neutral = [Message(one.role, _neutral(one.content)) for one in messages]
            expected = _encoded(template, neutral, switches)
            require(_controls(ids) == _controls(expected), "no content makes a control token")
            outcomes.reached("contents compared with harmless ones")


def _messages(contents: Sequence[str], switches: int) -> list[Message]:
    first = switches % len(ROLES)
    return [
        Message(ROLES[(first + index) % len(ROLES)], content)
        for index, content in enumerate(contents)
    ]


def _encoded(template: ChatTemplate, messages: Sequence[Message], switches: int) -> list[int]:
    return encode_chat(
        _tokenizer(),
        template,
        messages,
        add_generation_prompt=not switches & _IS_ANSWERED,
        date=_DATE if switches & _HAS_DATE else None,
    )


def _neutral(content: str) -> str:
    return content.translate(dict.fromkeys(map(ord, _CONTROL_CHARACTERS), "x"))


def _controls(ids: Sequence[int]) -> list[int]:
    types = _tokenizer().vocabulary.token_types
    return [one for one in ids if types[one] == TokenType.CONTROL]


def _check_controls(template: ChatTemplate, ids: Sequence[int]) -> None:
    """A template that cannot write "<", which every control token has, can make none of them."""
    require(all(0 <= one < _tokenizer().vocab_size for one in ids), "ids are in range")
    writes_it = "<" in template.source or any("<" in one for one in template.literals)
    if not writes_it and "_token" not in template.source:
        require(not _controls(ids), "no control token comes from a message")


def mutate(data: bytes, size_bytes_max: int, seed: int, mutated: ByteMutator) -> bytes:
    """Change bytes, or put a whole piece of template behind another, which mostly stays valid."""
    choices = Choices(struct.pack("<I", seed) * 8)
    ends = [match.end() for match in re.finditer(rb"[}%]}", data.partition(b"\0")[0])]
    if not ends or choices.is_chosen(2):
        return mutated(data, size_bytes_max)
    place = choices.pick(ends)
    changed = data[:place] + choices.pick(_pieces()) + data[place:]
    return changed if len(changed) <= size_bytes_max else data


@cache
def _pieces() -> list[bytes]:
    """Return the templates of the seeds, and each of their expressions alone."""
    sources = [seed[1:].partition(b"\0")[0] for seed in TARGET.seeds() if not seed[0] & 0x80]
    expressions = {one for source in sources for one in re.findall(rb"\{\{.*?\}\}", source)}
    return sorted({one for one in sources if len(one) < _PIECE_SIZE_BYTES_MAX} | expressions)


TARGET: Final = Target(
    name="template",
    subject="chat templates and messages to the prompt's token ids",
    run=run,
    modules=(
        "sslm.text.chat_encoding",
        "sslm.text.templates.chat_template",
        "sslm.text.message",
        "sslm.text.special_tokens",
        "sslm.text.templates.allowance",
        "sslm.text.templates.date",
        "sslm.text.templates.filters",
        "sslm.text.templates.numbers",
        "sslm.text.templates.rewriting",
        "sslm.text.templates.sandbox",
        "sslm.text.templates.values",
    ),
    size_bytes_max=2048,
    reaches=("conversation encoded", "contents compared with harmless ones"),
    mutate=mutate,
    dictionary=tuple(
        word.encode()
        for word in (
            *("{{", "}}", "{%", "%}", "{%-", "-%}", "{{-", "{#", "#}"),
            *("{% for m in messages %}", "{% endfor %}", "{% if ", "{% endif %}", "{% else %}"),
            *("{% set x = ", "{% set ns = namespace(a=1) %}", "{% set ns.a = ", "{% macro f(x) %}"),
            *(
                "{% endmacro %}",
                "{% call f(1) %}",
                "{% endcall %}",
                "{% break %}",
                "{% continue %}",
            ),
            *("{% raw %}", "{% endraw %}", "{% generation %}", "{% filter upper %}"),
            *("m.content", "m['role']", "messages[0]", "loop.index0", "loop.last", "loop.cycle"),
            *("bos_token", "eos_token", "add_generation_prompt", "tools", "caller()"),
            *("|trim", "|tojson", "|join(',')", "|length", "|list", "|map('upper')", "|int"),
            *("|replace('a','b')", "|selectattr('role')", "|dictsort", "|default(1)", "|safe"),
            *(" is defined", " is string", " in ", " not ", " and ", "~", "**", "//", "%c"),
            *(".split('a')", ".strip()", ".format(1)", ".join(", ".items()", "[::-1]", "[1:]"),
            *("range(9999)", "dict(a=1)", "namespace()", "raise_exception('a')", "cycler("),
            *("strftime_now('%d %b %Y')", ".__class__", "__globals__", "self", "lipsum", "varargs"),
            *("<|im_start|>", "<|im_end|>", "<|end|>", "<s>", "<think>", "</think>", "\\x3c"),
        )
    ),
)
