"""Fair turns for what is computed slice by slice."""

from dataclasses import dataclass
from typing import NoReturn
from weakref import WeakValueDictionary

from sslm import limits
from sslm.answering.live_prefix import LivePrefix
from sslm.answering.live_sequence import LiveSequence
from sslm.answering.sliced_work import slice_budget
from sslm.arguments import checked_int
from sslm.errors.base import SslmError
from sslm.errors.runtime import NotCopyableError, OptionRangeError
from sslm.errors.showing import briefly
from sslm.opening.runner import Runner
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.scheduler import Scheduler

Scheduled = LiveSequence | LivePrefix
"""What may have turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFailure:
    """Why one of a scheduler's had no turn, or no further one.

    Args:
        item: Which one; it stands as it stood before.
        error: Why.
    """

    item: Scheduled
    error: SslmError


class LiveScheduler:
    """Gives sequences and prefixes of one model fair turns within a budget.

    Made by ``model.scheduler``. Of those that are not done, each gets tokens by its weight, and
    those that stand at the same place share the reading of weights, so that several take little
    longer than one. No answer depends on it. One thread at a time may use it.

    Args:
        runner: Of the model.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._scheduler = Scheduler(runner)
        # Weakly, as whoever has turns is held by the scheduler below, and nobody else should be.
        self._items: WeakValueDictionary[Sequence, Scheduled] = WeakValueDictionary()

    @property
    def items(self) -> list[Scheduled]:
        """Those that have turns, in the order in which they came.

        Raises:
            ForkedProcessError: If another process opened the model.
        """
        self._runner.require_owner()
        items = [self._items.get(sequence) for sequence in self._scheduler.sequences]
        # One that another thread has just removed and dropped has no turns any more.
        return [item for item in items if item is not None]

    def add(self, item: Scheduled, *, weight: int = 1) -> None:
        """Give one its turns from now on, until it is removed or closed.

        A sequence that is done keeps its place, and has turns again once it is reset. A prefix has
        none any more when it is done.

        Args:
            item: A sequence or prefix of the model.
            weight: Its share, 1 … 64: with 2 it gets two tokens where one with 1 gets one.

        Raises:
            OptionRangeError: If it is nothing of the kind, or the weight is out of range.
            AlreadyScheduledError: If it has turns here already.
            ObjectClosedError: If it is closed, or a prefix that is done.
            SequenceInUseError: If another call uses the scheduler.
            ForkedProcessError: If another process opened the model.
        """
        self._runner.require_owner()
        highest = limits.SCHEDULE_WEIGHT_MAX
        weight = checked_int("weight", weight, lowest=1, highest=highest)
        self._require_own(item)
        # First, as nobody looks for one that was refused.
        self._items[item.sequence] = item
        self._scheduler.add(
            item.sequence, weight=weight, get_ready=item.get_ready, begin_use=item.begin_use
        )

    def remove(self, item: Scheduled) -> None:
        """Give one no more turns; it stays as it is.

        Raises:
            OptionRangeError: If it is nothing that could have any.
            NotScheduledError: If it has none here.
            SequenceInUseError: If another call uses the scheduler.
            ForkedProcessError: If another process opened the model.
        """
        self._runner.require_owner()
        self._require_own(item)
        self._scheduler.remove(item.sequence)

    def run(self, *, layers: int | None = None, max_ms: float | None = None) -> list[SliceFailure]:
        """Compute a slice of those that are not done.

        Until it returns, all that have turns are in use, those that are done too.

        Args:
            layers: Most units of work, as for ``LiveSequence.advance``; what several share counts
                once.
            max_ms: As for ``LiveSequence.advance``.

        Returns:
            One failure for each that could not go on. The others went on. It is asked again in the
            next call, unless it was closed.

        Raises:
            BudgetMissingError, OptionRangeError: As ``LiveSequence.advance``.
            SequenceInUseError: If another call uses the scheduler.
            ObjectClosedError: If the model was closed.
            ForkedProcessError: If another process opened the model.
        """
        self._runner.require_owner()
        budget = slice_budget(self._runner, layers, max_ms)
        # Held until the failures are told, as one that was closed loses its place.
        items = {item.sequence: item for item in self.items}
        failures = []
        for outcome in self._scheduler.run(budget):
            # Another thread may have added it just before.
            item = items.get(outcome.sequence) or self._items.get(outcome.sequence)
            if item is not None and outcome.error is not None:
                failures.append(SliceFailure(item=item, error=outcome.error))
        return failures

    def _require_own(self, item: Scheduled) -> None:
        if not isinstance(item, (LiveSequence, LivePrefix)) or item.runner is not self._runner:
            raise OptionRangeError("item", briefly(item), "a sequence or prefix of this model")

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("scheduler", "make one for the model that is opened elsewhere")
