"""Log-probabilities as callers get them: exact integers, which print as decimals."""

from dataclasses import dataclass
from decimal import Decimal

from sslm.program.choice import MICRO, SCORE_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Logprob:
    """The natural logarithm of the probability that the model gives to a token.

    Of exact logits: no temperature, filter, bias or penalty changes it.

    Args:
        token_id: Of the token.
        q20: The logarithm times 2**20, at most 0.
    """

    token_id: int
    q20: int

    @property
    def decimal(self) -> Decimal:
        """The logarithm, rounded to six places, halves up."""
        return q20_decimal(self.q20)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob(Logprob):
    """The log-probability of a token of a prompt or an answer.

    Args:
        top: Those of the most likely tokens in its place, as many as were asked for, likelier
            ones first, and of equals the lowest id.
    """

    top: tuple[Logprob, ...] = ()


def q20_decimal(q20: int) -> Decimal:
    """Return a number of 20 fraction bits in decimal, rounded to six places, halves up."""
    micro = (2 * q20 * MICRO + (1 << SCORE_BITS)) >> (SCORE_BITS + 1)
    return Decimal(micro).scaleb(-6)
