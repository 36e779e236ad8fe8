"""The models whose saves are spoiled: one with keys and values, one with fixed states."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.toy_programs import moving_average_model
from tests.unit.artifact.tiny_artifact import read

from fuzz.small_models import small_artifact
from sslm.opening.runner import build_program, open_backend
from sslm.program.plan import Plan
from sslm.program.program import Program
from sslm.program.tensors import Tensor
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence

CONTEXT_TOKENS: Final = 16
OPTIONS: Final = SequenceOptions(context_tokens=CONTEXT_TOKENS, reserved_tokens=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedModel:
    """A program, its tensors, and the name that saves of it bear."""

    model_id: bytes
    program: Program
    tensors: Mapping[str, Tensor]

    def plan(self, backend: str) -> Plan:
        """Compile it."""
        return open_backend(backend, tier="auto", threads=1).compile(
            self.program, self.tensors, row_count_max=64, context_tokens=CONTEXT_TOKENS
        )

    def pool(self) -> KvPool:
        """Return a pool that holds one sequence."""
        return KvPool(self.program.state_layout, 1)

    def sequence(self) -> Sequence:
        """Return a fresh sequence in a pool of its own."""
        return Sequence(self.program, self.pool(), self.model_id, OPTIONS)


@cache
def saved_models() -> tuple[SavedModel, ...]:
    """Return both models."""
    artifact, toy = read(small_artifact()), moving_average_model()
    return (
        SavedModel(
            model_id=b"small artifact".ljust(32, b"."),
            program=build_program(artifact),
            tensors=artifact.tensors,
        ),
        SavedModel(
            model_id=b"moving average".ljust(32, b"."), program=toy.program, tensors=toy.tensors
        ),
    )
