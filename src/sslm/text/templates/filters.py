"""Filters of a chat template that charge for what they do."""

import json
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, Final

from jinja2 import Environment, Undefined
from jinja2.filters import FILTERS, ignore_case, make_attrgetter
from jinja2.runtime import Context
from jinja2.utils import pass_context, pass_environment

from sslm import limits
from sslm.errors.text import TemplateFailedError, TemplateWorkError
from sslm.text.templates.allowance import Allowance
from sslm.text.templates.allowlist import FILTERS_ALLOWED
from sslm.text.templates.numbers import measured, rounded
from sslm.text.templates.values import ChargedValues

_JSON_INDENT_MAX: Final = 8

_LINE_ENDS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""Characters that end a line where Python splits a text into lines."""

_LAZY: Final = ("map", "reject", "rejectattr", "select", "selectattr")
"""Filters that compute nothing until something asks for their items, however long the chain."""


class BoundedFilters:
    """All filters of one rendering: Jinja's own where those are bounded, others in their place.

    Args:
        allowance: What the rendering may cost.
        values: With the same allowance.
    """

    def __init__(self, allowance: Allowance, values: ChargedValues) -> None:
        self._allowance = allowance
        self._values = values
        self._emit = values.emit
        self._lazy_depth = 0

    def by_name(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names in templates."""
        return {name: FILTERS[name] for name in FILTERS_ALLOWED} | {
            "batch": self._batch,
            "indent": self._indent,
            "int": self._int,
            "join": self._join,
            "list": self._values.listed,
            **{name: self._eager(FILTERS[name]) for name in _LAZY},
            "replace": self._replace,
            "round": rounded,
            "safe": self._emit,
            "string": self._emit,
            "sum": self._sum,
            "title": self._title,
            "tojson": self._to_json,
            "trim": self._trim,
            "unique": self._unique,
        }

    def _eager(self, lazy: Callable[..., Iterable[Any]]) -> Callable[..., Iterator[Any]]:
        """Return a filter that computes all its items, and charges for them, before it returns."""

        @pass_context
        def eager(context: Context, values: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
            if not values:
                # As in Jinja: none, 0 and what is undefined have no items, and are no mistake.
                return iter(())
            source = values if isinstance(values, Sized) else self._values.listed(values)
            self._allowance.charge_value(source)
            # The filter that ``map`` is given may be ``map``, with its own to follow.
            most = limits.CHAT_TEMPLATE_NESTING_MAX
            if self._lazy_depth == most:
                raise TemplateWorkError("filters nested too deeply", most)
            self._lazy_depth += 1
            try:
                # Still an iterator, as without this: it has no text, length or second turn.
                return iter(self._values.listed(lazy(context, source, *args, **kwargs)))
            finally:
                self._lazy_depth -= 1

        return eager

    def _batch(self, values: Iterable[Any], linecount: int, fill_with: Any = None) -> Any:
        source = self._values.counted(values)
        if fill_with is not None and isinstance(linecount, int):
            self._allowance.charge(max(linecount, 0))
        return iter(self._values.listed(FILTERS["batch"](source, linecount, fill_with)))

    def _indent(
        self, text: Any, width: int | str = 4, first: bool = False, blank: bool = False
    ) -> str:
        if not isinstance(text, str):
            raise TemplateFailedError(f"indent takes a text, found a {type(text).__name__}")
        line_count = 1 + sum(map(text.count, _LINE_ENDS))
        self._allowance.charge(line_count)
        size_chars = len(width) if isinstance(width, str) else max(width, 0)
        is_ascii = text.isascii() and (not isinstance(width, str) or width.isascii())
        # One indention more than lines, for the first.
        most_chars = 1 + len(text) + (line_count + 1) * size_chars
        self._allowance.charge_characters(most_chars, is_ascii=is_ascii)
        return FILTERS["indent"](text, width, first, blank)  # type: ignore[no-any-return]

    def _int(self, value: Any, default: int = 0, base: int = 10) -> Any:
        return measured(FILTERS["int"](value, default, base))

    def _join(self, values: Iterable[Any], d: str = "", attribute: Any = None) -> str:
        if attribute is not None:
            raise TemplateFailedError("join with an attribute is not allowed; use map first")
        texts = [self._emit(value) for value in self._values.counted(values)]
        self._allowance.charge_copy(self._emit(d), len(texts))
        return str(d).join(texts)

    def _replace(self, text: Any, old: str, new: str, count: int = -1) -> str:
        string, old, new = self._emit(text), self._emit(old), self._emit(new)
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
        self._allowance.charge_value(value)
        item_count = operations_left - self._allowance.operations
        for separator in separators or ():
            self._allowance.charge_copy(self._emit(separator), item_count)
        if indent is not None and not (isinstance(indent, int) and 0 <= indent <= _JSON_INDENT_MAX):
            raise TemplateFailedError(f"tojson indents by at most {_JSON_INDENT_MAX}")
        text = json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )
        return self._values.charged(text)

    def _trim(self, value: Any, chars: str | None = None) -> str:
        text = self._emit(value)
        self._allowance.charge_copy(text, len(chars or ""))
        return text.strip(chars)

    def _title(self, value: Any) -> str:
        text = self._emit(value)
        # Jinja cuts the text into words first.
        self._allowance.charge(len(text))
        return FILTERS["title"](text)  # type: ignore[no-any-return]

    @pass_environment
    def _sum(
        self,
        environment: Environment,
        iterable: Iterable[Any],
        attribute: str | int | None = None,
        start: Any = 0,
    ) -> Any:
        get = make_attrgetter(environment, attribute)
        found = start
        # Not Python's sum, which adds fractions in another way since 3.12.
        for value in self._values.counted(iterable):
            term = value if attribute is None else get(value)
            if isinstance(found, str) or isinstance(term, str):
                raise TemplateFailedError("sum takes numbers or lists; join takes texts")
            self._allowance.charge_copy(found)
            self._allowance.charge_copy(term)
            found = measured(found + term)
        return found

    @pass_environment
    def _unique(
        self,
        environment: Environment,
        values: Iterable[Any],
        case_sensitive: bool = False,
        attribute: str | int | None = None,
    ) -> Iterator[Any]:
        get = make_attrgetter(environment, attribute, None if case_sensitive else ignore_case)
        seen: set[Any] = set()
        found = []
        for value in self._values.counted(values):
            key = get(value)
            # All that is undefined is equal, and has one hash.
            if not isinstance(key, Undefined):
                self._values.key(key)
            if key not in seen:
                seen.add(key)
                found.append(value)
        return iter(found)
