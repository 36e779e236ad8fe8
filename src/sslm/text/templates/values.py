"""Values of a chat template: each is charged for before it is looked at."""

from collections.abc import Iterable, Mapping, Sized
from typing import Any, Final, TypeVar

from jinja2 import Undefined

from sslm.errors.text import TemplateFailedError
from sslm.text.templates.allowance import Allowance, text_size_bytes

_T = TypeVar("_T")

_SCALARS: Final = (str, int, float, type(None))
_PRINTABLE: Final = (*_SCALARS, Undefined)


class ChargedValues:
    """What a rewritten template calls, with the allowance of one rendering.

    Args:
        allowance: What the rendering may cost.

    Raises (all methods):
        TemplateWorkError: If the allowance is used up.
        TemplateFailedError: If a value may not be used in that way.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._charge = allowance.charge
        self._charge_value = allowance.charge_value

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
            values = self.listed(values)
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
        self._allowance.charge_bytes(text_size_bytes(text))
        return text

    def concatenate(self, *values: object) -> str:
        """Return the texts of *values*, joined."""
        return "".join(map(self.emit, values))

    def listed(self, values: Iterable[Any]) -> list[Any]:
        """Return *values* as a list, charging for each as it comes."""
        found = []
        for value in values:
            self._charge(1)
            found.append(value)
        return found

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
