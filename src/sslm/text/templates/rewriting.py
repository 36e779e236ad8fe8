"""Compiling a chat template into code that charges for what it does."""

from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from sslm import limits
from sslm.errors.text import TemplateFeatureError
from sslm.text.templates.allowlist import NODES_REFUSED
from sslm.text.templates.nesting import require_shallow_source, require_shallow_tree
from sslm.text.templates.numbers import INTEGER_BITS_MAX, bits
from sslm.text.templates.sandbox import BoundedSandbox

_PARTS_PER_OPERATION: Final = 16
"""Parts of a template, such as names and constants, that run in the time of one operation."""

_MEMBERSHIP: Final = frozenset({"in", "notin"})


def compile_template(source: str) -> tuple[CodeType, frozenset[str]]:
    """Return the code of a template, rewritten to charge for its work, and its text literals.

    Raises:
        TemplateFeatureError: If it uses a part of Jinja that is refused here, or too much of it.
        jinja2.TemplateError, SyntaxError, ValueError: If it is not valid.
        RecursionError: If the caller has left too little of Python's stack, whatever it is.
    """
    environment = BoundedSandbox()
    require_shallow_source(environment, source)
    tree = environment.parse(source)
    require_shallow_tree(tree)
    literals = set()
    for count, node in enumerate(tree.find_all(nodes.Node)):
        if count >= limits.CHAT_TEMPLATE_NODE_COUNT_MAX:
            feature = f"more than {limits.CHAT_TEMPLATE_NODE_COUNT_MAX} parts"
            raise TemplateFeatureError(feature, node.lineno)
        if type(node) in NODES_REFUSED:
            raise TemplateFeatureError(NODES_REFUSED[type(node)], node.lineno)
        if isinstance(node, nodes.Const):
            if bits(node.value) > INTEGER_BITS_MAX:
                feature = f"a number of more than {INTEGER_BITS_MAX} bits"
                raise TemplateFeatureError(feature, node.lineno)
            if isinstance(node.value, str):
                literals.add(node.value)
    rewritten = _Charging().visit(tree)
    rewritten.set_environment(environment)
    code = environment.compile(rewritten)
    assert isinstance(code, CodeType)
    return code, frozenset(literals)


class _Charging(NodeTransformer):
    """Rewrites a template so that it charges for values before it uses them."""

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        super().generic_visit(node, *args, **kwargs)
        rewrite = _REWRITES.get(type(node))
        return node if rewrite is None else rewrite(node)


def _wrapped(function: str, *arguments: nodes.Expr) -> nodes.Call:
    attribute = nodes.EnvironmentAttribute(function, lineno=arguments[0].lineno)
    return nodes.Call(attribute, list(arguments), [], None, None, lineno=arguments[0].lineno)


def _rewrite_output(node: Any) -> nodes.Node:
    node.nodes = [_wrapped("emit", child) for child in node.nodes]
    return node  # type: ignore[no-any-return]


def _rewrite_for(node: Any) -> nodes.Node:
    if node.recursive:
        raise TemplateFeatureError("a recursive loop", node.lineno)
    node.iter = _wrapped("counted", node.iter, _cost_of_running(node))
    return node  # type: ignore[no-any-return]


def _rewrite_body(node: Any) -> nodes.Node:
    spend = nodes.ExprStmt(_wrapped("spend", _cost_of_running(node)), lineno=node.lineno)
    node.body.insert(0, spend)
    return node  # type: ignore[no-any-return]


def _cost_of_running(node: nodes.Node) -> nodes.Const:
    """Return the operations of the parts of *node* that charge for nothing themselves."""
    part_count = sum(1 for _ in node.find_all(nodes.Node))
    return nodes.Const(1 + part_count // _PARTS_PER_OPERATION, lineno=node.lineno)


def _rewrite_node(node: Any) -> nodes.Node:
    # The innermost filter of a block has no node: the block's text was charged as it was put out.
    if node.node is not None:
        node.node = _wrapped("charged", node.node)
    return node  # type: ignore[no-any-return]


def _rewrite_filter_block(node: Any) -> nodes.Node:
    # The filter that gives a value as text charges for it.
    node.filter = nodes.Filter(node.filter, "string", [], [], None, None, lineno=node.lineno)
    return node  # type: ignore[no-any-return]


def _rewrite_compare(node: Any) -> nodes.Node:
    operators = [operand.op for operand in node.ops]
    if _MEMBERSHIP.isdisjoint(operators):
        for part in (node, *node.ops):
            part.expr = _wrapped("charged", part.expr)
        return node  # type: ignore[no-any-return]
    if len(operators) > 1:
        raise TemplateFeatureError("a chain of comparisons with 'in'", node.lineno)
    found = _wrapped("contained", node.expr, node.ops[0].expr)
    return found if operators == ["in"] else nodes.Not(found, lineno=node.lineno)


def _rewrite_key(node: Any) -> nodes.Node:
    node.key = _wrapped("key", node.key)
    return node  # type: ignore[no-any-return]


def _rewrite_item(node: Any) -> nodes.Node:
    if isinstance(node.arg, nodes.Slice):
        node.node = _wrapped("charged", node.node)
    elif not isinstance(node.arg, nodes.Const):
        node.arg = _wrapped("charged", node.arg)
    return node  # type: ignore[no-any-return]


_REWRITES: Final[dict[type[nodes.Node], Callable[[Any], nodes.Node]]] = {
    nodes.Output: _rewrite_output,
    nodes.For: _rewrite_for,
    nodes.Macro: _rewrite_body,
    nodes.CallBlock: _rewrite_body,
    nodes.Filter: _rewrite_node,
    nodes.FilterBlock: _rewrite_filter_block,
    nodes.Test: _rewrite_node,
    nodes.Compare: _rewrite_compare,
    nodes.Pair: _rewrite_key,
    nodes.Getitem: _rewrite_item,
    nodes.Concat: lambda node: _wrapped("concatenate", *node.nodes),
}
