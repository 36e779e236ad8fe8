"""Jinja with a bound on everything that a template can make it do.

Jinja's sandbox keeps a template from Python's internals, not from the machine's time and memory.
Here, a rewritten template (``template_rewriting``) charges for a value before it touches it, and
only listed filters, tests and methods exist, none of which can turn little into much without being
charged (``template_allowance``). Nothing reads a clock or a random number.
"""

import datetime
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from types import CodeType
from typing import Any, Final, TypeVar

from jinja2 import Template, Undefined
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.utils import Namespace, pass_context

from sslm import limits
from sslm.errors.text import ChatRefusedError, TemplateFailedError, TemplateWorkError
from sslm.text.template_allowance import CALL_OPERATIONS, Allowance, text_size_bytes
from sslm.text.template_allowlist import FILTERS_ALLOWED, METHODS_ALLOWED, TESTS_ALLOWED
from sslm.text.template_date import format_date

_T = TypeVar("_T")

INTEGER_BITS_MAX: Final = 60
"""Bits of any integer: arithmetic takes constant time, and no two but -1 and -2 share a hash."""

_POWER_BITS_MAX: Final = 1024
"""Bits of a power by a rough estimate, before it is computed and measured."""

_REASON_SIZE_CHARS_MAX: Final = 500
_JSON_INDENT_MAX: Final = 8

_SPLITTING: Final = frozenset({"rsplit", "split", "splitlines"})
_SEARCHING: Final = frozenset({"count", "find", "index", "partition", "split"})
_COMPARING_ALL: Final = frozenset(
    {"lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip"}
)
"""Methods that may compare each character of a text with each of their argument."""

_ADDED_BY_REWRITING: Final = frozenset(
    {"charged", "concatenate", "contained", "counted", "emit", "key", "spend"}
)
"""Methods of the sandbox that charge for themselves."""

_LAZY: Final = ("map", "reject", "rejectattr", "select", "selectattr")
"""Filters that compute nothing until something asks for their items, however long the chain."""

_SPACES: Final = "".join(filter(str.isspace, map(chr, range(1 << 16))))
"""Where a text can be split without naming a separator."""

_SCALARS: Final = (str, int, float, type(None))
_PRINTABLE: Final = (*_SCALARS, Undefined)


class BoundedSandbox(ImmutableSandboxedEnvironment):
    """The environment of one rendering, which owns that rendering's allowance.

    Args:
        allowance: What the rendering may cost.
        date: What ``strftime_now`` gives; without one, templates find that name undefined.

    Raises (while a template runs):
        TemplateWorkError: If the allowance is used up.
        TemplateFailedError: If it does something that is not allowed here.
        ChatRefusedError: If it calls ``raise_exception``.
    """

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(
        self, allowance: Allowance | None = None, date: datetime.date | None = None
    ) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
            cache_size=0,
            extensions=["jinja2.ext.loopcontrols"],
        )
        self._allowance = allowance or Allowance.for_messages([])
        self._charge = self._allowance.charge
        self._charge_bytes = self._allowance.charge_bytes
        self._charge_value = self._allowance.charge_value
        self._charge_copy = self._allowance.charge_copy
        self._call_depth = 0
        self.filters = {name: FILTERS[name] for name in FILTERS_ALLOWED} | {
            "int": self._int,
            "join": self._join,
            "list": self._list,
            **{name: self._eager(FILTERS[name]) for name in _LAZY},
            "replace": self._replace,
            "safe": self.emit,
            "string": self.emit,
            "title": self._title,
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
        self._charge_value(value)
        return value

    def key(self, value: _T) -> _T:
        """Return *value*, charged, if it may be a key.

        Tuples may not: any number of them, made of -1 and -2, would have the same hash.
        """
        self._charge_value(value)
        if not isinstance(value, _SCALARS):
            raise TemplateFailedError(f"a key of type {type(value).__name__}")
        return value

    def contained(self, part: Any, whole: Any) -> bool:
        """Return whether *part* is in *whole*."""
        self._charge_value(part)
        self._charge_value(whole)
        if isinstance(whole, str):
            self._allowance.charge_search(whole, part)
        return part in whole

    def counted(self, values: Iterable[Any], operations: int = 1) -> Any:
        """Charge *operations* for each of *values*, and return them."""
        if not isinstance(values, Sized):
            values = self._list(values)
        self._charge(operations * (1 + len(values)))
        return values

    def spend(self, operations: int) -> None:
        """Charge *operations*."""
        self._charge(operations)

    def emit(self, value: object) -> str:
        """Return *value* as text, if its text says nothing about this process."""
        self._charge_value(value)
        if isinstance(value, str):
            return value
        self._require_printable(value)
        text = str(value)
        self._charge_bytes(text_size_bytes(text))
        return text

    def concatenate(self, *values: object) -> str:
        """Return the texts of *values*, joined."""
        return "".join(map(self.emit, values))

    # What Jinja calls.

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute a binary operation: of two numbers, or one that joins or repeats."""
        self._charge(1)
        if operator == "+":
            self._charge_copy(left)
            self._charge_copy(right)
        elif operator == "*":
            self._charge_repetition(left, right)
        else:
            _require_numbers(operator, left, right)
        if operator == "**":
            _require_small_power(left, right)
        return _measured(super().call_binop(context, operator, left, right))

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Look up a key, an index or an attribute, after charging for it."""
        self._charge(1)
        return super().getitem(obj, argument)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Look up an attribute or a key, after charging for it."""
        self._charge(1)
        return super().getattr(obj, attribute)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call something that the template names, after charging for it.

        The parameters are named as in Jinja, so that no keyword of a template can collide.
        """
        owner = getattr(__obj, "__self__", None)
        name = getattr(__obj, "__name__", "")
        if owner is __self and name in _ADDED_BY_REWRITING:
            return super().call(__context, __obj, *args, **kwargs)
        __self._charge(CALL_OPERATIONS)
        __self._charge_value(args)
        __self._charge_value(kwargs)
        if type(owner) is str and name == "join" and args:
            args = (__self.counted(args[0]), *args[1:])
        if type(owner) in METHODS_ALLOWED:
            __self._charge_method(owner, name, args, kwargs)
        if __self._call_depth >= limits.CHAT_TEMPLATE_NESTING_MAX:
            most = limits.CHAT_TEMPLATE_NESTING_MAX
            raise TemplateWorkError("calls nested too deeply", most)
        __self._call_depth += 1
        try:
            return super().call(__context, __obj, *args, **kwargs)
        finally:
            __self._call_depth -= 1

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Allow the listed attributes, and what a template has put into a namespace."""
        if type(obj) is Namespace:
            return not attr.startswith("_")
        return attr in METHODS_ALLOWED.get(type(obj), ())

    def wrap_str_format(self, value: Any) -> None:
        """Leave ``str.format`` to :meth:`is_safe_attribute`, which refuses it: widths are free."""
        return

    # Filters and globals.

    def _eager(self, lazy: Callable[..., Iterable[Any]]) -> Callable[..., Iterator[Any]]:
        """Return a filter that computes all its items, and charges for them, before it returns."""

        @pass_context
        def eager(context: Context, values: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
            source = values if isinstance(values, Sized) else self._list(values)
            self._charge_value(source)
            # Still an iterator, as without this: it has no text, length or second turn.
            return iter(self._list(lazy(context, source, *args, **kwargs)))

        return eager

    def _int(self, value: Any, default: int = 0, base: int = 10) -> Any:
        return _measured(FILTERS["int"](value, default, base))

    def _join(self, values: Iterable[Any], d: str = "", attribute: Any = None) -> str:
        if attribute is not None:
            raise TemplateFailedError("join with an attribute is not allowed; use map first")
        texts = [self.emit(value) for value in self.counted(values)]
        self._charge_copy(self.emit(d), len(texts))
        return str(d).join(texts)

    def _list(self, values: Iterable[Any]) -> list[Any]:
        found = []
        for value in values:
            self._charge(1)
            found.append(value)
        return found

    def _replace(self, text: Any, old: str, new: str, count: int = -1) -> str:
        string, old, new = self.emit(text), self.emit(old), self.emit(new)
        self._allowance.charge_replacement(string, old, new)
        return string.replace(old, new, count)

    def _to_json(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        operations_left = self._allowance.operations
        self._charge_value(value)
        item_count = operations_left - self._allowance.operations
        for separator in separators or ():
            self._charge_copy(self.emit(separator), item_count)
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
        self._charge_copy(text, len(chars or ""))
        return text.strip(chars)

    def _title(self, value: Any) -> str:
        text = self.emit(value)
        # Jinja cuts the text into words first.
        self._charge(len(text))
        return FILTERS["title"](text)  # type: ignore[no-any-return]

    def _dict(self, /, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        found = dict(*args, **kwargs)
        for key in found:
            self.key(key)
        return found

    def _namespace(self, /, *args: Any, **kwargs: Any) -> Namespace:
        return Namespace(*args, **kwargs)

    def _raise_exception(self, reason: object) -> None:
        raise ChatRefusedError(self.emit(reason)[:_REASON_SIZE_CHARS_MAX])

    def _range(self, *bounds: int) -> range:
        found = range(*bounds)
        self._charge(1 + len(found))
        return found

    def _strftime_now(self, layout: str) -> str:
        assert self._date is not None
        self._charge(layout.count("%"))
        return format_date(self._date, layout)

    # Charging.

    def _charge_repetition(self, left: Any, right: Any) -> None:
        for sequence, factor in ((left, right), (right, left)):
            if isinstance(factor, int):
                self._charge_copy(sequence, factor)

    def _charge_method(
        self, owner: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self._charge_value(owner)
        if type(owner) is not str:
            return
        part = args[0] if args else kwargs.get("sep")
        if name == "replace" and len(args) > 1 and isinstance(part, str):
            self._allowance.charge_replacement(owner, part, args[1])
        elif name == "join" and isinstance(part, Sized):
            self._charge_copy(owner, len(part))
        elif name in _SEARCHING:
            self._allowance.charge_search(owner, part)
        elif name in _COMPARING_ALL and isinstance(part, str):
            self._charge_copy(owner, len(part))
        if name in _SPLITTING:
            places = (part,) if isinstance(part, str) and part else _SPACES
            self._charge(sum(map(owner.count, places)))

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


def run_template(
    code: CodeType,
    variables: Mapping[str, object],
    allowance: Allowance,
    date: datetime.date | None,
) -> str:
    """Render what ``compile_template`` returned; raises what BoundedSandbox and Jinja raise."""
    environment = BoundedSandbox(allowance, date)
    template = Template.from_code(environment, code, environment.make_globals(None))
    return template.render(variables)


def bits(value: object) -> int:
    """Return the bits of an integer; 0 for anything else."""
    return value.bit_length() if isinstance(value, int) else 0


def _measured(value: _T) -> _T:
    """Return *value*, unless it is too large an integer."""
    if bits(value) > INTEGER_BITS_MAX:
        raise TemplateWorkError("a number of too many bits", INTEGER_BITS_MAX)
    return value


def _remainder(value: Any, divisor: Any) -> Any:
    _require_numbers("%", value, divisor)
    return value % divisor


def _require_small_power(base: Any, exponent: Any) -> None:
    # The power of two floats is the C library's, and not the same on every machine.
    if not isinstance(base, int) or not isinstance(exponent, int) or exponent < 0:
        raise TemplateFailedError("** takes whole numbers, and no negative exponent")
    if bits(base) * exponent > _POWER_BITS_MAX:
        raise TemplateWorkError("a number of too many bits", INTEGER_BITS_MAX)


def _require_numbers(operator: str, *operands: object) -> None:
    # Of texts, % formats, to any width; of views, - gives a set, whose order is no one's choice.
    for operand in operands:
        if not isinstance(operand, int | float):
            found = type(operand).__name__
            raise TemplateFailedError(f"{operator} takes numbers, found a {found}")
