"""How deep a chat template nests, counted before anything walks it by calling itself.

Jinja's parser and compiler, and Python's, stop where the caller's stack ends. Whether a template is
refused must not depend on that.
"""

from typing import Final

from jinja2 import Environment, nodes

from sslm.errors.text import TemplateFeatureError
from sslm.limits import CHAT_TEMPLATE_SOURCE_NESTING_MAX, CHAT_TEMPLATE_TREE_DEPTH_MAX

_BRACKETS: Final = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_BLOCKS: Final = frozenset(
    {"autoescape", "block", "call", "filter", "for", "generation", "if", "macro", "with"}
)
"""Statements that have a body; the one of ``set`` is counted where nothing is assigned."""

_PREFIXES: Final = frozenset({"not", "-", "+"})
_BLANK: Final = frozenset({"comment", "comment_begin", "comment_end", "whitespace", "linecomment"})


def require_shallow_source(environment: Environment, source: str) -> None:
    """Refuse a template whose parser would call itself too often, from its words alone.

    Raises:
        TemplateFeatureError: If more than ``CHAT_TEMPLATE_SOURCE_NESTING_MAX`` nest.
        jinja2.TemplateSyntaxError: If these are no words of Jinja.
    """
    blocks = 0
    statement = _Statement()
    for line, kind, word in environment.lex(source):
        if kind in _BLANK:
            continue
        if kind in {"block_begin", "variable_begin"}:
            statement = _Statement()
            continue
        if kind == "block_end":
            blocks = max(0, blocks + statement.opened())
        else:
            # A constant says nothing, whatever it holds.
            statement.read(word if kind in {"name", "operator"} else "")
        if blocks + statement.depth > CHAT_TEMPLATE_SOURCE_NESTING_MAX:
            feature = f"more than {CHAT_TEMPLATE_SOURCE_NESTING_MAX} parts inside one another"
            raise TemplateFeatureError(feature, line)


def require_shallow_tree(tree: nodes.Template) -> None:
    """Refuse a template whose compiler would call itself too often.

    Raises:
        TemplateFeatureError: If more than ``CHAT_TEMPLATE_TREE_DEPTH_MAX`` parts nest.
    """
    left: list[tuple[nodes.Node, int]] = [(tree, 1)]
    while left:
        node, depth = left.pop()
        if depth > CHAT_TEMPLATE_TREE_DEPTH_MAX:
            feature = f"a chain of more than {CHAT_TEMPLATE_TREE_DEPTH_MAX} parts"
            raise TemplateFeatureError(feature, node.lineno)
        if isinstance(node, nodes.If):
            # Python reads each branch inside the one before.
            left += [(branch, depth + 1 + at) for at, branch in enumerate(node.elif_)]
            depth += len(node.elif_)
        left += [(child, depth + 1) for child in node.iter_child_nodes(exclude=["elif_"])]


class _Statement:
    """One statement or variable while its words are read."""

    def __init__(self) -> None:
        self._first: str | None = None
        self._brackets = self._prefixes = self._alternatives = 0
        self._has_assignment = False

    @property
    def depth(self) -> int:
        """How often the parser has called itself for what is open."""
        return self._brackets + self._prefixes + self._alternatives

    def read(self, word: str) -> None:
        """Take the next word."""
        is_first, self._first = self._first is None, self._first or word
        self._brackets += _BRACKETS.get(word, 0)
        self._prefixes = self._prefixes + 1 if word in _PREFIXES else 0
        # The part behind "else" is read inside the one before.
        self._alternatives += word == "else" and not is_first
        self._has_assignment |= word == "=" and self._brackets == 0

    def opened(self) -> int:
        """Return by how many blocks the statement went in, or out."""
        if self._first is None:
            return 0
        if self._first.startswith("end"):
            return -1
        return int(self._first in _BLOCKS or (self._first == "set" and not self._has_assignment))
