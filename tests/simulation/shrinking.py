"""Leaving out of a failing schedule what it fails without."""

from collections.abc import Callable
from dataclasses import replace

from tests.simulation.operations import Operation, Schedule

TRIES_MAX = 600


def shrunk(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """Return a schedule that fails, and does not if any one operation is left out.

    Args:
        schedule: One that fails.
        fails: Runs a schedule.
    """
    operations, tries = schedule.operations, 0
    size = max(1, len(operations) // 2)
    while tries < TRIES_MAX:
        length = len(operations)
        at = 0
        while at < len(operations) and tries < TRIES_MAX:
            tries += 1
            rest: tuple[Operation, ...] = operations[:at] + operations[at + size :]
            if fails(replace(schedule, operations=rest)):
                operations = rest
            else:
                at += size
        if size == 1 and len(operations) == length:
            break
        size = max(1, size // 2)
    return replace(schedule, operations=operations)
