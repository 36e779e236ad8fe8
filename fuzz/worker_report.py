"""The counts that a worker leaves for its parent."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.execution import Execution
from fuzz.target import Outcomes


@dataclass
class WorkerReport:
    """What a worker has seen since it started.

    Args:
        outcomes: What became of the inputs.
        seconds_max: Processor time of the slowest.
        growth_bytes_max: Memory that the largest added.
    """

    outcomes: Outcomes = field(default_factory=Outcomes)
    seconds_max: float = 0.0
    growth_bytes_max: int = 0

    def note(self, done: Execution) -> None:
        """Take an execution into account, whose outcomes are counted already."""
        self.seconds_max = max(self.seconds_max, done.seconds)
        self.growth_bytes_max = max(self.growth_bytes_max, done.growth_bytes)


def write_report(state: Path, report: WorkerReport) -> None:
    """Leave a report beside a worker's state; it is there whole or not at all."""
    facts = {
        "outcomes": dict(report.outcomes),
        "seconds_max": report.seconds_max,
        "growth_bytes_max": report.growth_bytes_max,
    }
    temporary = state.with_suffix(".tmp")
    temporary.write_text(json.dumps(facts), encoding="utf-8")
    temporary.replace(state.with_suffix(".json"))


def read_report(state: Path) -> WorkerReport:
    """Return the report beside a worker's state; raises OSError if there is none yet."""
    facts = json.loads(state.with_suffix(".json").read_text(encoding="utf-8"))
    return WorkerReport(
        outcomes=Outcomes(facts["outcomes"]),
        seconds_max=facts["seconds_max"],
        growth_bytes_max=facts["growth_bytes_max"],
    )
