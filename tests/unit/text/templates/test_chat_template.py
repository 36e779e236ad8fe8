"""What templates render, and what they cannot do."""

import datetime
import pickle

import pytest

from sslm import limits
from sslm.errors import text as errors
from sslm.errors.base import SslmError
from sslm.text.message import Message
from sslm.text.templates.chat_template import ChatTemplate
from sslm.text.templates.date import format_date
from tests.unit.text.chat_templates import CHATML, LLAMA_3, QWEN

HI = [Message("user", "Hi")]
TALK = [Message("system", " Be brief. "), *HI, Message("assistant", "Yes?"), Message("user", "\n?")]


def _render(source: str, messages: list[Message] = HI, date: datetime.date | None = None) -> str:
    return ChatTemplate(source).render(
        messages, add_generation_prompt=True, bos_token="<s>", eos_token="</s>", date=date
    )


def test_the_published_prompt_of_smollm2() -> None:
    assert _render(CHATML) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_chatml_keeps_messages_as_they_are() -> None:
    assert _render(CHATML, TALK) == (
        "<|im_start|>system\n Be brief. <|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\n\n?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_llama_3() -> None:
    def expected(date: str) -> str:
        head, end = "<|start_header_id|>{}<|end_header_id|>\n\n", "<|eot_id|>"
        return (
            f"<s>{head.format('system')}Today Date: {date}\n\nBe brief.{end}"
            f"{head.format('user')}Hi{end}{head.format('assistant')}Yes?{end}"
            f"{head.format('user')}?{end}{head.format('assistant')}"
        )

    assert _render(LLAMA_3, TALK) == expected("26 Jul 2024")
    assert _render(LLAMA_3, TALK, datetime.date(2031, 3, 5)) == expected("05 Mar 2031")


def test_qwen() -> None:
    talk = [*HI, Message("assistant", "<think>Hm.</think>\n\nYes?"), Message("tool", "4")]
    assert _render(QWEN, talk) == (
        "<|im_start|>system\nYou are Qwen.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\n<tool_response>\n4\n"
        "</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_without_generation_prompt() -> None:
    assert ChatTemplate(CHATML).render(HI, add_generation_prompt=False).endswith("Hi<|im_end|>\n")


def test_blocks_are_trimmed_as_hugging_face_does() -> None:
    assert _render("  {% if true %}\n  a\n  {% endif %}\nb\n") == "  a\nb"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ 'a' ~ 1 ~ none ~ nothing }}", "a1None"),
        ("{{ {'a': [1, 'é<']} | tojson }}", '{"a": [1, "é<"]}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ ['a', 'b'] | join('-') ~ ','.join(['c', 'd']) }}", "a-bc,d"),
        ("{{ messages | map(attribute='content') | list }}", "['Hi']"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1"),
        ("{{ 'aXa' | replace('a', 'bb') }}{{ 'aXa'.replace('a', '', 1) }}", "bbXbbXa"),
        ("{% for k, v in {'x': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "x1"),
        ("{% for i in range(9) if i is odd %}{% if i > 5 %}{% break %}{% endif %}{{ i }}"
         "{% endfor %}", "135"),
        ("{% macro m(x='d') %}[{{ x }}]{% endmacro %}{{ m() }}{{ m(x=2) }}", "[d][2]"),
        ("{% set x | upper %}ab{% endset %}{{ x }}{{ 'a b'.split(' ')[-1] }}", "ABb"),
        ("{{ 7 - 3 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ 1 / 2 }} {{ -2 ** 59 }} {{ 1.5 * 2 }}",
         "4 3.5 3 0.5 -576460752303423488 3.0"),
        ("{{ 4 is even }}{{ 3 is odd }}{{ 6 is divisibleby(4) }}{{ 'f' | int(0, 16) }}",
         "TrueTrueFalse15"),
        ("{{ ' a ' | trim }}{{ 'xax' | trim('x') }}{{ 'xax'.rstrip('x') }}", "aaxa"),
        ("{{ dict(self=1, a=2) | tojson }}{% set n = namespace(x=3) %}{{ n.x }}",
         '{"self": 1, "a": 2}3'),
        ("{% for i in 'ab' %}{{ loop.index }}{{ loop.cycle('x', 'y') }}{{ loop.last }}{% endfor %}",
         "1xFalse2yTrue"),
        ("{{ {'a': 1, 'b': 2}.values() | max }}{{ 'a' in {'a': 1}.keys() }}", "2True"),
        ("{{ 7 % 3 }}{{ 2 ** 10 }}{{ 'ab' * 2 }}{{ [1] + [2] }}{{ 'abc'[::-1] }}",
         "11024abab[1, 2]cba"),
        ("{{ tools is defined }}{{ messages[0].nothing is defined }}", "FalseFalse"),
    ],
)  # fmt: skip
def test_what_templates_use(source: str, expected: str) -> None:
    assert _render(source) == expected


DOUBLED = (
    "{% set ns = namespace(s=START) %}{% for i in range(60) %}{% set ns.s = STEP %}{% endfor %}"
)


def _repeated(start: str, step: str) -> str:
    return DOUBLED.replace("START", start).replace("STEP", step)


TOO_MUCH_WORK = {
    "captured blocks": "{% set x = 'aaaa' %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 40,
    "joined texts": _repeated("'a'", "ns.s ~ ns.s"),
    "added texts": _repeated("'a'", "ns.s + ns.s"),
    "added lists": _repeated("[1]", "ns.s + ns.s"),
    "nested lists": _repeated("[1]", "[ns.s, ns.s]") + "{{ ns.s }}",
    "replaced by method": _repeated("'aa'", "ns.s.replace('a', 'aaaa')"),
    "replaced by filter": _repeated("'aa'", "ns.s | replace('a', 'aaaa')"),
    "joined by method": _repeated("'aa'", "ns.s.join([ns.s, ns.s, ns.s])"),
    "joined by filter": _repeated("'aa'", "[ns.s, ns.s] | join(ns.s)"),
    "hashed tuples": _repeated("(1,)", "(ns.s, ns.s)") + "{{ {ns.s: 1} }}",
    "a huge range": "{% for i in range(10 ** 12) %}{% endfor %}",
    "nested loops": "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
    "nested macros": "{% macro a0() %}{% endmacro %}"
    + "".join(
        f"{{% macro a{i}() %}}{{{{ a{i - 1}() }}}}{{{{ a{i - 1}() }}}}{{% endmacro %}}"
        for i in range(1, 40)
    )
    + "{{ a39() }}",
    "map of map of map": "{{ 'a' | map(" + "'map', " * 99 + "'upper') | list }}",
    "endless recursion": "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
    "a power": "{{ 9 ** 9 ** 9 }}",
    "products": _repeated("9", "ns.s * ns.s"),
    "repeated text": "{{ 'a' * 10 ** 10 }}",
    "repeated list": "{{ 10 ** 10 * [1] }}",
    "filters in a loop": "{% set x = 'a' * 10 ** 6 %}"
    "{% for i in range(99999) %}{% set y = x | upper %}{% endfor %}",
    "comparisons in a loop": "{% set x = 'a' * 10 ** 6 %}"
    "{% for i in range(99999) %}{% set y = 'b' in x %}{% endfor %}",
    "slices in a loop": "{% set x = 'a' * 10 ** 6 %}"
    "{% for i in range(99999) %}{% set y = x[::-1] %}{% endfor %}",
    "remainders of long numbers": "{% set a = ('1' * 200000) | int(0, 2) %}{{ a % 7 }}",
    "sums of long numbers": _repeated("1", "ns.s + ns.s + 1"),
    "differences of long numbers": _repeated("1", "ns.s - 9 * ns.s"),
    "a long number in a list": "{{ ['f' * 40] | map('int', 0, 16) | list }}",
    "a long number from a fraction": "{{ 1e300 | int }}",
    "a long quotient": "{% for i in range(9) %}{% set x = (2 ** 59) * (2 ** 59) // 3 %}"
    "{% endfor %}",
    "trimming of many characters": "{{ ('a' * 10 ** 6) | trim('b' * 10 ** 6 ~ 'a') }}",
    "stripping of many characters": "{{ ('a' * 10 ** 6).lstrip('b' * 10 ** 6 ~ 'a') }}",
    "searching from the end": "{{ ('a' * 10 ** 6).rfind('ab' ~ 'a' * 10 ** 5) }}",
    "joined by method from a filter": "{% set x = 'a' * 10 ** 6 %}"
    "{% set y = x.join((['b'] * 999) | map('upper')) %}",
    "long separators": "{{ ([1] * 10 ** 4) | tojson(separators=('a' * 10 ** 6, 'b')) }}",
    "a range used again": "{% set r = range(10 ** 5) %}"
    "{% for i in range(9999) %}{% set x = r | max %}{% endfor %}",
    "a view used again": "{% set v = {'a': [1] * 10 ** 5}.values() %}"
    "{% for i in range(9999) %}{% set x = [2] in v %}{% endfor %}",
    "a long path": "{{ (['x'] * 10 ** 4) | map(attribute='0" + ".0" * 9999 + "') | list }}",
    "a wide indention": "{{ 'a' | indent(10 ** 12, true) }}",
    "an indention of many lines": "{{ ('\n' * 10 ** 5) | indent(10 ** 5, blank=true) }}",
    "a long indention": "{{ ('a\n' * 10 ** 4) | indent('b' * 10 ** 4) }}",
    "a wide character to indent": "{{ ('a' * 10 ** 7) | indent('\u00e9', true) }}",
    "indentions in a loop": "{% set x = '\n' * 10 ** 5 %}"
    "{% for i in range(999) %}{% set y = x | indent(0) %}{% endfor %}",
    "a mapped indention": "{{ (['a\n'] * 999) | map('indent', 10 ** 6) | list }}",
    "a wide batch": "{{ [1] | batch(10 ** 12, 0) | list }}",
    "batches in a loop": "{% set x = [1] * 10 ** 5 %}"
    "{% for i in range(9999) %}{% set y = x | batch(1) %}{% endfor %}",
    "a sum of lists": "{{ ([[1] * 99] * 10 ** 4) | sum(start=[]) | length }}",
    "a sum of large numbers": "{{ ([2 ** 59] * 9) | sum }}",
    "sums in a loop": "{% set x = [1] * 10 ** 5 %}"
    "{% for i in range(9999) %}{% set y = x | sum %}{% endfor %}",
    "a large number rounded": "{{ (2 ** 59) * 1.0 | round(22, 'ceil') }}"
    "{{ (2 ** 59) | round(-20) }}{{ 1e300 | round(0, 'ceil') | int }}",
    "unique items in a loop": "{% set x = ['a' * 10 ** 5] * 99 %}"
    "{% for i in range(99) %}{% set y = x | unique %}{% endfor %}",
    "a filter block in a loop": "{% set x = 'a' * 10 ** 6 %}"
    "{% for i in range(99) %}{% filter replace('a', 'bb') %}{{ x }}{% endfilter %}{% endfor %}",
    "nested filter blocks": "{% filter replace('a', 'aaaaaaaa') %}" * 9
    + "a" * 99
    + "{% endfilter %}" * 9,
    "membership tests in a loop": "{% set x = 'a' * 10 ** 6 %}"
    "{% for i in range(99999) %}{% set y = 'b' is in(x) %}{% endfor %}",
    "membership of each": "{{ range(9999) | select('in', range(9999) | list) | list }}",
    "splits in a loop": "{% set x = 'a' * 10 ** 6 %}"
    "{% for i in range(99999) %}{% set y = x.split('a') %}{% endfor %}",
}


@pytest.mark.parametrize("what", TOO_MUCH_WORK)
def test_too_much_work(what: str) -> None:
    with pytest.raises(errors.TemplateWorkError):
        _render(TOO_MUCH_WORK[what])


FAILURES = {
    "percent formatting": "{{ '%999999999d' % 1 }}",
    "format": "{{ '{:999999999}'.format(1) }}",
    "a wide method": "{{ 'a'.center(999999999) }}",
    "the clock": "{{ strftime_now('%Y') }}",
    "random words": "{{ lipsum() }}",
    "the address of a function": "{{ range }}",
    "the address of an iterator": "{{ [1] | map('upper') }}",
    "an address in a list": "{{ [range] | string }}",
    "the class of dictionaries": "{{ dict.fromkeys(range(300)) }}",
    "an attribute of a function": "{{ range.__self__.globals }}",
    "an attribute of a method": "{{ 'a'.upper.__self__.upper() }}",
    "an attribute of a macro": "{% macro a() %}{% endmacro %}{{ a.name.upper() }}",
    "the difference of views": "{{ ({'a': 1}.keys() - {'b': 1}.keys()) | list }}",
    "formatting by divisibleby": "{{ '%999999999d' is divisibleby(1) }}",
    "formatting by odd": "{{ '%999999999d' is odd }}",
    "formatting by even": "{{ '%999999999d' is even }}",
    "internals": "{{ ''.__class__.__mro__ }}",
    "a change of the messages": "{{ messages.append(1) }}",
    "division by zero": "{{ 1 // 0 }}",
    "an attribute of nothing": "{{ nothing.a }}",
    "mixed types": "{{ 1 + 'a' }}",
    "places of a whole number": "{{ 1 | round(-10 ** 9) }}",
    "places of a fraction": "{{ 1.5 | round(10 ** 9, 'ceil') }}",
    "places that are no number": "{{ 1.5 | round('%9d') }}",
    "an infinite number rounded": "{{ 1e999 | round(0, 'floor') }}",
    "a rounded text": "{{ '%999999999d' | round }}",
    "a sum of texts": "{{ ['a', 'b'] | sum(start='') }}",
    "a sum of a text": "{{ ['a'] | sum }}",
    "unique tuples": "{{ [(-1, -2), (-2, -1)] | unique | list }}",
    "an indented number": "{{ 1 | indent }}",
    "an indention by a fraction": "{{ 'a\nb' | indent(1.5) }}",
    "the address of a filter block": "{% filter map('upper') %}a{% endfilter %}",
}


@pytest.mark.parametrize("what", FAILURES)
def test_failures(what: str) -> None:
    with pytest.raises(errors.TemplateFailedError) as caught:
        _render(FAILURES[what])
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("", errors.TemplateSizeError),
        (" " * (limits.CHAT_TEMPLATE_SIZE_CHARS_MAX + 1), errors.TemplateSizeError),
        ("{% if %}", errors.TemplateSyntaxError),
        ("{{ [1, 2] | random }}", errors.TemplateSyntaxError),
        ("{{ 'a' | center(999999999) }}", errors.TemplateSyntaxError),
        ("{{" + "(" * 9999, errors.TemplateFeatureError),
        ("{{ 1" + "+1" * 9999 + "}}", errors.TemplateFeatureError),
        ("{{ " + "9" * 9999 + " }}", errors.TemplateSyntaxError),
        ("{{ 0x" + "f" * 20 + " }}", errors.TemplateFeatureError),
        ("{% for a in b %}" * 50 + "{% endfor %}" * 50, errors.TemplateFeatureError),
        ("{% include 'a' %}", errors.TemplateFeatureError),
        ("{% import 'a' as b %}", errors.TemplateFeatureError),
        ("{% from 'a' import b %}", errors.TemplateFeatureError),
        ("{% extends 'a' %}", errors.TemplateFeatureError),
        ("{% block a %}{% endblock %}", errors.TemplateFeatureError),
        ("{% autoescape true %}{% endautoescape %}", errors.TemplateFeatureError),
        ("{% for a in [1] recursive %}{% endfor %}", errors.TemplateFeatureError),
        ("\ud800", errors.TextUnicodeError),
    ],
)
def test_sources_that_are_refused(source: str, error: type[SslmError]) -> None:
    with pytest.raises(error):
        ChatTemplate(source)


def test_the_date_leads_to_no_clock() -> None:
    date = datetime.date(2024, 2, 5)
    for source in (
        "{{ strftime_now.args[0].today().year }}",
        "{{ strftime_now.__self__.globals }}",
    ):
        with pytest.raises(errors.TemplateFailedError):
            _render(source, date=date)
    assert _render("{{ strftime_now('%Y') }}", date=date) == "2024"


def test_a_template_may_refuse() -> None:
    with pytest.raises(errors.ChatRefusedError, match="conversation: no tools here"):
        _render(LLAMA_3, [Message("user", "a"), Message("tool", "b")])


def test_renderings_share_nothing() -> None:
    """Each has the whole allowance."""
    template = ChatTemplate("{{ ('a' * 10 ** 6)[:9] }}")
    for _ in range(40):
        template.render(HI, add_generation_prompt=True)


def test_the_number_of_messages() -> None:
    template = ChatTemplate(CHATML)
    for count in (0, limits.CHAT_MESSAGE_COUNT_MAX + 1):
        with pytest.raises(errors.MessageCountError):
            template.render(HI * count, add_generation_prompt=True)


def test_messages_are_checked() -> None:
    assert Message.from_mapping({"role": "user", "content": "a"}) == Message("user", "a")
    with pytest.raises(errors.MessageRoleError, match="found 'boss'"):
        Message("boss", "a")
    with pytest.raises(errors.TextUnicodeError):
        Message("user", "\ud800")
    with pytest.raises(errors.TextTooLongError):
        Message("user", "a" * (limits.TEXT_SIZE_CHARS_MAX + 1))
    for fields in (None, {}, {"role": "user"}, {"role": "user", "content": None}):
        with pytest.raises(errors.MessageFieldError):
            Message.from_mapping(fields)
    with pytest.raises(errors.MessageFieldError, match="'name'"):
        Message.from_mapping({"role": "user", "content": "a", "name": "b"})


def test_dates_are_english() -> None:
    date = datetime.date(2024, 2, 5)
    assert format_date(date, "%A, %-d %B %Y (%j) 100%%d") == "Monday, 5 February 2024 (036) 100%d"
    assert format_date(date, "%a %d %b %y %F %H:%M:%S %I %p%e%m%-m") == (
        "Mon 05 Feb 24 2024-02-05 00:00:00 12 AM 5022"
    )
    assert format_date(date, "none") == "none"
    for layout in ("%Q", "%", "a%-"):
        with pytest.raises(errors.TemplateFailedError):
            format_date(date, layout)


def test_a_lack_of_memory_is_no_fault_of_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*facts: object) -> str:
        raise MemoryError

    template = ChatTemplate("{{ messages[0].content }}")
    monkeypatch.setattr("sslm.text.templates.sandbox.run_template", refuse)
    monkeypatch.setattr("sslm.text.templates.chat_template.run_template", refuse, raising=False)
    with pytest.raises(MemoryError):
        template.render([Message("user", "Hi")], add_generation_prompt=True)
    monkeypatch.setattr("sslm.text.templates.rewriting.compile_template", refuse)
    with pytest.raises(MemoryError):
        ChatTemplate("{{ messages[0].content }}")
