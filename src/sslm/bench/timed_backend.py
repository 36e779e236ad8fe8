"""The native backend, with a switch that lets its plans tell where their time goes."""

from sslm.backends.native import NativeBackend, NativePlan, OpTimings
from sslm.program.program import Program
from sslm.program.tensors import Tensors


class TimedBackend(NativeBackend):
    """Keeps the plans that it compiles, to have them timed.

    Args:
        tier: A CPU tier by name, or ``auto``.
        threads: Of each plan.
    """

    def __init__(self, tier: str, threads: int) -> None:
        super().__init__(tier, threads=threads)
        self.plans: list[NativePlan] = []

    def compile(
        self,
        program: Program,
        tensors: Tensors,
        *,
        row_count_max: int,
        context_tokens: int,
        memory: object = None,
    ) -> NativePlan:
        """Bind a program to its tensors; the plan is kept in :attr:`plans`, too."""
        plan = super().compile(
            program,
            tensors,
            row_count_max=row_count_max,
            context_tokens=context_tokens,
            memory=memory,
        )
        self.plans.append(plan)
        return plan

    def time_into(self, timings: OpTimings | None) -> None:
        """Let the plans add their times to this, or to nothing."""
        for plan in self.plans:
            plan.timings = timings
