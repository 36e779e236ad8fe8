"""A plan around another one, for doubles that change one thing of it."""

from collections.abc import Sequence

from sslm.program.plan import LogProbs, Plan
from sslm.program.program import Program
from sslm.program.sequence_data import SequenceData
from sslm.program.slice_time import SliceTime
from sslm.program.spans import Span


class PlanDouble:
    """A plan that does everything as another one does; subclasses do something else.

    Args:
        plan: The other one.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @property
    def program(self) -> Program:
        return self._plan.program

    @property
    def scratch_size_bytes(self) -> int:
        return self._plan.scratch_size_bytes

    def run(
        self, first: int, last: int, spans: Sequence[Span], *, cancel: memoryview | None = None
    ) -> None:
        self._plan.run(first, last, spans, cancel=cancel)

    def advance(
        self,
        sequences: Sequence[SequenceData],
        *,
        budget_units: int,
        row_count_max: int,
        time: SliceTime | None = None,
        cancel: memoryview | None = None,
    ) -> None:
        self._plan.advance(
            sequences,
            budget_units=budget_units,
            row_count_max=row_count_max,
            time=time,
            cancel=cancel,
        )

    def logprobs(
        self, logits: memoryview, exponent: int, token_ids: Sequence[int], *, top_count: int = 0
    ) -> LogProbs:
        return self._plan.logprobs(logits, exponent, token_ids, top_count=top_count)

    def close(self) -> None:
        self._plan.close()
