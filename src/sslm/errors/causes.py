"""Errors of one class with a table of causes, as all that can be wrong with files of one format."""

import inspect
import re
import string
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

from sslm.errors.base import SslmError
from sslm.errors.status import Status

_ROW: Final = re.compile(r"(\w+)(?: (\w+Error))?(?: \(([\w ]+)\))?: (.+)")


class Cause(NamedTuple):
    """What one number of a class means.

    Attributes:
        name: What JSON output calls it.
        message: In :meth:`str.format` syntax over its facts; it names each of them.
        facts: Their names, in the order of JSON output.
    """

    name: str
    message: str
    facts: tuple[str, ...]


def causes_of(table: str) -> Mapping[Status, Cause]:
    """Return the causes that a table lists, each with its number's name and its message.

    A row is ``GGUF_BOOL: message``, and goes on in lines that are indented more. Its name is
    ``GgufBoolError`` then, and its facts have the order of the message. Where JSON output has
    another name or order, it is stated: ``NUMBER NameError (fact other): message``.
    """
    causes = {}
    for row in re.split(r"\n(?=\S)", inspect.cleandoc(table)):
        found = _ROW.fullmatch(" ".join(row.split()))
        if found is None:
            raise ValueError(f"not a row of causes: {row!r}")
        number, name, facts, message = found.groups()
        fields = [field for _, field, _, _ in string.Formatter().parse(message) if field]
        causes[Status[number]] = Cause(
            name or number.title().replace("_", "") + "Error",
            message,
            tuple(facts.split() if facts else dict.fromkeys(fields)),
        )
    return causes


class ManyCausesError(SslmError):
    """An error of which callers treat all causes alike; its number says which one it is.

    A subclass has a table of causes, and is raised with a number of it and with the facts that the
    message names: ``raise GgufError(Status.GGUF_MAGIC, found=magic)``.
    """

    causes: ClassVar[Mapping[Status, Cause]]

    def __init__(self, status: Status, *values: Any, **named: Any) -> None:
        if status not in self.causes:
            raise TypeError(f"{type(self).__name__} has no cause {status!r}")
        vars(self)["status"] = status
        super().__init__(*values, **named)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.status, *self.args), vars(self)

    if TYPE_CHECKING:
        # Facts differ from cause to cause; tests/test_errors_table.py checks those of each raise.
        def __getattr__(self, name: str) -> Any: ...

    @property
    def cause(self) -> str:
        """What JSON output calls the cause, ``GgufMagicError`` for one."""
        return self.causes[self.status].name

    def fact_names(self) -> tuple[str, ...]:
        """Return the names of the cause's facts, in the order of JSON output."""
        return self.causes[self.status].facts

    def with_facts(self, **others: object) -> Self:
        """Return an error of the same cause in which some facts have other values."""
        return type(self)(self.status, **self.facts() | others)

    def template(self) -> str:
        """Return the cause's message, with the names of its facts in it."""
        return self.causes[self.status].message
