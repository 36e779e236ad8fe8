"""How a token is chosen, in integers: what a caller decided, and the numbers that kernels use."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

MICRO: Final = 1_000_000
"""Options are whole millionths, so that a decimal of six places is kept as it is written."""

SCORE_BITS: Final = 20
"""Fraction bits of a score: a logit, after bias and penalties, as an int32."""

DAMPING_BITS: Final = 15
"""Fraction bits of damped greedy's weight and of its shares."""

_LOG2_E_BITS: Final = 96
_LOG2_E: Final = 114302077158074026402637675937
"""round(2**96 * log2(e))."""


class Decoder(IntEnum):
    """What chooses among the scores; the numbers are those of sslm_native.h."""

    GREEDY = 0
    SAMPLING = 1
    DAMPED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A factor ``mantissa * 2**-shift``.

    Args:
        mantissa: In 2**30 … 2**31 - 1.
        shift: Of the product, at least 1.
    """

    mantissa: int
    shift: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How the token after a position is chosen; docs/arithmetic.md, section 5, says what each does.

    An object is taken as valid: ``sampling`` checks what callers give. Numbers named in millionths
    are ``MICRO`` times the option.

    Args:
        decoder: Which one. Greedy without bias and penalties compares exact logits, not scores.
        bias: (token id, millionths), ids ascending, each once: added to its logit.
        repetition: Millionths, above 0; ``MICRO`` is off. Divides positive scores, and multiplies
            others, of ids that the prompt or the answer has.
        presence: Millionths that ids of the answer lose.
        frequency: Millionths that ids of the answer lose each time that they are in it.
        temperature: Millionths, above 0. Sampling alone.
        top_k: Ids that are kept; 0 keeps all. Sampling; and damped greedy, where it is at least 1.
        top_p: Millionths above 0 of the probability that is kept; ``MICRO`` keeps all.
        min_p: Millionths of the largest probability that an id needs; 0 keeps all.
        seed: Of the generator, 0 … 2**64 - 1.
        damping: alpha of damped greedy, with ``DAMPING_BITS`` fraction bits, 0 … 2**20 - 1.
        damping_order: Its longest n-gram, at least 1.
    """

    decoder: Decoder = Decoder.GREEDY
    bias: tuple[tuple[int, int], ...] = ()
    repetition: int = MICRO
    presence: int = 0
    frequency: int = 0
    temperature: int = MICRO
    top_k: int = 0
    top_p: int = MICRO
    min_p: int = 0
    seed: int = 0
    damping: int = 0
    damping_order: int = 1

    @property
    def is_plain(self) -> bool:
        """Whether exact logits decide alone: greedy, and nothing that changes a score."""
        return self.decoder is Decoder.GREEDY and not (
            self.bias or self.repetition != MICRO or self.presence or self.frequency
        )

    @property
    def has_history(self) -> bool:
        """Whether tokens before the position count, and not only its logits."""
        is_damped = self.decoder is Decoder.DAMPED
        return is_damped or self.repetition != MICRO or bool(self.presence or self.frequency)

    @property
    def counts_answer(self) -> bool:
        """Whether it matters where the answer begins."""
        return self.decoder is Decoder.DAMPED or bool(self.presence or self.frequency)

    def deciding(self) -> "Choice":
        """Return the choice without what does not decide here: all of that at its default.

        Two of which these are equal choose the same, where the answer begins at the same position
        or that does not count.
        """
        is_sampling = self.decoder is Decoder.SAMPLING
        is_damped = self.decoder is Decoder.DAMPED
        return Choice(
            decoder=self.decoder,
            bias=self.bias,
            repetition=self.repetition,
            presence=self.presence,
            frequency=self.frequency,
            temperature=self.temperature if is_sampling else MICRO,
            top_k=self.top_k if is_sampling or is_damped else 0,
            top_p=self.top_p if is_sampling else MICRO,
            min_p=self.min_p if is_sampling else 0,
            seed=self.seed if is_sampling else 0,
            damping=self.damping if is_damped else 0,
            damping_order=self.damping_order if is_damped else 1,
        )

    def exponent_scale(self) -> Scale:
        """Return the factor from a difference of scores to one of base-2 exponents.

        ``log2(e) / temperature``; the product has 24 fraction bits.
        """
        temperature = self.temperature if self.decoder is Decoder.SAMPLING else MICRO
        numerator = _LOG2_E * MICRO
        # The quotient is below 2**31 and at least 2**30 after so many bits are taken from it.
        excess = (numerator // temperature).bit_length() - 31
        divisor = temperature << excess
        mantissa = (2 * numerator + divisor) // (2 * divisor)
        if mantissa >> 31:
            mantissa, excess = mantissa >> 1, excess + 1
        return Scale(mantissa=mantissa, shift=_LOG2_E_BITS - excess + SCORE_BITS - 24)


def score_of(micro: int) -> int:
    """Return millionths as a score, rounded to the nearest, halves up."""
    return (2 * (micro << SCORE_BITS) + MICRO) // (2 * MICRO)
