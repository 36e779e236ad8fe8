"""Jinja with a bound on everything that a template can make it do.

Jinja's sandbox keeps a template from Python's internals, not from the machine's time and memory.
Here, compiling rewrites the template so that whatever touches a value first charges its size
against one allowance, and only listed filters, tests and methods exist, none of which can turn
little into much without being charged. Nothing reads a clock or a random number.
"""

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sized
from functools import partial
from types import CodeType
from typing import Any, Final, TypeVar

from jinja2 import Template, Undefined, nodes
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from sslm import limits
from sslm.errors.text import (
    ChatRefusedError,
    TemplateFailedError,
    TemplateFeatureError,
    TemplateWorkError,
)
from sslm.text.template_allowlist import (
    FILTERS_ALLOWED,
    METHODS_ALLOWED,
    NODES_REFUSED,
    TESTS_ALLOWED,
)
from sslm.text.template_date import format_date

_T = TypeVar("_T")

_OPERATION_WORK: Final = 16
"""Charge of one operation, in characters: what touching so many costs at most."""

_CALL_WORK: Final = 16 * _OPERATION_WORK
"""Charge of a call, as a macro's takes about 10 microseconds and other operations below 1."""

_INTEGER_BITS_MAX: Final = 128
_REASON_SIZE_CHARS_MAX: Final = 500
_JSON_INDENT_MAX: Final = 8

_SPLITTING: Final = frozenset({"rsplit", "split", "splitlines"})
_PRINTABLE: Final = (str, int, float, type(None), Undefined)


class BoundedSandbox(ImmutableSandboxedEnvironment):
    """The environment of one rendering, which owns that rendering's allowance.

    Args:
        date: What ``strftime_now`` gives; without one, templates find that name undefined.

    Raises (while a template runs):
        TemplateWorkError: If the allowance is used up.
        TemplateFailedError: If it does something that is not allowed here.
        ChatRefusedError: If it calls ``raise_exception``.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, date: datetime.date | None = None) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
            cache_size=0,
            extensions=["jinja2.ext.loopcontrols"],
        )
        self._work_left = limits.CHAT_TEMPLATE_WORK_MAX
        self.filters = {name: FILTERS[name] for name in FILTERS_ALLOWED} | {
            "join": self._join,
            "list": self._list,
            "replace": self._replace,
            "safe": self.emit,
            "string": self.emit,
            "tojson": self._to_json,
        }
        self.tests = {name: TESTS[name] for name in TESTS_ALLOWED}
        self.globals = {
            "dict": dict,
            "namespace": Namespace,
            "raise_exception": _raise_exception,
            "range": self._range,
        }
        if date is not None:
            self.globals["strftime_now"] = partial(format_date, date)

    # What the rewritten template calls.

    def charged(self, value: _T) -> _T:
        """Charge the size of *value*, with all that is in it, and return it."""
        self._charge_size(value)
        return value

    def counted(self, values: Iterable[Any]) -> Any:
        """Charge one operation for each of *values*, and return them."""
        if not isinstance(values, Sized):
            return self._list(values)
        self._charge(_OPERATION_WORK * (1 + len(values)))
        return values

    def emit(self, value: object) -> str:
        """Return *value* as text, if its text says nothing about this process."""
        self._charge_size(value)
        self._require_printable(value)
        return str(value)

    def concatenate(self, *values: object) -> str:
        """Return the texts of *values*, joined."""
        return "".join(map(self.emit, values))

    # What Jinja calls.

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute a binary operation whose result can be larger than its operands."""
        self._charge(_OPERATION_WORK)
        if operator == "%" and isinstance(left, str):
            raise TemplateFailedError("formatting with % is not allowed")
        if operator == "**":
            self._require_small(_bits(left) * abs(right) if isinstance(right, int) else 0)
        elif operator == "*":
            self._charge_product(left, right)
        elif operator == "+":
            self._charge(_flat_size(left) + _flat_size(right))
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call something that the template names, after charging for it.

        The parameters are named as in Jinja, so that no keyword of a template can collide.
        """
        owner = getattr(__obj, "__self__", None)
        if owner is not __self:
            __self._charge(_CALL_WORK)
            __self._charge_size(args)
            __self._charge_size(kwargs)
            if type(owner) in METHODS_ALLOWED:
                __self._charge_method(owner, getattr(__obj, "__name__", ""), args)
        return super().call(__context, __obj, *args, **kwargs)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Allow only the listed methods of Python's own types."""
        allowed = METHODS_ALLOWED.get(type(obj))
        if allowed is not None:
            return attr in allowed
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Leave ``str.format`` to :meth:`is_safe_attribute`, which refuses it: widths are free."""
        return

    # Filters and globals.

    def _join(self, values: Iterable[Any], d: str = "", attribute: Any = None) -> str:
        if attribute is not None:
            raise TemplateFailedError("join with an attribute is not allowed; use map first")
        texts = [self.emit(value) for value in self.counted(values)]
        self._charge(len(texts) * len(self.emit(d)))
        return str(d).join(texts)

    def _list(self, values: Iterable[Any]) -> list[Any]:
        found = []
        for value in values:
            self._charge(_OPERATION_WORK)
            found.append(value)
        return found

    def _replace(self, text: Any, old: str, new: str, count: int = -1) -> str:
        string, old, new = self.emit(text), self.emit(old), self.emit(new)
        self._charge_replacement(string, old, new)
        return string.replace(old, new, count)

    def _to_json(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        self._charge_size(value)
        self._charge_size(separators)
        if indent is not None and not (isinstance(indent, int) and 0 <= indent <= _JSON_INDENT_MAX):
            raise TemplateFailedError(f"tojson indents by at most {_JSON_INDENT_MAX}")
        text = json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )
        return self.charged(text)

    def _range(self, *bounds: int) -> range:
        found = range(*bounds)
        self._charge(_OPERATION_WORK * (1 + len(found)))
        return found

    # The allowance.

    def _charge(self, work: int) -> None:
        self._work_left -= work
        if self._work_left < 0:
            most = limits.CHAT_TEMPLATE_WORK_MAX
            raise TemplateWorkError("too much work", most)

    def _charge_size(self, value: object, depth: int = 0) -> None:
        self._charge(_OPERATION_WORK)
        if isinstance(value, str):
            self._charge(len(value))
        elif isinstance(value, Mapping | list | tuple):
            if depth >= limits.CHAT_TEMPLATE_NESTING_MAX:
                most = limits.CHAT_TEMPLATE_NESTING_MAX
                raise TemplateWorkError("containers nested too deeply", most)
            if isinstance(value, Mapping):
                for key, item in value.items():
                    self._charge_size(key, depth + 1)
                    self._charge_size(item, depth + 1)
            else:
                for item in value:
                    self._charge_size(item, depth + 1)

    def _charge_product(self, left: Any, right: Any) -> None:
        for sequence, factor in ((left, right), (right, left)):
            if isinstance(sequence, str | list | tuple) and isinstance(factor, int):
                self._charge(_flat_size(sequence) * max(factor, 0))
        self._require_small(_bits(left) + _bits(right))

    def _charge_method(self, owner: Any, name: str, args: tuple[Any, ...]) -> None:
        self._charge_size(owner)
        if name == "replace" and len(args) >= 2:
            self._charge_replacement(owner, args[0], args[1])
        elif name == "join" and args:
            self._charge(len(owner) * len(args[0]) if hasattr(args[0], "__len__") else 0)
        elif name in _SPLITTING:
            separator = args[0] if args and isinstance(args[0], str) else ""
            parts = owner.count(separator) if separator else len(owner)
            self._charge(_OPERATION_WORK * parts)

    def _charge_replacement(self, text: str, old: str, new: str) -> None:
        self._charge(text.count(old) * len(new))

    def _require_small(self, bits: int) -> None:
        if bits > _INTEGER_BITS_MAX:
            raise TemplateWorkError("a number of too many bits", _INTEGER_BITS_MAX)

    def _require_printable(self, value: object) -> None:
        # The text of a function or an iterator would hold its address. Size and nesting of
        # containers have been checked by charging for them.
        if isinstance(value, Mapping):
            for key, item in value.items():
                self._require_printable(key)
                self._require_printable(item)
        elif isinstance(value, list | tuple):
            for item in value:
                self._require_printable(item)
        elif not isinstance(value, _PRINTABLE):
            raise TemplateFailedError(f"a {type(value).__name__} has no text of its own")


def compile_template(source: str) -> tuple[CodeType, frozenset[str]]:
    """Return the code of a template, rewritten to charge for its work, and its text literals.

    Raises:
        TemplateFeatureError: If it uses a part of Jinja that is refused here.
        jinja2.TemplateError, SyntaxError, RecursionError, ValueError: If it is not valid.
    """
    environment = BoundedSandbox()
    tree = environment.parse(source)
    literals = frozenset(
        one.value for one in tree.find_all(nodes.Const) if isinstance(one.value, str)
    )
    for kind, feature in NODES_REFUSED.items():
        for found in tree.find_all(kind):
            raise TemplateFeatureError(feature, found.lineno)
    rewritten = _Charging().visit(tree)
    rewritten.set_environment(environment)
    code = environment.compile(rewritten)
    assert isinstance(code, CodeType)
    return code, literals


def run_template(
    code: CodeType, variables: Mapping[str, object], date: datetime.date | None
) -> str:
    """Render what :func:`compile_template` returned; raises what BoundedSandbox and Jinja raise."""
    environment = BoundedSandbox(date)
    template = Template.from_code(environment, code, environment.make_globals(None))
    return template.render(variables)


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
    node.iter = _wrapped("counted", node.iter)
    return node  # type: ignore[no-any-return]


def _rewrite_node(node: Any) -> nodes.Node:
    # A filter of a block has no node of its own: the block's text was charged as it was put out.
    if node.node is not None:
        node.node = _wrapped("charged", node.node)
    return node  # type: ignore[no-any-return]


def _rewrite_expression(node: Any) -> nodes.Node:
    node.expr = _wrapped("charged", node.expr)
    return node  # type: ignore[no-any-return]


def _rewrite_key(node: Any) -> nodes.Node:
    node.key = _wrapped("charged", node.key)
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
    nodes.Filter: _rewrite_node,
    nodes.Test: _rewrite_node,
    nodes.Compare: _rewrite_expression,
    nodes.Operand: _rewrite_expression,
    nodes.Pair: _rewrite_key,
    nodes.Getitem: _rewrite_item,
    nodes.Concat: lambda node: _wrapped("concatenate", *node.nodes),
}


def _raise_exception(reason: object) -> None:
    raise ChatRefusedError(str(reason)[:_REASON_SIZE_CHARS_MAX])


def _bits(value: object) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _flat_size(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    return _OPERATION_WORK * len(value) if isinstance(value, list | tuple) else 0
