"""How sequences are told to choose tokens, also the one after a position that was scored before."""

from sslm.errors.runtime import OptionRangeError
from sslm.program.choice import Choice
from sslm.program.sequence_data import NOT_SCORED, SequenceStruct
from sslm.runtime.sequences.choice_checks import choice_fault
from sslm.runtime.sequences.state import SequenceState


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
    """Check a choice as :func:`sslm.runtime.sequences.choice_checks.choice_fault` does.

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
