"""Jinja with a bound on everything that a template can make it do.

Jinja's sandbox keeps a template from Python's internals, not from the machine's time and memory.
Here, a rewritten template (``template_rewriting``) charges for a value before it touches it, and
only listed filters, tests and methods exist, none of which can turn little into much without being
charged (``allowance``). Nothing reads a clock or a random number.
"""

import datetime
from collections.abc import Mapping, Sized
from types import CodeType
from typing import Any, Final, TypeVar

from jinja2 import Template, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.utils import Namespace

from sslm import limits
from sslm.errors.text import ChatRefusedError, TemplateWorkError
from sslm.text.templates.allowance import CALL_OPERATIONS, Allowance
from sslm.text.templates.allowlist import METHODS_ALLOWED, TESTS_ALLOWED
from sslm.text.templates.date import format_date
from sslm.text.templates.filters import BoundedFilters
from sslm.text.templates.numbers import (
    measured,
    remainder,
    require_numbers,
    require_small_power,
)
from sslm.text.templates.values import ChargedValues

_T = TypeVar("_T")

_REASON_SIZE_CHARS_MAX: Final = 500

_SPLITTING: Final = frozenset({"rsplit", "split", "splitlines"})
_SEARCHING: Final = frozenset({"count", "find", "index", "partition", "split"})
_COMPARING_ALL: Final = frozenset(
    {"lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip"}
)
"""Methods that may compare each character of a text with each of their argument."""

_ADDED_BY_REWRITING: Final = frozenset(
    {"charged", "concatenate", "contained", "counted", "emit", "key", "spend"}
)
"""Methods of ``ChargedValues``, which charge for themselves."""

_SPACES: Final = "".join(filter(str.isspace, map(chr, range(1 << 16))))
"""Where a text can be split without naming a separator."""


class GenerationTag(Extension):
    """The tag by which templates mark the model's own words for training: its body is rendered."""

    tags = {"generation"}  # noqa: RUF012  (as Jinja declares it)

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the body, in which a variable is set for the body alone."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


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
            extensions=["jinja2.ext.loopcontrols", GenerationTag],
        )
        self._allowance = allowance or Allowance.for_messages([])
        self._charge = self._allowance.charge
        self._charge_value = self._allowance.charge_value
        self._charge_copy = self._allowance.charge_copy
        self._call_depth = 0
        self._values = ChargedValues(self._allowance)
        # What rewriting adds to a template looks here for them.
        for name in _ADDED_BY_REWRITING:
            setattr(self, name, getattr(self._values, name))
        self.filters = BoundedFilters(self._allowance, self._values).by_name()
        self.tests = {name: TESTS[name] for name in TESTS_ALLOWED} | {
            "divisibleby": lambda value, num: remainder(value, num) == 0,
            "in": self._values.contained,
            "even": lambda value: remainder(value, 2) == 0,
            "odd": lambda value: remainder(value, 2) == 1,
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
            require_numbers(operator, left, right)
        if operator == "**":
            require_small_power(left, right)
        return measured(super().call_binop(context, operator, left, right))

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
        if owner is __self._values and name in _ADDED_BY_REWRITING:
            return super().call(__context, __obj, *args, **kwargs)
        __self._charge(CALL_OPERATIONS)
        __self._charge_value(args)
        __self._charge_value(kwargs)
        if type(owner) is str and name == "join" and args:
            args = (__self._values.counted(args[0]), *args[1:])
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

    def _dict(self, /, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        found = dict(*args, **kwargs)
        for key in found:
            self._values.key(key)
        return found

    def _namespace(self, /, *args: Any, **kwargs: Any) -> Namespace:
        return Namespace(*args, **kwargs)

    def _raise_exception(self, reason: object) -> None:
        raise ChatRefusedError(self._values.emit(reason)[:_REASON_SIZE_CHARS_MAX])

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
