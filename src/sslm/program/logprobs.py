"""Log-probabilities of a row of logits, in integers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProbs:
    """Natural logarithms of probabilities, with ``SCORE_BITS`` fraction bits; none is above 0.

    Args:
        values: Those that were asked for; None of an id that has no logit.
        top: The likeliest ids with theirs, equal ones by id.
    """

    values: tuple[int | None, ...]
    top: tuple[tuple[int, int], ...]
