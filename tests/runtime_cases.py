"""What tests of the runtime compare: all that can be seen, and what a lone run answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import pytest

from sslm.errors.base import SslmError
from sslm.memory import address_of
from sslm.program.plan import Plan
from sslm.program.program import Program
from sslm.program.tensors import Tensor
from sslm.runtime.saves.saving import save
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.sequence import Sequence, SequenceStats
from sslm.runtime.slices.stepper import advance, finished
from tests import sequences
from tests.tiny_models import ALL_UNITS

E = TypeVar("E", bound=SslmError)
Answer = tuple[Any, ...]

CANARY = 0xA5
"""What bytes hold that nobody should write."""


@dataclass(frozen=True)
class Case:
    """A model on a backend, beside the same model on the reference.

    Args:
        plan: What is tested.
        reference: What is right.
        tensors: The model's.
    """

    plan: Plan
    reference: Plan
    tensors: dict[str, Tensor]
    _alone: dict[tuple[Any, ...], Answer] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        """The model's."""
        return self.plan.program

    @property
    def largest_id(self) -> int:
        """The last id of the vocabulary."""
        return self.program.vocab_size - 1

    def pool(self, page_count: int = 12) -> KvPool:
        """Return a pool for sequences of 200 tokens, which take at most 4 pages."""
        return sequences.new_pool(self.plan, page_count)

    def sequence(self, pool: KvPool | None = None, **options: Any) -> Sequence:
        """Return a sequence of 200 tokens that takes pages as it needs them, or other options."""
        return sequences.new_sequence(self.plan, pool or self.pool(), **options)

    def filled(self, ids: list[int], pool: KvPool | None = None, **options: Any) -> Sequence:
        """Return a sequence that has computed *ids*."""
        sequence = self.sequence(pool, **options)
        sequence.push(ids)
        self.run(sequence)
        return sequence

    def step(self, sequence: Sequence, units: int = 1) -> None:
        """Advance by one slice."""
        sequences.step(self.plan, sequence, units)

    def run(self, sequence: Sequence) -> None:
        """Compute everything that is pending."""
        sequences.run(self.plan, sequence)

    def run_together(self, waiting: list[Sequence]) -> None:
        """Compute everything that is pending of several, in one batch after the other."""
        while waiting := [one for one in waiting if one.has_work]:
            finished(advance(self.plan, waiting, budget_units=ALL_UNITS, row_count_max=256))

    def alone(self, ids: list[int], token_count: int) -> Answer:
        """Return what a lone sequence on the reference answers to *ids*, in one piece."""
        key = (*ids, token_count)
        if key not in self._alone:
            with sequences.new_sequence(self.reference, self.pool()) as lone:
                lone.push(ids)
                self._alone[key] = _answer(self.reference, lone, token_count)
        return self._alone[key]

    def require_as_alone(self, sequence: Sequence, ids: list[int], more: int = 2) -> None:
        """Let a sequence whose tokens are *ids* answer, and compare it with a lone run's."""
        count = len(ids) + more
        assert _answer(self.plan, sequence, count) == self.alone(ids, count)


def _answer(plan: Plan, sequence: Sequence, token_count: int) -> Answer:
    tokens, selected, digest, _ = sequences.end(plan, sequence, token_count)
    # A copy: the sequence may go on.
    return list(tokens), selected, digest, sequence.saturations


class Seen(NamedTuple):
    """All that can be seen of a sequence and of its pool."""

    saved: bytes
    stats: SequenceStats
    pages: list[int]
    page_table: bytes
    chunk: tuple[int, int] | None
    free_page_count: int


def seen(sequence: Sequence) -> Seen:
    """Return what a refusal must leave as it was."""
    pool = sequence.state.hold.pool
    chunk = sequence.chunk
    return Seen(
        save(sequence),
        sequence.stats(),
        list(sequence.state.hold.pages),
        bytes(sequence.memory.pages),
        None if chunk is None else (chunk.next_segment, chunk.stop_segment),
        pool.free_page_count,
    )


@contextmanager
def refused(kind: type[E], *bystanders: Sequence) -> Iterator[pytest.ExceptionInfo[E]]:
    """Expect a refusal that leaves everything of some sequences and their pools as it was."""
    before = [seen(sequence) for sequence in bystanders]
    with pytest.raises(kind) as caught:
        yield caught
    assert [seen(sequence) for sequence in bystanders] == before


def marked_memory(size_bytes: int) -> tuple[memoryview, memoryview]:
    """Return aligned memory, and the larger block of marked bytes in which it lies."""
    block = memoryview(bytearray([CANARY]) * (size_bytes + 256))
    start = -address_of(block) % 64 + 64
    return block[start : start + size_bytes], block


def is_marked_around(block: memoryview, memory: memoryview) -> bool:
    """Tell whether nothing outside of the memory was written."""
    start = address_of(memory) - address_of(block)
    outside = bytes(block[:start]) + bytes(block[start + memory.nbytes :])
    return outside.count(CANARY) == len(outside)
