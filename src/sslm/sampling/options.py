"""The options of choosing a token, and what they come to in integers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypedDict

from sslm import limits
from sslm.arguments import checked_int
from sslm.errors.choosing import ChoiceConflictError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import briefly
from sslm.program.choice import DAMPING_BITS, MICRO, Choice, Decoder
from sslm.sampling.decimals import DecimalLike, DecimalRange, decimal_of, parts_of
from sslm.sampling.seeds import DEFAULT_SEED

DEFAULT_DAMPING_ORDER: Final = 2
DEFAULT_DAMPING_TOP_K: Final = 6

_TEMPERATURE: Final = DecimalRange(
    lowest=MICRO // 100,
    highest=100 * MICRO,
    has_zero=True,
    expected="0 (greedy) or a decimal from 0.01 to 100",
)
_TOP_P: Final = DecimalRange(
    lowest=1, highest=MICRO, expected="a decimal from 0.000001 to 1 (keeps all)"
)
_MIN_P: Final = DecimalRange(lowest=0, highest=MICRO, expected="a decimal from 0 (keeps all) to 1")
_REPETITION: Final = DecimalRange(
    lowest=MICRO // 100, highest=100 * MICRO, expected="a decimal from 0.01 to 100 (1 is off)"
)
_PENALTY: Final = DecimalRange(
    lowest=-2 * MICRO, highest=2 * MICRO, expected="a decimal from -2 to 2 (0 is off)"
)
_BIAS: Final = DecimalRange(
    lowest=-100 * MICRO, highest=100 * MICRO, expected="a decimal from -100 to 100 for each id"
)
_DAMPING: Final = DecimalRange(
    lowest=0,
    highest=(32 << DAMPING_BITS) - 1,
    parts=1 << DAMPING_BITS,
    expected="a decimal from 0 to less than 32, or None (off)",
)


class ChoosingOptions(TypedDict, total=False):
    """How the tokens of an answer are chosen; None is the default of each.

    Decimals are integers, floats (which stand for their shortest decimal), texts or Decimals, and
    are rounded to millionths, halves up. docs/choosing.md says what each does, and in what order.

    Attributes:
        temperature: 0 is greedy, the default; 0.01 … 100 samples.
        top_k: Sample among the so many most likely; 0, the default, for all.
        top_p: Sample among the most likely that have this probability together; by default 1.
        min_p: Sample among those with this part of the highest probability; by default 0.
        seed: Of the draws, 0 … 2**64 - 1; by default 0.
        repetition_penalty: Makes what prompt or answer have less likely, 0.01 … 100; 1 is off.
        presence_penalty: Subtracted from the logits of what the answer has, -2 … 2; 0 is off.
        frequency_penalty: Subtracted each time that the answer has it, -2 … 2; 0 is off.
        logit_bias: Added to the logits of token ids, -100 … 100 each; at most 1,024 ids.
        damping: Damped greedy, with its alpha: 0 … less than 32, in steps of 2**-15; None is off.
        damping_order: Its longest n-gram, 1 … 16; by default 2.
        damping_top_k: Among how many it chooses, 1 … the vocabulary's size; by default 6, or all
            of a smaller vocabulary.
    """

    temperature: DecimalLike | None
    top_k: int | None
    top_p: DecimalLike | None
    min_p: DecimalLike | None
    seed: int | None
    repetition_penalty: DecimalLike | None
    presence_penalty: DecimalLike | None
    frequency_penalty: DecimalLike | None
    logit_bias: Mapping[int, DecimalLike] | None
    damping: DecimalLike | None
    damping_order: int | None
    damping_top_k: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededChoice:
    """How an answer's tokens are chosen, with the seed that was asked for.

    Args:
        choice: Without what its decoder does not look at, so that equal ones choose alike.
        seed: Of the request, also where nothing is drawn.
    """

    choice: Choice
    seed: int

    def with_seed(self, seed: int) -> "SeededChoice":
        """Return the same with another seed, 0 … ``limits.SEED_MAX``."""
        is_drawn = self.choice.decoder is Decoder.SAMPLING
        choice = replace(self.choice, seed=seed) if is_drawn else self.choice
        return SeededChoice(choice=choice, seed=seed)


PLAIN: Final = SeededChoice(choice=Choice(), seed=DEFAULT_SEED)
"""What comes of no options."""


def seeded_choice(options: ChoosingOptions, vocab_size: int) -> SeededChoice:
    """Return what options come to.

    Options that the decoder does not look at are checked too: filters without a temperature, as
    elsewhere, have no effect.

    Args:
        options: As callers give them.
        vocab_size: Token ids are below it.

    Raises:
        OptionRangeError: If one is of another type or out of its range.
        ChoiceConflictError: If two contradict each other.
    """
    temperature = _parts(options, "temperature", 0, _TEMPERATURE)
    top_k = _whole(options, "top_k", 0, lowest=0, highest=limits.CHOICE_TOP_K_MAX)
    top_p = _parts(options, "top_p", MICRO, _TOP_P)
    min_p = _parts(options, "min_p", 0, _MIN_P)
    seed = _whole(options, "seed", DEFAULT_SEED, lowest=0, highest=limits.SEED_MAX)
    scored = Choice(
        bias=_bias(options.get("logit_bias"), vocab_size),
        repetition=_parts(options, "repetition_penalty", MICRO, _REPETITION),
        presence=_parts(options, "presence_penalty", 0, _PENALTY),
        frequency=_parts(options, "frequency_penalty", 0, _PENALTY),
    )
    choice = _damped(scored, options, temperature, vocab_size)
    if temperature:
        choice = replace(
            choice,
            decoder=Decoder.SAMPLING,
            temperature=temperature,
            # What keeps everything is written in one way.
            top_k=top_k if top_k < vocab_size else 0,
            top_p=top_p,
            min_p=min_p,
        )
    return SeededChoice(choice=choice, seed=seed).with_seed(seed)


def options_of(choice: Choice) -> ChoosingOptions:
    """Return the options that differ from their defaults, as they were rounded.

    Given to a call, they come to the same choice; decimals are exact.
    """
    found: ChoosingOptions = {}
    if choice.decoder is Decoder.SAMPLING:
        found["temperature"] = decimal_of(choice.temperature)
        if choice.top_k:
            found["top_k"] = choice.top_k
        if choice.top_p != MICRO:
            found["top_p"] = decimal_of(choice.top_p)
        if choice.min_p:
            found["min_p"] = decimal_of(choice.min_p)
        found["seed"] = choice.seed
    if choice.repetition != MICRO:
        found["repetition_penalty"] = decimal_of(choice.repetition)
    if choice.presence:
        found["presence_penalty"] = decimal_of(choice.presence)
    if choice.frequency:
        found["frequency_penalty"] = decimal_of(choice.frequency)
    if choice.bias:
        found["logit_bias"] = {token_id: decimal_of(micro) for token_id, micro in choice.bias}
    if choice.decoder is Decoder.DAMPED:
        found["damping"] = decimal_of(choice.damping, 1 << DAMPING_BITS)
        found["damping_order"] = choice.damping_order
        found["damping_top_k"] = choice.top_k
    return found


def _damped(scored: Choice, options: ChoosingOptions, temperature: int, vocab_size: int) -> Choice:
    """Return the choice with damping, if that is asked for."""
    order = _whole(
        options, "damping_order", DEFAULT_DAMPING_ORDER, lowest=1, highest=limits.DAMPING_ORDER_MAX
    )
    top_k = _whole(
        options,
        "damping_top_k",
        min(DEFAULT_DAMPING_TOP_K, vocab_size),
        lowest=1,
        highest=vocab_size,
    )
    damping = options.get("damping")
    if damping is None:
        for name in ("damping_order", "damping_top_k"):
            if options.get(name) is not None:
                raise ChoiceConflictError(name, "without damping", "give damping, too")
        return scored
    alpha = parts_of("damping", damping, _DAMPING)
    if temperature:
        advice = "damped greedy draws nothing: leave one of the two out"
        raise ChoiceConflictError("damping", "with a temperature above 0", advice)
    return replace(
        scored,
        decoder=Decoder.DAMPED,
        damping=alpha,
        damping_order=order,
        top_k=top_k,
    )


def _parts(options: ChoosingOptions, name: str, default: int, allowed: DecimalRange) -> int:
    value = options.get(name)
    return default if value is None else parts_of(name, value, allowed)


def _whole(options: ChoosingOptions, name: str, default: int, *, lowest: int, highest: int) -> int:
    value = options.get(name)
    return default if value is None else checked_int(name, value, lowest=lowest, highest=highest)


def _bias(value: object, vocab_size: int) -> tuple[tuple[int, int], ...]:
    """Return biases by ascending id; one of 0 is none, so that it has no effect at all."""
    if value is None:
        return ()
    most = limits.LOGIT_BIAS_COUNT_MAX
    if not isinstance(value, Mapping):
        raise OptionRangeError("logit_bias", briefly(value), "a mapping of token ids to decimals")
    items = list(islice(value.items(), most + 1))
    if len(items) > most:
        raise OptionRangeError("logit_bias", f"more than {most} ids", f"at most {most}")
    biases: dict[int, int] = {}
    for token_id, decimal in items:
        checked = checked_int("logit_bias", token_id, lowest=0, highest=vocab_size - 1)
        biases[checked] = parts_of("logit_bias", decimal, _BIAS)
    return tuple((token_id, micro) for token_id, micro in sorted(biases.items()) if micro)
