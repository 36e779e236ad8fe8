"""What rows that are computed together have to come to."""

from collections.abc import Iterable
from typing import Any

from sslm.answering.results import Completion
from sslm.engine.model import Model
from sslm.sampling.seeds import row_seed


def lone(
    model: Model,
    prompts: list[Any],
    *,
    seed: int = 0,
    row_ids: Iterable[str] | None = None,
    **options: Any,
) -> list[Completion]:
    """Answer prompts one by one, with the seeds that their rows have."""
    names = map(str, range(len(prompts))) if row_ids is None else row_ids
    return [
        model.generate(prompt, seed=row_seed(seed, name), **options)
        for prompt, name in zip(prompts, names, strict=True)
    ]
