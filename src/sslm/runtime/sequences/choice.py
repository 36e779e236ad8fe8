"""How sequences are told to choose tokens, checked before kernels that check nothing."""

from collections.abc import Iterator
from typing import NamedTuple

from sslm import limits
from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import int_range
from sslm.program.choice import MICRO, Choice, Decoder
from sslm.program.sequence_data import NOT_SCORED, SequenceStruct
from sslm.runtime.sequences.state import SequenceState


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


def require_choice(state: SequenceState, choice: Choice, answer_start: int) -> None:
    """Check a choice against what a sequence is made for.

    Raises:
        OptionRangeError: If it cannot choose so.
    """
    require_numbers(
        choice,
        answer_start=answer_start,
        vocab_size=state.program.token_count,
        context_tokens=state.options.context_tokens,
    )
    if not (choice.is_plain or state.options.chooses):
        expected = "True, as the choice needs scores: make the sequence with it"
        raise OptionRangeError("chooses", "False", expected)


def require_numbers(
    choice: Choice, *, answer_start: int, vocab_size: int, context_tokens: int
) -> None:
    """Check a choice as :func:`sslm.runtime.sequences.choice.choice_fault` does.

    Raises:
        OptionRangeError: If a number is out of its range.
    """
    fault = choice_fault(
        choice, answer_start=answer_start, vocab_size=vocab_size, context_tokens=context_tokens
    )
    if fault is not None:
        raise OptionRangeError(*fault)


def choose(state: SequenceState, choice: Choice, answer_start: int) -> None:
    """Choose in a way that was checked from now on, also after the last position."""
    struct = state.data.staged()
    if not state.data.choice.decides_as(choice, answer_start):
        forget_selected(state, struct)
    state.data.become_choosing(struct, state.data.bound(choice, answer_start=answer_start))


def rescore(state: SequenceState) -> None:
    """Let the last position be scored again, if it was."""
    struct = state.data.staged()
    forget_selected(state, struct)
    state.data.become(struct)


def forget_selected(state: SequenceState, struct: SequenceStruct) -> None:
    """Let the last position be scored again, if it was; *struct* is staged."""
    if struct.selected != NOT_SCORED:
        # To where a chunk of one row has it, in place of what is computed and not looked at again.
        size = 4 * state.program.residual.width
        last = state.memory.residual[size * struct.last_row : size * (struct.last_row + 1)]
        state.memory.residual[:size] = last
        struct.last_row = 0
        struct.selected = NOT_SCORED
        struct.is_rescoring = True
