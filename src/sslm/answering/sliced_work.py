"""What is computed slice by slice, whenever its owner says so."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar, NoReturn

from sslm import limits
from sslm.arguments import checked_int
from sslm.closing import Closing
from sslm.errors.runtime import (
    NestedCallError,
    NotCopyableError,
    ObjectClosedError,
    PoolInUseError,
    SequenceInterruptedError,
    SequenceInUseError,
)
from sslm.memory import touch
from sslm.opening.runner import Runner
from sslm.opening.shared_pool import SharedPool
from sslm.runtime.guards import Turn, Turns
from sslm.runtime.sequences.kv_pool import KvPool, page_count_for
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.scheduler import Scheduler
from sslm.runtime.slices.stepper import finished
from sslm.runtime.slices.time_slices import SliceBudget


class SlicedWork(Closing):
    """Something of a model that advances slice by slice; a context manager.

    One thread at a time may use it, and is otherwise refused with SequenceInUseError; only
    :meth:`close` may come at any time.

    Args:
        runner: Of the model.
        options: Of its sequence.
        pool: Whose pages it takes, or None for pages of its own.

    Raises:
        MemoryBudgetError: If its buffers, and pages of its own, do not fit ``memory_bytes``.
        KvPoolExhaustedError: If the pool has too few pages; nothing was taken.
        ObjectClosedError: If the pool is closed.
    """

    _KIND: ClassVar[str]
    _INSTEAD: ClassVar[str]
    """What to do with one that cannot be copied."""
    _MEND: ClassVar[str]
    """What to do with one that was torn."""

    def __init__(self, runner: Runner, options: SequenceOptions, pool: SharedPool | None) -> None:
        self.runner = runner
        pages_size, buffers_size = runner.sequence_sizes_bytes(options)
        self._turns = Turns()
        # False while more than one thing changes: whoever is torn off there leaves it so.
        self._is_intact = True
        self._lease = runner.admit("a sequence", buffers_size + (0 if pool else pages_size))
        try:
            pages = pool.pages if pool else _own_pages(runner, options)
            self._own_pages = None if pool else pages
            self.sequence = Sequence(runner.program, pages, runner.model_id, options)
            """What is run: for schedulers, and not to be told anything by others."""
        except BaseException:
            # The error's traceback would hold it.
            self._lease.end()
            raise
        try:
            # Now, so that no slice has to wait until the system finds room for it.
            touch(self.sequence.memory.residual)
            touch(self.sequence.state.data.logits)
        except BaseException:
            # Likewise, and its pages.
            SlicedWork.close(self)
            raise

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether nothing is left to compute."""

    @abstractmethod
    def get_ready(self) -> bool:
        """Queue what comes next if nothing is pending; return whether anything is.

        For whoever has begun to use it: a refusal leaves it as it was.
        """

    def advance(self, *, layers: int | None = None, max_ms: float | None = None) -> None:
        """Compute a slice; without effect once it is done.

        Args:
            layers: Most units of work: layers of a chunk of the prompt or of a token, or blocks of
                the head, at least 1.
            max_ms: Milliseconds from now, 0 or more, into which further units must fit as far as
                is known. The first unit is computed in any case, so that every call gets on.

        Raises:
            BudgetMissingError: If neither is given.
            OptionRangeError: If one is out of range.
            SequenceInUseError: If another call uses it.
            SequenceReleasedError: If it was closed meanwhile.
            ObjectClosedError: If it, or the model, was closed before.
        """
        budget = slice_budget(self.runner, layers, max_ms)
        with self._used():
            if self.done:
                return
            # Of the moment, as one that is kept would have to be told from who keeps it.
            alone = Scheduler(self.runner)
            alone.add(self.sequence, get_ready=self.get_ready)
            finished(alone.run(budget))

    def close(self) -> None:
        """Give its memory back; any thread may call this, and again."""
        self.sequence.close()
        if self._own_pages is not None:
            # Where another call still uses them, they go with the last one who has them.
            with suppress(PoolInUseError, NestedCallError):
                self._own_pages.close()
        self._lease.end()

    @contextmanager
    def _used(self, *, is_mended: bool = False) -> Iterator[None]:
        """Keep other calls out; *is_mended* if this one does not mind what one left torn."""
        turn = self.begin_use(is_mended=is_mended)
        try:
            yield
        finally:
            turn.leave()

    def begin_use(self, *, is_mended: bool = False) -> Turn:
        """Keep other calls out until the turn is left: for schedulers, during all of a run.

        Args:
            is_mended: Whether this call does not mind what one left torn.

        Raises:
            SequenceInUseError: If another call uses it.
            SequenceInterruptedError: If an interrupt has torn it.
            ObjectClosedError: If it is closed.
            ForkedProcessError: If another process opened the model.
        """
        # Before the turn, which a fork may have copied while another thread had it.
        self.runner.require_owner()
        turn = self._turns.turn_at_once()
        if turn is None:
            raise SequenceInUseError(self._KIND)
        try:
            self._require_open()
            if not (self._is_intact or is_mended):
                raise SequenceInterruptedError(self._KIND, self._MEND)
        except BaseException:
            turn.leave()
            raise
        return turn

    def _require_open(self) -> None:
        if self.sequence.is_closed:
            raise ObjectClosedError(self._KIND)

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError(self._KIND, self._INSTEAD)


def slice_budget(runner: Runner, layers: int | None, max_ms: float | None) -> SliceBudget:
    """Return what a call may do that was given these options.

    Raises:
        BudgetMissingError, OptionRangeError: As for :meth:`SlicedWork.advance`.
    """
    if layers is not None:
        layers = checked_int("layers", layers, lowest=1, highest=limits.SLICE_UNITS_MAX)
    return SliceBudget(runner.costs, units=layers, max_ms=max_ms)


def _own_pages(runner: Runner, options: SequenceOptions) -> KvPool:
    return KvPool(runner.program.state_layout, page_count_for(options.context_tokens))
