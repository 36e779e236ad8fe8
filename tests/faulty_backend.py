"""Backends that compute otherwise than they should, as a broken machine might."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sslm.memory import anonymous_memory
from sslm.opening.runner import open_backend
from sslm.program.plan import Plan
from sslm.program.program import Program
from sslm.program.sequence_data import SequenceData
from sslm.program.tensors import Tensor
from tests.plan_doubles import PlanDouble


class FaultyBackend:
    """The native backend, wrong wherever one tensor is used.

    Args:
        tensor: Its name. All of its bytes change their sign. None changes what is chosen instead.
        chosen: What is chosen then; None for the neighbour of the right one.
    """

    def __init__(self, tensor: str | None, *, chosen: int | None = None) -> None:
        self._chosen = chosen
        self._tensor = tensor
        self._sound = open_backend("native", tier="auto", threads=1)
        self.name, self.tier = self._sound.name, self._sound.tier

    def scratch_size_bytes(
        self,
        program: Program,
        tensors: Mapping[str, Tensor],
        *,
        row_count_max: int,
        context_tokens: int,
    ) -> int:
        """Return what the sound one takes."""
        return self._sound.scratch_size_bytes(
            program, tensors, row_count_max=row_count_max, context_tokens=context_tokens
        )

    def compile(
        self,
        program: Program,
        tensors: Mapping[str, Tensor],
        *,
        row_count_max: int,
        context_tokens: int,
        memory: object = None,
    ) -> Plan:
        """Compile with the changed tensor, or let another token be chosen than the sound one."""
        if self._tensor is None:
            plan = self._sound.compile(
                program, tensors, row_count_max=row_count_max, context_tokens=context_tokens
            )
            return _Liar(plan, self._chosen)
        sound = tensors[self._tensor]
        data = anonymous_memory(sound.data.nbytes)
        data[:] = bytes(-byte & 0xFF for byte in sound.data)
        return self._sound.compile(
            program,
            {**tensors, self._tensor: replace(sound, data=data)},
            row_count_max=row_count_max,
            context_tokens=context_tokens,
            memory=memory,
        )


class _Liar(PlanDouble):
    """A plan that says of each token that another one was chosen."""

    def __init__(self, plan: Plan, chosen: int | None) -> None:
        super().__init__(plan)
        self._chosen = chosen

    def advance(self, sequences: Sequence[SequenceData], **options: Any) -> None:
        """Advance, and change what was chosen."""
        super().advance(sequences, **options)
        for data in sequences:
            if data.struct.selected >= 0:
                right = data.struct.selected
                data.struct.selected = right ^ 1 if self._chosen is None else self._chosen
