"""Running the select segment over given logits, with a choice."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sslm.program import ops
from sslm.program.buffers import Buffer, BufferKind
from sslm.program.choice import Choice
from sslm.program.choice_data import ChoiceData, scratch_size_bytes
from sslm.program.plan import Backend, Plan
from sslm.program.program import Program
from sslm.program.spans import Span
from tests.backends.single_op import Memory, OneLayer, int32_buffer

ROWS_MAX = 300
CONTEXT_TOKENS = 1 << 14


@dataclass
class Chooser:
    """Logits of a span's rows, and how the token after each is chosen.

    Args:
        logits: int64 [rows, vocab_size].
        exponents: int32 [rows].
        token_ids: Those of all positions, the rows' own at the end.
    """

    logits: np.ndarray
    exponents: Sequence[int] | np.ndarray
    choice: Choice | None
    token_ids: list[int] = field(default_factory=lambda: [0])
    answer_start: int = 0

    def __post_init__(self) -> None:
        rows, vocab_size = self.logits.shape
        self._exponents = np.array(self.exponents, dtype=np.int32)
        self._ids = array("i", self.token_ids)
        # What lies there from the run before must not matter, but for the bits.
        self.scratch = bytearray(scratch_size_bytes(vocab_size))
        self.scratch[: 4 * vocab_size] = b"\xa5" * (4 * vocab_size)
        self.memory = Memory(program(vocab_size), positions=1, rows=rows)
        self.memory.logits[:] = self.logits
        self.memory.selected[:] = -7

    def span(self) -> Span:
        rows, vocab_size = self.logits.shape
        first = len(self._ids) - rows
        span = self.memory.span(self._ids[first:].tolist(), first_position=first)
        span.trace = None
        span.logit_exponents = self._exponents.data
        if self.choice is not None:
            span.choice = ChoiceData(
                self.choice,
                answer_start=self.answer_start,
                token_ids=memoryview(self._ids),
                scratch=memoryview(self.scratch),
                vocab_size=vocab_size,
            )
        return span

    def outcome(self) -> list[int]:
        """Return what was chosen, and see that nothing else was left behind."""
        assert self.memory.logits.tolist() == self.logits.tolist()
        assert not any(self.scratch[4 * self.logits.shape[1] :])
        return self.memory.selected.tolist()


def program(vocab_size: int) -> Program:
    return _layer(vocab_size).program()


def compile_choosing(backend: Backend, vocab_size: int) -> Plan:
    one = _layer(vocab_size)
    return backend.compile(
        one.program(), one.store.tensors, row_count_max=ROWS_MAX, context_tokens=CONTEXT_TOKENS
    )


def select(plan: Plan, choosers: list[Chooser], cancel: memoryview | None = None) -> None:
    last = len(plan.program.segments)
    plan.run(last - 1, last, [chooser.span() for chooser in choosers], cancel=cancel)


def chosen(backend: Backend, choosers: list[Chooser]) -> list[list[int]]:
    """Run some choices side by side; return what each row chose."""
    plan = compile_choosing(backend, choosers[0].logits.shape[1])
    select(plan, choosers)
    plan.close()
    return [chooser.outcome() for chooser in choosers]


def _layer(vocab_size: int) -> OneLayer:
    one = OneLayer(
        int32_buffer("residual", 1), vocab_size=vocab_size, position_count=CONTEXT_TOKENS
    )
    logits = Buffer(name="logits", kind=BufferKind.LOGITS, width=vocab_size)
    out = Buffer(name="selected", kind=BufferKind.TOKENS, width=1)
    one.select.append(ops.Choose(logits=logits, out=out))
    return one
