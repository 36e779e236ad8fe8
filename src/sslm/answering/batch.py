"""Several answers in the making, which advance together: weights are read once for all of them."""

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Final

from sslm.answering.cutoff import Cutoff
from sslm.answering.generation import log_answer, milliseconds
from sslm.answering.live_prefix import LivePrefix
from sslm.answering.live_sequence import LiveSequence
from sslm.answering.request import Request, RequestMaker
from sslm.answering.results import Completion
from sslm.errors.base import SslmError, StateError, as_value
from sslm.errors.native import RunCancelledError
from sslm.errors.runtime import KvPoolExhaustedError, MemoryBudgetError, MemoryRefusedError
from sslm.opening.runner import Runner
from sslm.runtime.slices.stepper import Outcome

DEFAULT_BATCH_SIZE: Final = 8

_NO_ROOM: Final = (MemoryBudgetError, MemoryRefusedError, KvPoolExhaustedError)
"""What a row waits for until another one is done."""

Result = Completion | SslmError
"""What comes of a row: its answer, or why there is none."""


@dataclass(slots=True)
class _Row:
    """A row in the making, and when it began and had its first token."""

    index: int
    live: LiveSequence
    started_ns: int
    first_ns: int = 0


class Batch:
    """Answers requests together, as many at a time as have a place, and gives them in their order.

    No answer depends on which rows are computed beside it. A row that is done gives its place to
    the next one at once. One whose memory is not admitted beside the others waits until one of them
    is done; one that is not admitted alone has that error. Each run is a turn among those of other
    threads, and has about as many tokens as one of theirs.

    Args:
        runner: Of the model.
        maker: Of the model.
        rows: Requests, and errors that stand in the place of one; taken as places come free.
        batch_size: Most rows that are computed at one time, at least 1.
        window: Most rows from the first one whose result was not given to the last one that has
            begun, at least 1: as many results wait for their turn at most.
        cutoff: What may end all of them early.
        on_done: Told after each row how many are done, or None.
        prefix: What the prompts of all rows go on from, in its pool, or None.
    """

    def __init__(
        self,
        runner: Runner,
        maker: RequestMaker,
        rows: Iterator[Request | SslmError],
        *,
        batch_size: int,
        window: int,
        cutoff: Cutoff,
        on_done: Callable[[int], None] | None = None,
        prefix: LivePrefix | None = None,
    ) -> None:
        self._runner = runner
        self._maker = maker
        self._rows = rows
        self._batch_size = batch_size
        self._window = window
        self._cutoff = cutoff
        self._on_done = on_done
        self._prefix = prefix
        self._active: dict[int, _Row] = {}
        self._results: dict[int, Result] = {}
        self._waiting: Request | None = None
        self._may_have_room = True
        self._is_exhausted = False
        self._begun_count = self._done_count = self._given_count = 0

    def results(self) -> Generator[Result, None, None]:
        """Compute, and give the results in the order of the rows; to be iterated once.

        Leaving it early drops what is in the making. Once a deadline has passed, all rows that are
        not done have DeadlineExceededError.

        Raises:
            RunCancelledError: If the cutoff was cancelled.
            StateError: If the model was closed, or another process opened it.
            BaseException: What *rows* or *on_done* raises.
        """
        try:
            yield from self._timely()
            # Now only of what a deadline has cut off.
            while (row := self._next_row()) is not None:
                late = row if isinstance(row, SslmError) else self._cutoff.exceeded()
                self._end(self._begin_count(), late)
                yield from self._given()
        finally:
            for active in self._active.values():
                active.live.close()

    def _timely(self) -> Generator[Result, None, None]:
        try:
            self._cutoff.begin()
            with self._cutoff.watched():
                while self._active or not self._is_exhausted:
                    self._fill()
                    yield from self._given()
                    if self._active:
                        self._step()
        except RunCancelledError:
            if self._cutoff.is_cancelled:
                raise
            for row in list(self._active.values()):
                self._end(row.index, self._late(row.live))
        yield from self._given()

    # Beginning and ending.

    def _fill(self) -> None:
        """Begin rows until there is no place, no room, or no row."""
        while (
            len(self._active) < self._batch_size
            and self._begun_count - self._given_count < self._window
            and self._may_have_room
        ):
            row = self._next_row()
            if row is None:
                return
            if isinstance(row, SslmError):
                self._end(self._begin_count(), row)
            else:
                self._begin(row)

    def _next_row(self) -> Request | SslmError | None:
        row = self._waiting or next(self._rows, None)
        self._waiting = None
        self._is_exhausted = row is None
        return row

    def _begin_count(self) -> int:
        """Return the index of a row that begins."""
        self._begun_count += 1
        return self._begun_count - 1

    def _begin(self, request: Request) -> None:
        """Begin a row, or let it wait for the memory of another one."""
        started_ns = time.perf_counter_ns()
        try:
            pool = self._prefix.pool if self._prefix else None
            live = LiveSequence(self._runner, self._maker, request, prefix=self._prefix, pool=pool)
        except StateError:
            # A model that is gone is no row's fault.
            raise
        except SslmError as error:
            if self._active and isinstance(error, _NO_ROOM):
                self._waiting, self._may_have_room = request, False
            else:
                self._end(self._begin_count(), as_value(error))
            return
        try:
            index = self._begun_count
            self._active[index] = _Row(index, live, started_ns)
        except BaseException:
            # The error's traceback would hold it.
            live.close()
            raise
        self._begin_count()

    def _end(self, index: int, result: Result) -> None:
        """Note what has come of a row, and give its memory back."""
        row = self._active.pop(index, None)
        if row is not None:
            row.live.close()
        self._results[index] = result
        self._may_have_room = True
        self._done_count += 1
        if self._on_done is not None:
            self._on_done(self._done_count)

    def _given(self) -> Generator[Result, None, None]:
        """Give the results whose turn it is."""
        while self._given_count in self._results:
            result = self._results.pop(self._given_count)
            self._given_count += 1
            yield result

    # Computing.

    def _step(self) -> None:
        """Run the next chunk of those that run together now."""
        members, chunk_rows = self._members()
        self._cutoff.require_time()
        outcomes = self._runner.advance_each(
            [row.live.sequence for row in members],
            chunk_rows=chunk_rows,
            cancellation=self._cutoff.cancellation,
        )
        for row, outcome in zip(members, outcomes, strict=True):
            self._take(row, outcome)
        if any(isinstance(outcome.error, RunCancelledError) for outcome in outcomes):
            raise RunCancelledError

    def _members(self) -> tuple[list[_Row], int]:
        """Return which rows run now, and most tokens of a prompt's chunk.

        All that choose tokens do, and as many tokens of prompts come along as there is room for.
        """
        most = self._runner.row_count_max
        pending = {row.index: row.live.sequence.pending_count for row in self._active.values()}
        members = [row for row in self._active.values() if pending[row.index] == 1]
        chunk_rows = left = max(most - len(members), most // 2)
        for row in self._active.values():
            needed = min(pending[row.index], chunk_rows)
            if pending[row.index] > 1 and needed <= left:
                members.append(row)
                left -= needed
        return members, chunk_rows

    def _take(self, row: _Row, outcome: Outcome) -> None:
        """Take what a run has come to for one row."""
        if outcome.error is not None:
            if not isinstance(outcome.error, RunCancelledError):
                self._end(row.index, as_value(outcome.error))
            return
        is_prompt = row.live.sequence.pending_count > 0
        try:
            goes_on = row.live.get_ready()
        except SslmError as error:
            self._end(row.index, as_value(error))
            return
        if not (row.first_ns or is_prompt):
            row.first_ns = time.perf_counter_ns()
        if not goes_on:
            self._end(row.index, self._answer(row))

    def _answer(self, row: _Row) -> Completion:
        ended_ns = time.perf_counter_ns()
        completion = row.live.result()
        usage = replace(
            completion.usage,
            computed_tokens=row.live.sequence.position - completion.usage.cached_tokens,
            prefill_ms=milliseconds(row.first_ns - row.started_ns),
            decode_ms=milliseconds(ended_ns - row.first_ns),
            total_ms=milliseconds(ended_ns - row.started_ns),
        )
        log_answer(completion, total_ns=ended_ns - row.started_ns)
        return replace(completion, usage=usage)

    def _late(self, live: LiveSequence) -> SslmError:
        token_ids = tuple(live.token_ids)
        prompt_tokens = min(live.sequence.position, len(live.prompt_token_ids))
        return self._cutoff.exceeded(
            prompt_tokens=prompt_tokens, token_ids=token_ids, text=live.text
        )
