"""What is measured: so many tokens of a prompt or of answers, for how many sequences at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["prompt", "generation"]


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
