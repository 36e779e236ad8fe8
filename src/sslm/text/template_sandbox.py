"""Jinja with a bound on everything that a template can make it do.

Jinja's sandbox keeps a template from Python's internals, not from the machine's time and memory.
Here, compiling rewrites the template so that whatever touches a value first charges its size
against one allowance, and only listed filters, tests and methods exist, none of which can turn
little into much without being charged. Nothing reads a clock or a random number.
"""

import datetime
import json
from collections.abc import Callable, ItemsView, Iterable, KeysView, Mapping, Sized, ValuesView
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

_INTEGER_BITS_MAX: Final = 60
"""Bits of any integer: arithmetic takes constant time, and no two have the same hash."""

_POWER_BITS_MAX: Final = 1024
"""Bits of a power by a rough estimate, before it is computed and measured."""

_REASON_SIZE_CHARS_MAX: Final = 500
_JSON_INDENT_MAX: Final = 8

_SPLITTING: Final = frozenset({"rsplit", "split", "splitlines"})
_COMPARING_ALL: Final = frozenset(
    {"lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip"}
)
"""Methods that may compare each character of a text with each of their argument."""

_ADDED_BY_REWRITING: Final = frozenset({"charged", "concatenate", "counted", "emit"})
"""Methods of the sandbox that charge for themselves."""

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

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

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
            "int": self._int,
            "join": self._join,
            "list": self._list,
            "replace": self._replace,
            "safe": self.emit,
            "string": self.emit,
            "tojson": self._to_json,
            "trim": self._trim,
        }
        self.tests = {name: TESTS[name] for name in TESTS_ALLOWED} | {
            "divisibleby": lambda value, num: _remainder(value, num) == 0,
            "even": lambda value: _remainder(value, 2) == 0,
            "odd": lambda value: _remainder(value, 2) == 1,
        }
        self._date = date
        # Methods of this object, of which a template can reach no attribute.
        self.globals = {
            "dict": self._dict,
            "namespace": self._namespace,
            "raise_exception": self._raise_exception,
            "range": self._range,
        }
        if date is not None:
            self.globals["strftime_now"] = self._strftime_now

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
        """Compute a binary operation: of two numbers, or one that joins or repeats."""
        self._charge(_OPERATION_WORK)
        if operator == "+":
            self._charge(_flat_size(left) + _flat_size(right))
        elif operator == "*":
            self._charge_repetition(left, right)
        else:
            _require_numbers(operator, left, right)
        if operator == "**" and isinstance(right, int) and _bits(left) * right > _POWER_BITS_MAX:
            raise TemplateWorkError("a number of too many bits", _INTEGER_BITS_MAX)
        return _measured(super().call_binop(context, operator, left, right))

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Look up a key, an index or an attribute, after charging for it."""
        self._charge(_OPERATION_WORK)
        return super().getitem(obj, argument)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Look up an attribute or a key, after charging for it."""
        self._charge(_OPERATION_WORK)
        return super().getattr(obj, attribute)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call something that the template names, after charging for it.

        The parameters are named as in Jinja, so that no keyword of a template can collide.
        """
        owner = getattr(__obj, "__self__", None)
        name = getattr(__obj, "__name__", "")
        if owner is not __self or name not in _ADDED_BY_REWRITING:
            __self._charge(_CALL_WORK)
            __self._charge_size(args)
            __self._charge_size(kwargs)
            if type(owner) is str and name == "join" and args:
                args = (__self.counted(args[0]), *args[1:])
            if type(owner) in METHODS_ALLOWED:
                __self._charge_method(owner, name, args)
        return super().call(__context, __obj, *args, **kwargs)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Allow the listed attributes, and what a template has put into a namespace."""
        if type(obj) is Namespace:
            return not attr.startswith("_")
        return attr in METHODS_ALLOWED.get(type(obj), ())

    def wrap_str_format(self, value: Any) -> None:
        """Leave ``str.format`` to :meth:`is_safe_attribute`, which refuses it: widths are free."""
        return

    # Filters and globals.

    def _int(self, value: Any, default: int = 0, base: int = 10) -> Any:
        return _measured(FILTERS["int"](value, default, base))

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
        work_left = self._work_left
        self._charge_size(value)
        item_count = (work_left - self._work_left) // _OPERATION_WORK
        self._charge_size(separators)
        self._charge(item_count * sum(len(self.emit(one)) for one in separators or ()))
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

    def _trim(self, value: Any, chars: str | None = None) -> str:
        text = self.emit(value)
        self._charge(len(text) * len(chars or ""))
        return text.strip(chars)

    def _dict(self, /, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def _namespace(self, /, *args: Any, **kwargs: Any) -> Namespace:
        return Namespace(*args, **kwargs)

    def _raise_exception(self, reason: object) -> None:
        raise ChatRefusedError(self.emit(reason)[:_REASON_SIZE_CHARS_MAX])

    def _range(self, *bounds: int) -> range:
        found = range(*bounds)
        self._charge(_OPERATION_WORK * (1 + len(found)))
        return found

    def _strftime_now(self, layout: str) -> str:
        assert self._date is not None
        return format_date(self._date, layout)

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
        elif isinstance(value, range):
            self._charge(_OPERATION_WORK * len(value))
        elif isinstance(value, Mapping | list | tuple | KeysView | ValuesView | ItemsView):
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

    def _charge_repetition(self, left: Any, right: Any) -> None:
        for sequence, factor in ((left, right), (right, left)):
            if isinstance(sequence, str | list | tuple) and isinstance(factor, int):
                self._charge(_flat_size(sequence) * max(factor, 0))

    def _charge_method(self, owner: Any, name: str, args: tuple[Any, ...]) -> None:
        self._charge_size(owner)
        if name == "replace" and len(args) >= 2:
            self._charge_replacement(owner, args[0], args[1])
        elif name == "join" and args:
            self._charge(len(owner) * len(args[0]))
        if name in _COMPARING_ALL and args and isinstance(args[0], str):
            self._charge(len(owner) * len(args[0]))
        if name in _SPLITTING:
            separator = args[0] if args and isinstance(args[0], str) else ""
            parts = owner.count(separator) if separator else len(owner)
            self._charge(_OPERATION_WORK * parts)

    def _charge_replacement(self, text: str, old: str, new: str) -> None:
        self._charge(text.count(old) * len(new))

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
    for number in tree.find_all(nodes.Const):
        if _bits(number.value) > _INTEGER_BITS_MAX:
            feature = f"a number of more than {_INTEGER_BITS_MAX} bits"
            raise TemplateFeatureError(feature, number.lineno)
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


def _bits(value: object) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _flat_size(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    return _OPERATION_WORK * len(value) if isinstance(value, list | tuple) else 0


def _measured(value: _T) -> _T:
    """Return *value*, unless it is too large an integer."""
    if _bits(value) > _INTEGER_BITS_MAX:
        raise TemplateWorkError("a number of too many bits", _INTEGER_BITS_MAX)
    return value


def _remainder(value: Any, divisor: Any) -> Any:
    _require_numbers("%", value, divisor)
    return value % divisor


def _require_numbers(operator: str, *operands: object) -> None:
    # Of texts, % formats, to any width; of views, - gives a set, whose order is no one's choice.
    for operand in operands:
        if not isinstance(operand, int | float):
            found = type(operand).__name__
            raise TemplateFailedError(f"{operator} takes numbers, found a {found}")
