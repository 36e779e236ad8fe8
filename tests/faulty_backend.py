"""A backend that computes with other weights than the model's, as a broken machine might."""

from collections.abc import Mapping
from dataclasses import replace

from sslm.engine.runner import open_backend
from sslm.memory import anonymous_memory
from sslm.program.plan import Plan
from sslm.program.program import Program
from sslm.program.tensors import Tensor


class FaultyBackend:
    """The native backend, wrong wherever one tensor is used.

    Args:
        tensor: Its name. All of its bytes change their sign.
    """

    def __init__(self, tensor: str) -> None:
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
        """Compile with the changed tensor."""
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
