"""What compiling a schema may take."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sslm import limits
from sslm.errors.schema import SchemaBudgetError
from sslm.progress import StageProgress

AUTOMATON_WORK: Final = "schema budget"
"""What is reported while automata are built: how much of the budget's steps is spent."""

WHOLE_SCHEMA: Final = "the schema as a whole"
"""What an error names where no part of the schema has a label."""


STATE_STEPS: Final = 8
"""Steps that are counted for a state whenever its row is worked on, besides one for each target."""

_REPORT_STEPS: Final = 8192
"""Between two reports: a few milliseconds."""
_REPORT_PLACES: Final = 64
"""Likewise: each constant is one, and takes a step, whatever its length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Bounds of one compilation. They count, so that they hold alike on every machine.

    Attributes:
        states: States of any automaton that is built on the way.
        transitions: Targets of all states of such an automaton.
        steps: Looks at positions, and what takes as long, for all automata together; about three
            million take a second.
    """

    states: int = limits.SCHEMA_STATES_MAX
    transitions: int = limits.SCHEMA_TRANSITIONS_MAX
    steps: int = limits.SCHEMA_STEPS_MAX


class Meter:
    """What is left of a budget, and the place in the schema that is being compiled.

    Args:
        budget: The bounds.
        report: Told of the steps, which decide alone whether a schema is refused.

    Attributes:
        budget: The bounds.
        steps: Steps taken so far.
    """

    def __init__(self, budget: Budget, report: StageProgress | None = None) -> None:
        self.budget = budget
        self.steps = 0
        self._report = report
        self._entered = 0
        # Whichever comes first is all that is looked for at each step.
        self._next_steps = budget.steps if report is None else 0
        self._label = WHOLE_SCHEMA
        self._blame: Callable[[], str | None] | None = None

    def enter(self, label: str) -> None:
        """Say which place in the schema is being compiled from now on."""
        self._label = label
        self._blame = None
        self._entered += 1
        if self._report is not None and self._entered % _REPORT_PLACES == 0:
            self._report(AUTOMATON_WORK, self.steps, self.budget.steps)

    def watch(self, blame: Callable[[], str | None]) -> None:
        """Say who knows the place more exactly, until the next one is entered."""
        self._blame = blame

    def spend(self, steps: int) -> None:
        """Count *steps*; raise :class:`SchemaBudgetError` beyond the bound."""
        self.steps += steps
        if self.steps > self._next_steps:
            self._look()

    def admit(self, states: int, transitions: int) -> None:
        """Check the size of one automaton; raise :class:`SchemaBudgetError` if it is too large."""
        budget = self.budget
        if states > budget.states:
            raise SchemaBudgetError("states", budget.states, self._where())
        if transitions > budget.transitions:
            raise SchemaBudgetError("transitions", budget.transitions, self._where())

    def _look(self) -> None:
        most = self.budget.steps
        if self.steps > most:
            raise SchemaBudgetError("steps", most, self._where())
        if self._report is not None:
            self._next_steps = min(self.steps + _REPORT_STEPS, most)
            self._report(AUTOMATON_WORK, self.steps, most)

    def _where(self) -> str:
        return (self._blame and self._blame()) or self._label
