"""The root of the exception tree, with its families."""

import inspect
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from sslm.errors.showing import presentable
from sslm.errors.status import Status


@dataclass_transform(eq_default=False)
class SslmError(Exception):
    """Base of every exception that this package raises on purpose.

    A subclass states its ``status``, its facts as annotated attributes, and a ``message`` in
    :meth:`str.format` syntax over those facts. The facts are the constructor's arguments, in the
    order of their annotations, and are what pickle sends, so every exception survives it.
    """

    status: ClassVar[Status] = Status.INTERNAL
    message: ClassVar[str] = "internal error"
    _fact_names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        annotations = inspect.get_annotations(cls)
        own = [name for name, kind in annotations.items() if "ClassVar" not in str(kind)]
        cls._fact_names = (*cls._fact_names, *own)

    def __init__(self, *values: Any, **named: Any) -> None:
        names = self.fact_names()
        facts = dict(zip(names, values, strict=False)) | named
        # The count too: a fact that is given twice would silently replace itself.
        if len(values) + len(named) != len(names) or set(facts) != set(names):
            raise TypeError(f"{type(self).__name__} takes the facts {names}, got {facts}")
        super().__init__(*(facts[name] for name in names))
        for name in names:
            setattr(self, name, facts[name])

    @property
    def cause(self) -> str:
        """What JSON output calls the cause: the class, unless that stands for many causes."""
        return type(self).__name__

    def fact_names(self) -> tuple[str, ...]:
        """Return the names of the facts, in the order of the constructor."""
        return self._fact_names

    def facts(self) -> dict[str, object]:
        """Return the facts by name, in the order of the constructor."""
        return {name: getattr(self, name) for name in self.fact_names()}

    def with_facts(self, **others: object) -> Self:
        """Return an error of the same cause in which some facts have other values."""
        return type(self)(**self.facts() | others)

    def template(self) -> str:
        """Return the message with the names of facts in it; what depends on facts overrides it."""
        return self.message

    def __str__(self) -> str:
        shown = {name: presentable(fact) for name, fact in self.facts().items()}
        return self.template().format(**shown)


ErrorT = TypeVar("ErrorT", bound=SslmError)


def as_value(error: ErrorT) -> ErrorT:
    """Return an error to be kept: its traceback, or its cause's, would hold what the call used."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


class ArgumentError(SslmError, ValueError):
    """The call asked for something that cannot be done; change the call."""


class ArtifactError(SslmError, ValueError):
    """The file is not one we accept; trying again will not help."""


class StateError(SslmError, RuntimeError):
    """The object is not in a state that allows this call."""


class ResourceError(SslmError, RuntimeError):
    """A limit of memory, disk or time was reached; free some, or ask for less."""


class NumericError(SslmError, ArithmeticError):
    """A proof of bounds failed, so that exact arithmetic could not be promised."""


class SchemaError(SslmError, ValueError):
    """The schema asks for what cannot be enforced, or cannot be had; change the schema."""


class NetworkError(SslmError, RuntimeError):
    """Something had to be fetched and could not be."""
