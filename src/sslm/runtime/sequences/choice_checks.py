"""What must be true of a choice before kernels, which check nothing, choose by it."""

from collections.abc import Iterator
from typing import NamedTuple

from sslm import limits
from sslm.errors.showing import int_range
from sslm.program.choice import MICRO, Choice, Decoder


class ChoiceFault(NamedTuple):
    """A number of a choice that cannot be.

    Args:
        option: Its name.
        found: What it is.
        expected: In words.
    """

    option: str
    found: str
    expected: str


def choice_fault(
    choice: Choice, *, answer_start: int, vocab_size: int, context_tokens: int
) -> ChoiceFault | None:
    """Return the first number of a choice that is out of its range, or None.

    Args:
        choice: What to look at.
        answer_start: Where the answer begins, 0 … *context_tokens*.
        vocab_size: Ids are below it.
        context_tokens: Positions are below it.
    """
    micro = limits.CHOICE_MICRO_MAX
    highest = {
        "repetition": micro,
        "presence": micro,
        "frequency": micro,
        "temperature": micro,
        "top_k": vocab_size,
        "top_p": MICRO,
        "min_p": MICRO,
        "seed": limits.SEED_MAX,
        "damping": limits.DAMPING_MAX,
        "damping_order": limits.DAMPING_ORDER_MAX,
    }
    lowest = {
        "repetition": 1,
        "presence": -micro,
        "frequency": -micro,
        "temperature": 1,
        "top_k": int(choice.decoder is Decoder.DAMPED),
        "top_p": 1,
        "damping_order": 1,
    }
    numbers = [
        (name, getattr(choice, name), lowest.get(name, 0), highest[name]) for name in highest
    ]
    numbers.append(("answer_start", answer_start, 0, context_tokens))
    for name, found, least, most in (*numbers, *_bias_numbers(choice, vocab_size)):
        if not least <= found <= most:
            return ChoiceFault(name, str(found), int_range(least, most))
    return None


def _bias_numbers(choice: Choice, vocab_size: int) -> Iterator[tuple[str, int, int, int]]:
    most = limits.CHOICE_MICRO_MAX
    yield "the number of biased ids", len(choice.bias), 0, limits.LOGIT_BIAS_COUNT_MAX
    least = 0
    for token_id, micro in choice.bias:
        yield "a biased id", token_id, least, vocab_size - 1
        yield "a bias", micro, -most, most
        least = token_id + 1
