"""What a schedule consists of: a world, then operations on numbered slots of it."""

import json
from dataclasses import dataclass, field
from typing import Any

SEQUENCE_SLOTS = 4
PREFIX_SLOTS = 2
SNAPSHOT_SLOTS = 3
SAVE_SLOTS = 2
HOARD_SLOTS = 2


@dataclass(frozen=True)
class World:
    """What runs, and how many pages there are.

    Args:
        model: One of ``tests.simulation.models.MODELS``.
        backend: ``reference``, or a tier of the native backend.
        threads: Of the native backend.
        page_counts: Of the two pools.
    """

    model: str
    backend: str
    threads: int
    page_counts: tuple[int, int]

    def __str__(self) -> str:
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        pages = " and ".join(map(str, self.page_counts))
        return f"{self.model} on {self.backend}{threads}, pools of {pages} pages"


@dataclass(frozen=True)
class Operation:
    """One call. Without what it is about it does nothing, so that any of them can be left out.

    Args:
        kind: Name of a method of ``tests.simulation.simulation.Simulation``.
        arguments: Its arguments: numbers, names, slots.
        fails_at: Which allocation of the call fails, counted from 1, or None.
    """

    kind: str
    arguments: dict[str, Any] = field(default_factory=dict)
    fails_at: int | None = None

    def __str__(self) -> str:
        given = ", ".join(f"{name}={json.dumps(value)}" for name, value in self.arguments.items())
        failing = f"  # allocation {self.fails_at} fails" if self.fails_at else ""
        return f"{self.kind}({given}){failing}"


@dataclass(frozen=True)
class Schedule:
    """A world and what is done in it."""

    seed: int
    world: World
    operations: tuple[Operation, ...]
