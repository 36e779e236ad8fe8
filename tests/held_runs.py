"""Models whose slices wait for what a test has to do in their middle, however fast they are."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sslm.engine.model import Model
from sslm.program.plan import Plan
from sslm.program.sequence_data import SequenceData
from sslm.runtime.guards import Turns
from tests.plan_doubles import PlanDouble

GUARD_S = 240
"""Seconds after which what a test waits for will not come any more."""


class Held(PlanDouble):
    """A plan whose slices, from one on, do not begin to compute before they may.

    Args:
        plan: What computes.
        turns: In which threads wait for the plan.
        after: How many slices come first, as ever.
        lets_pass: Whether a slice ends its waiting as soon as another thread waits for its turn.

    Attributes:
        threads: Which thread each slice belongs to, in order.
    """

    def __init__(self, plan: Plan, turns: Turns, *, after: int, lets_pass: bool) -> None:
        super().__init__(plan)
        self._turns = turns
        self._after = after
        self._lets_pass = lets_pass
        self._is_reached = threading.Event()
        self._is_released = threading.Event()
        self.threads: list[int] = []

    @property
    def count(self) -> int:
        """How many slices have begun."""
        return len(self.threads)

    def advance(
        self, sequences: Sequence[SequenceData], *, cancel: memoryview | None = None, **options: Any
    ) -> None:
        """Wait for a release or a cancellation, and advance."""
        self.threads.append(threading.get_ident())
        if self.count > self._after:
            self._is_reached.set()
            while not (self._is_released.is_set() or self._may_pass(cancel)):
                time.sleep(0.0005)
        super().advance(sequences, cancel=cancel, **options)

    def _may_pass(self, cancel: memoryview | None) -> bool:
        is_cancelled = cancel is not None and bool(cancel[0])
        return is_cancelled or (self._lets_pass and len(self._turns._queue) > 1)

    def wait(self) -> None:
        """Wait until a slice stands still."""
        assert self._is_reached.wait(GUARD_S)

    async def reached(self) -> None:
        """Wait likewise, and let other coroutines run."""
        while not self._is_reached.is_set():
            await asyncio.sleep(0.0005)

    def release(self) -> None:
        """Let this slice, and all later ones, compute."""
        self._is_released.set()


@contextmanager
def held(model: Model, *, after: int = 0, lets_pass: bool = False) -> Iterator[Held]:
    """Hold a model's slices in a block; see :class:`Held`."""
    runner = model._runner
    plan = runner._plan
    assert plan is not None
    hold = Held(plan, runner._turns, after=after, lets_pass=lets_pass)
    runner._plan = hold
    try:
        yield hold
    finally:
        hold.release()
        # What is closed stays so.
        if runner._plan is not None:
            runner._plan = plan


@contextmanager
def acting(model: Model, act: Callable[[], object], *, after: int) -> Iterator[None]:
    """Do something in the thread that computes, when so many slices of a block have ended."""
    runner = model._runner
    plan = runner._plan
    assert plan is not None
    runner._plan = _Acting(plan, act, after)
    try:
        yield
    finally:
        runner._plan = plan


class _Acting(PlanDouble):
    def __init__(self, plan: Plan, act: Callable[[], object], after: int) -> None:
        super().__init__(plan)
        self._act = act
        self._left = after

    def advance(self, sequences: Sequence[SequenceData], **options: Any) -> None:
        super().advance(sequences, **options)
        self._left -= 1
        if self._left == 0:
            self._act()
