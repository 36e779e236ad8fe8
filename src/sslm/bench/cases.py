"""What is measured: so many tokens of a prompt or of answers, for how many sequences at once."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from sslm.errors.commands import BenchContextError

Kind = Literal["prompt", "generation"]

LENGTHS: Final = ("prompts", "generations", "depths")
"""Arguments of :func:`all_cases` that count tokens of a context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing to measure.

    Args:
        kind: Whether the tokens are given, or chosen one after the other.
        tokens: Of each sequence, at least 1.
        batch: Sequences that go through the same runs, at least 1.
        depth: Tokens that each sequence holds before, whose time does not count.
        threads: How many compute.
    """

    kind: Kind
    tokens: int
    batch: int = 1
    depth: int = 0
    threads: int = 1

    @property
    def name(self) -> str:
        """As llama-bench writes it: ``pp512``, ``tg128 b4``, ``tg128 @ d2000``."""
        name = f"{'pp' if self.kind == 'prompt' else 'tg'}{self.tokens}"
        if self.batch > 1:
            name += f" b{self.batch}"
        return f"{name} @ d{self.depth}" if self.depth else name

    @property
    def context_tokens(self) -> int:
        """Positions that each sequence needs."""
        return self.depth + self.tokens


def all_cases(
    *,
    prompts: Sequence[int],
    generations: Sequence[int],
    batches: Sequence[int],
    depths: Sequence[int],
    threads: Sequence[int],
) -> tuple[Case, ...]:
    """Return what to measure: around the first batch and the first depth, not every combination.

    Prompts have one sequence, at the first depth. Generations have every batch at the first depth,
    and every depth with the first batch. Zeros among *prompts* and *generations* mean none.
    """
    found: list[Case] = []
    shapes = [(batch, depths[0]) for batch in batches]
    shapes += [(batches[0], depth) for depth in depths[1:]]
    for count in threads:
        found += (
            Case(kind="prompt", tokens=tokens, depth=depths[0], threads=count)
            for tokens in prompts
            if tokens
        )
        found += (
            Case(kind="generation", tokens=tokens, batch=batch, depth=depth, threads=count)
            for tokens in generations
            if tokens
            for batch, depth in shapes
        )
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedCases:
    """Cases that fit a context.

    Args:
        cases: What to measure, at least one.
        changes: What was asked for and did not fit, with what takes its place, or None where that
            is among the cases already.
    """

    cases: tuple[Case, ...]
    changes: dict[Case, Case | None]


def fit_cases(
    cases: Sequence[Case], limit_tokens: int, *, fixed: Collection[str] = LENGTHS
) -> FittedCases:
    """Shorten the cases that exceed a context, where nobody insists on their lengths.

    A depth gives way before the number of tokens, and no more of either than must.

    Args:
        cases: At least one.
        limit_tokens: Positions of the model, at least 1.
        fixed: Those of :data:`LENGTHS` that stay as they are.

    Raises:
        BenchContextError: If fixed lengths alone exceed the context.
    """
    fitting = {case for case in cases if case.context_tokens <= limit_tokens}
    kept: dict[Case, None] = {}
    changes: dict[Case, Case | None] = {}
    for case in cases:
        fitted = case
        if case not in fitting:
            fitted = _fitted(case, limit_tokens, fixed)
            changes[case] = None if fitted in fitting or fitted in kept else fitted
        kept[fitted] = None
    return FittedCases(cases=tuple(kept), changes=changes)


def _fitted(case: Case, limit_tokens: int, fixed: Collection[str]) -> Case:
    option = "prompts" if case.kind == "prompt" else "generations"
    least_tokens = case.tokens if option in fixed else 1
    least_depth = case.depth if "depths" in fixed else 0
    if least_tokens + least_depth > limit_tokens:
        largest_depth = limit_tokens - least_tokens
        is_depth = least_depth > 0 and largest_depth >= 0
        if is_depth:
            option = "depths"
        raise BenchContextError(
            option,
            case.depth if is_depth else case.tokens,
            largest_depth if is_depth else limit_tokens - least_depth,
            replace(case, tokens=least_tokens, depth=least_depth).name,
            least_tokens + least_depth,
            limit_tokens,
        )
    tokens = max(least_tokens, min(case.tokens, limit_tokens - least_depth))
    return replace(case, tokens=tokens, depth=min(case.depth, limit_tokens - tokens))
