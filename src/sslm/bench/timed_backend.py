"""The native backend, with a switch that lets its plans tell where their time goes."""

from collections.abc import Sequence

from sslm.backends.native import NativeBackend, NativePlan, OpTimings
from sslm.program.plan import Span
from sslm.program.program import Program
from sslm.program.tensors import Tensors


class TimedPlan:
    """A native plan whose runs are timed by kind of op while :attr:`timings` is set.

    Args:
        plan: Becomes this one's own.
    """

    def __init__(self, plan: NativePlan) -> None:
        self._plan = plan
        self.timings: OpTimings | None = None

    @property
    def program(self) -> Program:
        """The program that was compiled."""
        return self._plan.program

    @property
    def scratch_size_bytes(self) -> int:
        """Memory that the plan holds for itself, weights not included."""
        return self._plan.scratch_size_bytes

    def run(
        self,
        first: int,
        last: int,
        spans: Sequence[Span],
        *,
        cancel: memoryview | None = None,
    ) -> None:
        """Run as :meth:`sslm.backends.native.NativePlan.run` does."""
        self._plan.run(first, last, spans, cancel=cancel, timings=self.timings)

    def close(self) -> None:
        """Release what the plan holds."""
        self._plan.close()


class TimedBackend:
    """Compiles timed plans; otherwise as :class:`sslm.backends.native.NativeBackend`.

    Args:
        tier: A CPU tier by name, or ``auto``.
        threads: Of each plan.
    """

    def __init__(self, tier: str, threads: int) -> None:
        self._backend = NativeBackend(tier, threads=threads)
        self.plans: list[TimedPlan] = []

    @property
    def name(self) -> str:
        """``native``."""
        return self._backend.name

    @property
    def tier(self) -> str:
        """The CPU tier in use."""
        return self._backend.tier

    def scratch_size_bytes(
        self, program: Program, tensors: Tensors, *, row_count_max: int, context_tokens: int
    ) -> int:
        """Return what the plan would hold for itself."""
        return self._backend.scratch_size_bytes(
            program, tensors, row_count_max=row_count_max, context_tokens=context_tokens
        )

    def compile(
        self, program: Program, tensors: Tensors, *, row_count_max: int, context_tokens: int
    ) -> TimedPlan:
        """Bind a program to its tensors; the plan is kept in :attr:`plans`, too."""
        plan = TimedPlan(
            self._backend.compile(
                program, tensors, row_count_max=row_count_max, context_tokens=context_tokens
            )
        )
        self.plans.append(plan)
        return plan

    def time_into(self, timings: OpTimings | None) -> None:
        """Let the plans add their times to this, or to nothing."""
        for plan in self.plans:
            plan.timings = timings
