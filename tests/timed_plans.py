"""A clock that only runs when a plan does, and what runs slices on such a plan."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sslm.backends.reference.backend import ReferencePlan
from sslm.program.program import Program, SegmentKind
from sslm.program.sequence_data import SequenceData
from sslm.program.slice_time import SliceTime
from sslm.program.spans import Span
from sslm.program.stepping import advance_by_runs
from sslm.runtime.guards import Cancellation
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence as TokenSequence
from sslm.runtime.slices.stepper import Outcome, advance
from sslm.runtime.slices.unit_costs import UnitCosts
from tests.plan_doubles import PlanDouble
from tests.tiny_models import MODEL_ID
from tests.toy_programs import ToyModel

US = 1000
MS = 1000 * US

Cost = Callable[[SegmentKind, int], int]
"""Nanoseconds of a segment over so many rows."""


def flat(kind: SegmentKind, rows: int) -> int:
    """Return a cost that depends on nothing: a layer or head block takes 100 µs."""
    return 100 * US if kind in {SegmentKind.LAYER, SegmentKind.HEAD} else 0


@dataclass
class ToyClock:
    """Nanoseconds that pass only where somebody adds them."""

    ns: int = 0

    def __call__(self) -> int:
        return self.ns


class TimedPlan(PlanDouble):
    """Runs a program, or pretends to, while its clock runs; notes each run.

    Args:
        model: What is run.
        clock: Its clock.
        cost: What a segment takes.
        is_computed: Whether anything is computed; if not, token 0 is always chosen.
    """

    def __init__(
        self, model: ToyModel, clock: ToyClock, *, cost: Cost = flat, is_computed: bool = False
    ) -> None:
        super().__init__(ReferencePlan(model.program, model.tensors))
        self.clock = clock
        self.cost = cost
        self.runs: list[tuple[int, int, list[int]]] = []
        self._is_computed = is_computed

    def run(
        self, first: int, last: int, spans: Sequence[Span], *, cancel: memoryview | None = None
    ) -> None:
        """Run, and let the time pass that it takes."""
        for index in range(first, last):
            self._let_pass(index, spans)
        self._compute(first, last, spans, cancel)

    def _let_pass(self, index: int, spans: Sequence[Span]) -> None:
        scored = sum(span.row_count - span.first_logits_row for span in spans)
        rows = sum(span.row_count for span in spans)
        kind = self.program.segments[index].kind
        self.clock.ns += self.cost(kind, scored if kind is SegmentKind.HEAD else rows)

    def _compute(
        self, first: int, last: int, spans: Sequence[Span], cancel: memoryview | None
    ) -> None:
        self.runs.append((first, last, [span.row_count for span in spans]))
        if self._is_computed:
            super().run(first, last, spans, cancel=cancel)

    def advance(
        self,
        sequences: Sequence[SequenceData],
        *,
        budget_units: int,
        row_count_max: int,
        time: SliceTime | None = None,
        cancel: memoryview | None = None,
    ) -> None:
        """Run a slice of every sequence's next chunk, while there is time by the clock."""

        def compute(first: int, last: int, spans: Sequence[Span]) -> tuple[int, Callable[[], None]]:
            reached = first
            indices = time.segments(self.program, first, last) if time else range(first, last)
            for index in indices:
                self._let_pass(index, spans)
                reached = index + 1
            if reached > first:
                self._compute(first, reached, spans, cancel)
            return reached, lambda: None

        advance_by_runs(
            self.program,
            compute,
            sequences,
            budget_units=budget_units,
            row_count_max=row_count_max,
        )


@dataclass
class PlanRunner:
    """Runs slices on a plan."""

    plan: TimedPlan
    row_count_max: int = 64
    calls: list[tuple[int, int]] = field(default_factory=list)
    """How many sequences and units each call had."""

    def __post_init__(self) -> None:
        self.costs = UnitCosts(self.plan.clock, self.plan.clock)

    @property
    def program(self) -> Program:
        """What is run."""
        return self.plan.program

    def advance_each(
        self,
        sequences: list[TokenSequence],
        *,
        budget_units: int,
        chunk_rows: int | None,
        time: SliceTime | None,
        cancellation: Cancellation | None,
    ) -> list[Outcome]:
        """Run a slice of every sequence."""
        self.calls.append((len(sequences), budget_units))
        return advance(
            self.plan,
            sequences,
            budget_units=budget_units,
            row_count_max=self.row_count_max,
            chunk_rows=chunk_rows,
            time=time,
            cancellation=cancellation,
        )


class Speaker:
    """Continues a prompt by so many tokens, as whoever owns a sequence has to."""

    def __init__(
        self,
        program: Program,
        prompt: Sequence[int],
        *,
        max_tokens: int,
        pool: KvPool | None = None,
        chunk_tokens: int = 64,
    ) -> None:
        context_tokens = len(prompt) + max_tokens
        options = SequenceOptions(context_tokens=context_tokens, chunk_tokens=chunk_tokens)
        pool = pool or KvPool(program.state_layout, -(-context_tokens // 64))
        self.sequence = TokenSequence(program, pool, MODEL_ID, options)
        self.sequence.push(prompt)
        self.answer: list[int] = []
        self.max_tokens = max_tokens

    def get_ready(self) -> bool:
        """Take the token that was chosen, and go on behind it unless it is the last."""
        selected = self.sequence.selected
        if len(self.answer) == self.max_tokens or selected is None:
            return False
        self.answer.append(selected)
        if len(self.answer) == self.max_tokens:
            return False
        self.sequence.decode()
        return True

    @property
    def units(self) -> int:
        """Layers that were run so far."""
        return int(self.sequence.state.data.struct.layers_run)

    @property
    def digest(self) -> str:
        """What the answer comes to."""
        return self.sequence.answer_digest(self.answer).hex()
