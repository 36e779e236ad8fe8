"""Runs of plans as the definition of a step takes them."""

from collections.abc import Callable, Sequence

from sslm.program.spans import Span
from sslm.program.stepping import Compute


def at_once(run: Callable[[int, int, Sequence[Span]], None]) -> Compute:
    """Compute and hand over in one call."""

    def compute(first: int, last: int, spans: Sequence[Span]) -> tuple[int, Callable[[], None]]:
        run(first, last, spans)
        return last, lambda: None

    return compute
