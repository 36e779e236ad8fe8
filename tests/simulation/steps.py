"""What a simulation is made of: pairs of what runs and what is known of it, and calls on both."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sslm.runtime.sequences.sequence import Sequence
from tests.simulation import expected

Real = TypeVar("Real")
Model = TypeVar("Model")


@dataclass(slots=True, eq=False)
class Both(Generic[Real, Model]):
    """Something of the runtime, and what the model says of it."""

    real: Real
    model: Model


BothSequences = Both[Sequence, expected.Sequence]


@dataclass(slots=True)
class Step:
    """A call, what it is to do, and where its results go."""

    real: Callable[[], Any]
    model: Callable[[], Any]
    keep: Callable[[Any, Any], None] | None = None
