"""Fair slices of work for many sequences."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from sslm import limits
from sslm.errors.base import SslmError, as_value
from sslm.errors.runtime import (
    AlreadyScheduledError,
    NotScheduledError,
    ObjectClosedError,
    OptionRangeError,
    SequenceInUseError,
)
from sslm.errors.showing import int_range
from sslm.program.program import Program, SegmentKind
from sslm.program.slice_time import SliceTime
from sslm.program.stepping import head_blocks_between
from sslm.runtime.guards import Cancellation, Turn, Turns
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import Outcome
from sslm.runtime.slices.time_slices import Part, SliceBudget


class SliceRunner(Protocol):
    """What runs slices of one model."""

    @property
    def program(self) -> Program:
        """What is run."""

    @property
    def row_count_max(self) -> int:
        """Rows of one run."""

    def advance_each(
        self,
        sequences: list[Sequence],
        *,
        budget_units: int,
        chunk_rows: int | None,
        time: SliceTime | None,
        cancellation: Cancellation | None,
    ) -> list[Outcome]:
        """Run a slice of every sequence; see :func:`sslm.runtime.slices.stepper.advance`."""


class _Entry:
    """A sequence that is scheduled, and where it stood when it was looked at last.

    Args:
        sequence: Which one.
        weight: Its share.
        get_ready: Queues what comes next if nothing is pending; tells whether anything is.
        begin_use: Keeps others out until the turn that it returns is left, if it returns any.

    Attributes:
        credit: Units that it may still run in this round.
        stage: The segment that it runs next.
        in_flight: Rows of its chunk, 0 if none is in progress.
        pending: Tokens behind those.
        scored: Rows of its chunk that get logits.
    """

    __slots__ = (
        "begin_use", "credit", "get_ready", "in_flight", "pending", "scored", "sequence", "stage",
        "weight",
    )  # fmt: skip

    def __init__(
        self,
        sequence: Sequence,
        weight: int,
        get_ready: Callable[[], bool],
        begin_use: Callable[[], Turn | None],
    ) -> None:
        self.sequence = sequence
        self.weight = weight
        self.get_ready = get_ready
        self.begin_use = begin_use
        self.credit = 0
        self.look()

    def look(self) -> bool:
        """Note where the sequence stands; tell whether it has something to compute."""
        struct = self.sequence.state.data.struct
        self.pending = struct.pending_count
        self.stage = self.in_flight = self.scored = 0
        if struct.is_in_flight:
            span = struct.span
            self.stage, self.in_flight = struct.next_segment, span.row_count
            self.scored = self.in_flight - span.first_logits_row
        elif struct.is_rescoring:
            # As if it had begun already: where it begins is within the head.
            self.stage, self.in_flight, self.scored = self.sequence.state.stage, 1, 1
        return bool(self.in_flight or self.pending)

    @property
    def is_wide(self) -> bool:
        """Whether how many rows its next run has is still open."""
        return not self.in_flight and self.pending > 1

    def rows(self, chunk_rows: int) -> int:
        """Return how many rows its next run has if a chunk that begins has at most so many."""
        most = min(self.sequence.options.chunk_tokens, chunk_rows)
        return self.in_flight or min(self.pending, most)

    def scored_rows(self, chunk_rows: int) -> int:
        """Return how many rows of that run get logits, if it goes on to the head."""
        if self.in_flight:
            return self.scored
        rows = self.rows(chunk_rows)
        return rows if self.sequence.options.has_all_logits else int(rows == self.pending)


@dataclass(slots=True)
class _Slice:
    """What to run next: *units* units of *parts* of all *members*, which stand together."""

    members: list[_Entry]
    units: int
    chunk_rows: int
    parts: list[Part]


class Scheduler:
    """Gives many sequences their turns, in rounds; one thread at a time may use it.

    In each round, a sequence that has something to compute begins chunks until it has run its
    weight times the units of one token (all layers, all blocks of the head); what it ran beyond
    that, less than a token, it lacks in the next round. So any two that have had something to
    compute all the time have run, per weight, numbers of units that differ by less than those of
    two tokens. None starves, and one that has nothing to compute gathers no claim. One that is
    alone may always run.

    Within a round the ones that are furthest behind in their chunks run first, until they stand
    where others do; from there they share each weight that is read. The chunks of a prefill leave
    room for the others' tokens, so that these can come along. With budgets of units, the order
    depends on nothing but the calls.

    Args:
        runner: Runs the sequences' model.
    """

    def __init__(self, runner: SliceRunner) -> None:
        self._runner = runner
        self._program = program = runner.program
        self._segment_stop = program.first_head_index + head_blocks_between(
            program, 0, len(program.segments)
        )
        self._quantum = max(1, self._segment_stop - 1)
        self._entries: list[_Entry] = []
        self._turns = Turns()

    @contextmanager
    def _used(self) -> Iterator[None]:
        turn = self._turns.turn_at_once()
        if turn is None:
            raise SequenceInUseError("scheduler")
        try:
            yield
        finally:
            turn.leave()

    @property
    def sequences(self) -> list[Sequence]:
        """Those that have turns, in the order in which they came."""
        return [entry.sequence for entry in self._entries]

    def add(
        self,
        sequence: Sequence,
        *,
        weight: int = 1,
        get_ready: Callable[[], bool] = lambda: False,
        begin_use: Callable[[], Turn | None] = lambda: None,
    ) -> None:
        """Give a sequence its turns from now on; it takes its place behind the others.

        Args:
            sequence: Of the runner's model.
            weight: Its share, 1 … ``limits.SCHEDULE_WEIGHT_MAX``.
            get_ready: Called when it has nothing pending: queues what comes next and returns True,
                or returns False if there is nothing, or raises an SslmError. If it closes the
                sequence, that is removed.
            begin_use: Called at the beginning of each run, which leaves the turn that it returns
                with its end, or raises an SslmError: then the sequence has none in that run.

        Raises:
            OptionRangeError: If the weight is out of range, or there are too many sequences.
            AlreadyScheduledError: If it is scheduled here.
            ObjectClosedError: If it is closed.
            SequenceInUseError: If another call uses the scheduler.
        """
        if sequence.is_closed:
            raise ObjectClosedError("sequence")
        if not 1 <= weight <= limits.SCHEDULE_WEIGHT_MAX:
            raise OptionRangeError("weight", str(weight), int_range(1, limits.SCHEDULE_WEIGHT_MAX))
        with self._used():
            if sequence in self.sequences:
                raise AlreadyScheduledError
            count, most = len(self._entries) + 1, limits.SCHEDULED_SEQUENCE_COUNT_MAX
            if count > most:
                raise OptionRangeError("the number of sequences", str(count), int_range(0, most))
            self._entries.append(_Entry(sequence, weight, get_ready, begin_use))

    def remove(self, sequence: Sequence) -> None:
        """Give a sequence no more turns; it stays as it is.

        Raises:
            NotScheduledError: If it is not scheduled here.
            SequenceInUseError: If another call uses the scheduler.
        """
        with self._used():
            if sequence not in self.sequences:
                raise NotScheduledError
            self._entries = [entry for entry in self._entries if entry.sequence is not sequence]

    def run(self, budget: SliceBudget, cancellation: Cancellation | None = None) -> list[Outcome]:
        """Run until the budget is spent, or nothing is left to compute.

        Returns:
            An outcome for each sequence that failed, with its error. It stands as it stood, has no
            further turn in this call and keeps its place for the next one, unless it was closed:
            then it is removed.

        Raises:
            SequenceInUseError: If another call uses the scheduler.
            SslmError: What stops all of them, such as a model that was closed.
        """
        with self._used(), self._members_used() as failed:
            self._run_slices(budget, failed, cancellation)
            outcomes = [Outcome(one, error=failed[one]) for one in self.sequences if one in failed]
            # One that was closed only now is told of by the next call.
            gone = [one for one in failed if one.is_closed]
            self._entries = [entry for entry in self._entries if entry.sequence not in gone]
        budget.end()
        return outcomes

    def _run_slices(
        self,
        budget: SliceBudget,
        failed: dict[Sequence, SslmError],
        cancellation: Cancellation | None,
    ) -> None:
        """Run slices of those that have not failed; add those that do."""
        # Asked once more behind the last slice, so that nobody's news have to wait, but for want of
        # time.
        while not budget.is_over and (waiting := self._waiting(failed)) and not budget.is_spent:
            chosen = self._choose(waiting, budget)
            if chosen is None:
                return
            outcomes = self._advance(chosen, budget, failed, cancellation)
            if len(waiting) > 1:
                for entry, outcome in zip(chosen.members, outcomes, strict=True):
                    entry.credit -= outcome.units

    @contextmanager
    def _members_used(self) -> Iterator[dict[Sequence, SslmError]]:
        """Keep others out of all sequences; give those that others use, or that are refused."""
        failed: dict[Sequence, SslmError] = {}
        turns: list[Turn] = []
        try:
            for entry in list(self._entries):
                try:
                    turn = entry.begin_use()
                except SslmError as error:
                    failed[entry.sequence] = as_value(error)
                else:
                    if turn is not None:
                        turns.append(turn)
            yield failed
        finally:
            for turn in turns:
                turn.leave()

    def _waiting(self, failed: dict[Sequence, SslmError]) -> list[_Entry]:
        """Return the entries that have something to compute."""
        waiting = []
        for entry in list(self._entries):
            if entry.sequence in failed:
                continue
            try:
                if entry.sequence.is_closed:
                    raise ObjectClosedError("sequence")
                if entry.look() or (entry.get_ready() and entry.look()):
                    waiting.append(entry)
                elif entry.sequence.is_closed:
                    # By whoever was asked, as there will be nothing more to compute.
                    self._entries.remove(entry)
            except SslmError as error:
                failed[entry.sequence] = as_value(error)
        return waiting

    def _advance(
        self,
        chosen: _Slice,
        budget: SliceBudget,
        failed: dict[Sequence, SslmError],
        cancellation: Cancellation | None,
    ) -> list[Outcome]:
        time = budget.slice_time(chosen.parts)
        outcomes = self._runner.advance_each(
            [entry.sequence for entry in chosen.members],
            budget_units=chosen.units,
            chunk_rows=chosen.chunk_rows,
            time=time,
            cancellation=cancellation,
        )
        for outcome in outcomes:
            if outcome.error is not None:
                failed[outcome.sequence] = outcome.error
        budget.spend(chosen.parts, [outcome.units for outcome in outcomes], time)
        return outcomes

    def _choose(self, waiting: list[_Entry], budget: SliceBudget) -> _Slice | None:
        """Return what runs next, or None if nothing fits any more."""
        runnable = sorted(self._with_credit(waiting), key=_stage)
        for stage, group in groupby(runnable, key=_stage):
            members, chunk_rows = self._members(stage, list(group), budget)
            parts = self._parts(stage, members, chunk_rows, runnable)
            units = budget.fitting(parts)
            if units:
                return _Slice(members, units, chunk_rows, parts)
        return None

    def _with_credit(self, waiting: list[_Entry]) -> list[_Entry]:
        """Return the entries that may run in this round, or begin the next one."""
        if len(waiting) == 1:
            return waiting
        runnable = [entry for entry in waiting if entry.credit > 0 or entry.stage > 0]
        if runnable:
            return runnable
        for entry in self._entries:
            if entry in waiting:
                entry.credit += entry.weight * self._quantum
            else:
                entry.credit = 0
        return waiting

    def _members(
        self, stage: int, group: list[_Entry], budget: SliceBudget
    ) -> tuple[list[_Entry], int]:
        """Return which of the entries at one segment run together, and most rows of a new chunk."""
        most = self._runner.row_count_max
        # Within the head few rows of a chunk are computed at all.
        fitting = budget.chunk_rows(most) if stage < self._program.first_head_index else most
        narrow = _together([entry for entry in group if not entry.is_wide], most, fitting)
        rows = sum(entry.rows(most) for entry in narrow)
        if rows > fitting // 2:
            return narrow, most
        # A row for each other sequence, as they may all stand where this chunk will stand.
        room = max(most - len(self._entries) + 1, most // 2)
        chunk_rows = max(1, min(room, fitting - rows))
        wide = [entry for entry in group if entry.is_wide]
        return _together([*narrow, *wide], chunk_rows, fitting), chunk_rows

    def _parts(
        self, stage: int, members: list[_Entry], chunk_rows: int, runnable: list[_Entry]
    ) -> list[Part]:
        """Return what the members can run together, up to where others can come along."""
        start = max(stage, 1)
        first_head = self._program.first_head_index
        rows = sum(entry.rows(chunk_rows) for entry in members)
        scored = [entry.scored_rows(chunk_rows) for entry in members]
        end = self._segment_stop if min(scored) else first_head
        for entry in runnable:
            is_ahead = start < entry.stage < end
            if is_ahead and rows + entry.in_flight <= self._runner.row_count_max:
                end = entry.stage
        layers = max(0, min(end, first_head) - start)
        blocks = max(0, end - max(start, first_head))
        parts = [Part(SegmentKind.LAYER, rows, layers), Part(SegmentKind.HEAD, sum(scored), blocks)]
        # A chunk of a program without layers, none of whose rows are scored, is one unit too.
        return [part for part in parts if part.units] or [Part(SegmentKind.LAYER, rows, 1)]


def _stage(entry: _Entry) -> int:
    return entry.stage


def _together(entries: list[_Entry], chunk_rows: int, rows: int) -> list[_Entry]:
    """Return the first of the entries, and those of the others whose rows fit beside it."""
    members: list[_Entry] = []
    for entry in entries:
        needed = entry.rows(chunk_rows)
        if not members or needed <= rows:
            members.append(entry)
            rows -= needed
    return members
