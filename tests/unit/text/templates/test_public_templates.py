"""Public chat templates render as Jinja renders them in the environment that model hubs use."""

import datetime
import json
from functools import cache
from typing import Any, Final

import jinja2
import pytest
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sslm.errors.base import SslmError
from sslm.text.message import Message
from sslm.text.templates.chat_template import ChatTemplate
from tests.data import shared_data

DATE: Final = datetime.date(2024, 7, 26)
SPECIAL: Final = {"bos_token": "<s>", "eos_token": "</s>"}

TALKS: Final = {
    "a question": [("user", "Hi")],
    "a system message": [("system", " Be brief. "), ("user", " Hi\n")],
    "three turns": [("user", "Hi"), ("assistant", "Yes?"), ("user", "\n?")],
    "an answer at the end": [("user", "Hi"), ("assistant", "Yes?")],
    "reasoning and a system message": [
        ("system", "Be brief."),
        ("user", "{{ 'é' }} <b>"),
        ("assistant", "<think>\nHm.</think>\n\nYes?"),
        ("user", "one\n\ntwo"),
        ("assistant", "z"),
        ("user", ""),
    ],
}

REFUSED_BY_PLAIN_JINJA: Final = {
    "MiroThinker.jinja": {
        "three turns",
        "an answer at the end",
        "reasoning and a system message",
    },
    "fireworks-ai-llama-3-firefunction-v2.Rau.jinja": set(TALKS),
    "fireworks-ai-llama-3-firefunction-v2.ika.jinja": set(TALKS),
    "fireworks-ai-llama-3-firefunction-v2.jinja": set(TALKS),
    "google-gemma-2-2b-it.jinja": {"a system message", "reasoning and a system message"},
}
"""They set an attribute of a message, need functions, or take no system message."""


class _GenerationTag(Extension):
    """As transformers has it: the body is a macro that is called at once."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_said"), [], [], body).set_lineno(line)

    def _said(self, caller: Macro) -> str:
        return caller()


def _refuse(reason: str) -> None:
    raise jinja2.TemplateError(reason)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


@cache
def _plain(source: str) -> jinja2.Template:
    """Compile a template as transformers does."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_GenerationTag, "jinja2.ext.loopcontrols"],
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = DATE.strftime
    return environment.from_string(source)


def _sources() -> dict[str, str]:
    paths = sorted(shared_data("templates").glob("*.jinja"))
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


SOURCES: Final = _sources()


def test_there_are_templates() -> None:
    assert len(SOURCES) == 80
    assert set(REFUSED_BY_PLAIN_JINJA) <= set(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_a_public_template_renders_as_in_jinja(name: str) -> None:
    template, refused = ChatTemplate(SOURCES[name]), set()
    for what, talk in TALKS.items():
        messages = [{"role": role, "content": content} for role, content in talk]
        for adds_prompt in (False, True):
            asked = {"add_generation_prompt": adds_prompt, **SPECIAL}
            try:
                expected = _plain(SOURCES[name]).render(messages=messages, **asked)
            except jinja2.TemplateError:
                refused.add(what)
                with pytest.raises(SslmError):
                    _render(template, talk, adds_prompt=adds_prompt)
            else:
                assert _render(template, talk, adds_prompt=adds_prompt) == expected, what
    assert refused == REFUSED_BY_PLAIN_JINJA.get(name, set())


def _render(template: ChatTemplate, talk: list[tuple[str, str]], *, adds_prompt: bool) -> str:
    messages = [Message(role, content) for role, content in talk]
    options: dict[str, Any] = {"add_generation_prompt": adds_prompt, "date": DATE, **SPECIAL}
    return template.render(messages, **options)


SNIPPETS: Final = (
    "{{ 'a\n\nb\r\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}",
    "{{ 'a\n\nb' | indent('> ', blank=true) }}",
    "{{ '' | indent(3, true) }}|{{ 'a\n' | indent(-2) }}",
    "{{ ['b', 'B', 'a', 1, 1.0, none, nothing, nothing] | unique | list }}",
    "{{ ['b', 'B', 'b'] | unique(true) | list }}",
    "{{ [{'a': 'x'}, {'a': 'X', 'b': 1}, {'b': 2}] | unique(attribute='a') | list }}",
    "{{ [1, 2.5, true] | sum }} {{ [{'a': 2}, {'a': 3}] | sum('a', 10) }} {{ [] | sum }}",
    "{{ [[1], [2, 3]] | sum(start=[]) }} {{ nothing | sum }}",
    "{{ 42.55 | round }} {{ 42.55 | round(1, 'floor') }} {{ 42.55 | round(1, 'ceil') }}",
    "{{ 5 | round }} {{ 1234 | round(-2) }} {{ 2.5 | round | int }} {{ true | round }}",
    "{{ range(7) | batch(3) | list }} {{ 'abcd' | batch(3, '-') | list }}",
    "{{ [] | batch(2) | list }}",
    "{{ [1, 2] | batch(0) | list }} {{ [1, 2] | batch(2, 'x') | list }}",
    "{% filter upper | replace('B', 'c') %}a{{ 'b' }}{% if true %}d{% endif %}{% endfilter %}",
    "{% for i in [1, 2] %}{% filter indent(2, true) %}{% set x = i %}a\n{{ x }}{% endfilter %}"
    "{{ x is defined }}{% endfor %}",
    "{% set x = 1 %}{% generation %}{% set x = 2 %}a{{ x }}{% endgeneration %}{{ x }}",
    "{% for i in 'ab' %}{%- generation -%} {{ i ~ loop.index }} {%- endgeneration %}{% endfor %}",
    "{{ 1 is in [1, 2] }} {{ 'b' is in 'abc' }} {{ 'z' is not in {'a': 1} }}",
    "{{ [1, 5, 2] | select('in', [1, 2]) | list }} {{ ['a'] | reject('in', 'abc') | list }}",
    *(
        f"{{{{ {falsy} | {name} | list }}}}"
        for falsy in ("none", "nothing", "0", "false", "''", "[]", "{}")
        for name in ("map('upper')", "map(attribute='a')", "select", "select('odd')", "reject")
    ),
    "{{ none | selectattr('a') | list }}{{ none | rejectattr('a', 'equalto', 1) | list }}",
    "{{ tools is defined }}{{ documents is defined }}{{ tools is none }}{{ tools or 'no' }}",
)  # fmt: skip


@pytest.mark.parametrize("source", SNIPPETS)
def test_a_part_of_jinja_means_the_same(source: str) -> None:
    asked = {"add_generation_prompt": True, **SPECIAL}
    expected = _plain(source).render(messages=[{"role": "user", "content": "Hi"}], **asked)
    found = _render(ChatTemplate(source), TALKS["a question"], adds_prompt=True)
    assert found == expected
