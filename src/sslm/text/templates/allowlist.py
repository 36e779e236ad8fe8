"""What a chat template may use of Jinja and of Python's types.

None of it reads a clock or a random number, and what can make a long result from short values is
either missing or charged for by the sandbox.
"""

from typing import Final

from jinja2 import nodes
from jinja2.runtime import LoopContext


def _names(listing: str) -> frozenset[str]:
    return frozenset(listing.split())


FILTERS_ALLOWED: Final = _names(
    "abs capitalize count d default dictsort first float items last length lower max min "
    "reverse sort upper"
)
"""Filters that are Jinja's own; the sandbox adds its versions of others."""

TESTS_ALLOWED: Final = _names(
    "boolean callable defined eq equalto false float ge greaterthan gt integer "
    "iterable le lessthan lower lt mapping ne none number sameas sequence string true "
    "undefined upper == != < <= > >="
)
"""Tests that are Jinja's own; the sandbox adds its versions of others."""

METHODS_ALLOWED: Final[dict[type, frozenset[str]]] = {
    str: _names(
        "capitalize count endswith find index isalnum isalpha isascii isdecimal isdigit islower "
        "isnumeric isspace istitle isupper join lower lstrip partition removeprefix removesuffix "
        "replace rfind rindex rpartition rsplit rstrip split splitlines startswith strip title "
        "upper"
    ),
    list: _names("count index"),
    tuple: _names("count index"),
    dict: _names("get items keys values"),
    LoopContext: _names(
        "changed cycle depth depth0 first index index0 last length nextitem previtem revindex "
        "revindex0"
    ),
}
"""Attributes by type; other types have none, so that none leads from a value to its origin."""

NODES_REFUSED: Final[dict[type[nodes.Node], str]] = {
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "import",
    nodes.Extends: "extends",
    nodes.Block: "block",
    nodes.EvalContextModifier: "autoescape",
    nodes.ScopedEvalContextModifier: "autoescape",
}
"""Parts of Jinja's language, with what to call them."""
