"""How deep a template may nest is counted, so that the caller's stack decides nothing."""

import sys
from collections.abc import Callable

import pytest

from sslm import limits
from sslm.errors.base import SslmError
from sslm.errors.text import TemplateFeatureError
from sslm.text.templates.chat_template import ChatTemplate
from tests.calling import called_from

_MOST = limits.CHAT_TEMPLATE_SOURCE_NESTING_MAX
_LONGEST = limits.CHAT_TEMPLATE_TREE_DEPTH_MAX

NESTED: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: "{{ " + "(" * n + "1" + ")" * n + " }}",
    "lists": lambda n: "{{ " + "[" * n + "1" + "]" * n + " }}",
    "dicts": lambda n: "{{ " + "{1:" * n + "1" + "}" * n + " }}",
    "calls": lambda n: "{{ " + "dict(a=" * n + "1" + ")" * n + " }}",
    "subscripts": lambda n: "{{ " + "messages[" * n + "0" + "]" * n + " }}",
    "negations": lambda n: "{{ " + "not " * n + "1 }}",
    "signs": lambda n: "{{ " + "-" * n + "1 }}",
    "alternatives": lambda n: "{{ " + "1 if 0 else " * n + "1 }}",
    "conditions": lambda n: "{% if 1 %}" * n + "{% endif %}" * n,
    "scopes": lambda n: "{% generation %}" * n + "{% endgeneration %}" * n,
    "filter blocks": lambda n: "{% filter upper %}" * n + "a" + "{% endfilter %}" * n,
    "set blocks": lambda n: "{% set a %}" * n + "a" + "{% endset %}" * n,
    "parentheses in blocks": lambda n: (
        "{% if 1 %}" * (n // 2)
        + "{{ "
        + "(" * (n - n // 2)
        + "1"
        + ")" * (n - n // 2)
        + " }}"
        + "{% endif %}" * (n // 2)
    ),
}
"""Sources that nest so deep, each in another way that the parser calls itself for."""

CHAINS: dict[str, Callable[[int], str]] = {
    "sums": lambda n: "{{ 1" + " + 1" * n + " }}",
    "powers": lambda n: "{{ 1" + " ** 1" * n + " }}",
    "filters": lambda n: "{{ 'a'" + " | upper" * n + " }}",
    "attributes": lambda n: "{{ messages" + ".a" * n + " }}",
    "branches": lambda n: "{% if 0 %}" + "{% elif 0 %}" * n + "{% endif %}",
    "and": lambda n: "{{ 1" + " and 1" * n + " }}",
}
"""Sources that a parser reads in a loop, into parts inside one another."""


@pytest.mark.parametrize("callers", [0, 300])
@pytest.mark.parametrize("kind", NESTED)
def test_what_nests_too_deep_is_refused_from_everywhere(kind: str, callers: int) -> None:
    called_from(callers, lambda: ChatTemplate(NESTED[kind](_MOST)))
    with pytest.raises(TemplateFeatureError, match=f"more than {_MOST} parts"):
        called_from(callers, lambda: ChatTemplate(NESTED[kind](_MOST + 1)))


@pytest.mark.parametrize("callers", [0, 300])
@pytest.mark.parametrize("kind", CHAINS)
def test_what_is_chained_too_long_is_refused_from_everywhere(kind: str, callers: int) -> None:
    called_from(callers, lambda: ChatTemplate(CHAINS[kind](_LONGEST - 4)))
    with pytest.raises(TemplateFeatureError, match=f"a chain of more than {_LONGEST} parts"):
        called_from(callers, lambda: ChatTemplate(CHAINS[kind](2 * _LONGEST)))


@pytest.mark.parametrize("kind", NESTED)
def test_a_caller_without_any_stack_left_is_told_so(kind: str) -> None:
    """It is no verdict on the template, which may be fine."""
    room = sys.getrecursionlimit()
    for callers in range(0, room, 50):
        try:
            called_from(callers, lambda: ChatTemplate(NESTED[kind](_MOST)))
        except RecursionError:
            return
        except SslmError as error:
            pytest.fail(f"{callers} calls deep: {error!r}")
    pytest.fail("the stack never ended")
