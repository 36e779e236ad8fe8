"""The backend that compiles programs for the C kernels."""

from sslm.backends.native.lowering import Lowering
from sslm.backends.native.plan import NativePlan, plan_size_bytes
from sslm.errors.program import OpShapeError, TierUnavailableError
from sslm.limits import CONTEXT_TOKENS_MAX, THREAD_COUNT_MAX
from sslm.native_library import available_tiers, best_tier, is_available, load_library
from sslm.program.parallel_for import ParallelFor
from sslm.program.program import Program, require_arithmetic
from sslm.program.tensors import Tensors


class NativeBackend:
    """Runs programs with C kernels.

    Args:
        tier: A name of :data:`sslm.native_library.TIERS`, or ``auto`` for the fastest.
        threads: Threads of each plan, the caller's included; with 1 none is started.
        parallel_for: What shares the work instead of threads of the plan, or None.

    Raises:
        TierUnavailableError: If the tier is unknown, or this machine cannot run it.
        OpShapeError: If the number of threads is out of range, or not 1 beside a hook.
    """

    def __init__(
        self, tier: str = "auto", threads: int = 1, parallel_for: ParallelFor | None = None
    ) -> None:
        self._library = load_library()
        if tier != "auto" and not is_available(tier):
            raise TierUnavailableError(tier, "on this machine", ", ".join(available_tiers()))
        if not 1 <= threads <= THREAD_COUNT_MAX:
            raise OpShapeError("NativeBackend", "threads", str(threads), f"1 to {THREAD_COUNT_MAX}")
        if parallel_for is not None and threads > 1:
            raise OpShapeError("NativeBackend", "threads", str(threads), "1 beside a hook")
        self._tier = best_tier() if tier == "auto" else tier
        self._threads = threads
        self._parallel_for = parallel_for

    @property
    def name(self) -> str:
        """``native``."""
        return "native"

    @property
    def tier(self) -> str:
        """The CPU tier in use."""
        return self._tier

    def scratch_size_bytes(
        self, program: Program, tensors: Tensors, *, row_count_max: int, context_tokens: int
    ) -> int:
        """Return the size of the plan that :meth:`compile` would make."""
        lowering = self._lower(program, tensors, row_count_max, context_tokens)
        return plan_size_bytes(self._library, lowering)

    def compile(
        self,
        program: Program,
        tensors: Tensors,
        *,
        row_count_max: int,
        context_tokens: int,
        memory: object = None,
    ) -> NativePlan:
        """Bind a program to its tensors; see :meth:`sslm.program.plan.Backend.compile`.

        Raises:
            PlanMemoryError: If there is no memory for the plan, and none was lent.
            ThreadStartError: If the system does not start its threads.
        """
        lowering = self._lower(program, tensors, row_count_max, context_tokens)
        return NativePlan(self._library, program, lowering, self._parallel_for, memory)

    def _lower(
        self, program: Program, tensors: Tensors, row_count_max: int, context_tokens: int
    ) -> Lowering:
        require_arithmetic(program)
        longest = min(program.max_position_embeddings, CONTEXT_TOKENS_MAX)
        if not 1 <= context_tokens <= longest:
            raise OpShapeError("compile", "context_tokens", str(context_tokens), f"1 to {longest}")
        if row_count_max < 1:
            raise OpShapeError("compile", "row_count_max", str(row_count_max), "at least 1")
        lowering = Lowering(self._library, program, tensors)
        lowering.bind(
            tier=self._tier,
            threads=self._threads,
            row_count_max=row_count_max,
            context_tokens=context_tokens,
            task_count_max=self._parallel_for.max_tasks if self._parallel_for else 0,
        )
        return lowering
