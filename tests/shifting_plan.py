"""A plan that chooses by what is told to it, and by what is before the position."""

from collections.abc import Callable, Sequence

from sslm.backends.reference.backend import ReferencePlan
from sslm.program.choice import Decoder
from sslm.program.plan import Span
from sslm.program.sequence_data import SCORE_REFUSED, SequenceData
from sslm.program.slice_time import SliceTime
from sslm.program.stepping import advance_by_runs

REFUSED_SEED = 404


class ShiftingPlan:
    """Shifts the largest logit's id by the choice's seed and the length of the answer."""

    def __init__(self, plan: ReferencePlan) -> None:
        self._plan = plan
        self.program = plan.program
        self.runs: list[tuple[int, int]] = []

    def advance(
        self,
        sequences: Sequence[SequenceData],
        *,
        budget_units: int,
        row_count_max: int,
        time: SliceTime | None = None,
        cancel: memoryview | None = None,
    ) -> None:
        del time

        def run(first: int, last: int, spans: Sequence[Span]) -> tuple[int, Callable[[], None]]:
            self.runs.append((first, last))
            self._plan.run(first, last, spans, cancel=cancel)
            if last == len(self.program.segments):
                for span in spans:
                    _shift(span, self.program.vocab_size)
            return last, lambda: None

        advance_by_runs(
            self.program, run, sequences, budget_units=budget_units, row_count_max=row_count_max
        )


def _shift(span: Span, vocab_size: int) -> None:
    choice = span.choice
    if choice is None or span.selected is None:
        return
    selected = span.selected.cast("i")
    for row in range(span.row_count - span.first_logits_row):
        position = span.first_position + span.first_logits_row + row
        shift = choice.choice.seed
        if choice.choice.decoder is Decoder.DAMPED:
            shift += sum(choice.token_ids[choice.answer_start : position + 1])
        is_refused = choice.choice.seed == REFUSED_SEED
        selected[row] = SCORE_REFUSED if is_refused else (selected[row] + shift) % vocab_size
