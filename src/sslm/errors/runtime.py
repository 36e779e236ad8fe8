"""Errors of requests, sequences and their memory."""

from typing import ClassVar, Final

from sslm.errors.base import ArgumentError, NumericError, ResourceError, StateError
from sslm.errors.causes import Cause, ManyCausesError
from sslm.errors.status import Status


class EmptyPromptError(ArgumentError):
    """A prompt has no tokens, so there is nothing to continue."""

    status = Status.EMPTY_PROMPT
    message = "the prompt is empty; give at least one token"


class PartlyAdmitted:
    """What may end a prefill early, with the tokens before it admitted for good.

    Attributes:
        consumed_tokens: How many of the call's tokens were admitted before the refusal.
    """

    consumed_tokens = 0


class TokenIdRangeError(PartlyAdmitted, ArgumentError):
    """A token id is not one of the model's."""

    status = Status.TOKEN_ID_RANGE
    message = "token id {token_id} at index {index}, expected an integer from 0 to {largest}"
    token_id: int
    index: int
    largest: int


class PaddingTokenIdError(TokenIdRangeError):
    """A token id is one of the model's, but has no token: its row only pads the vocabulary."""

    status = Status.TOKEN_ID_PADDING
    message = (
        "token id {token_id} at index {index} has no token: the model has rows for {vocab_size} "
        "ids, but its vocabulary ends at id {largest}; such a row is padding"
    )
    vocab_size: int


class TokenIdTypeError(PartlyAdmitted, ArgumentError):
    """A token id is not a whole number."""

    status = Status.TOKEN_ID_TYPE
    message = "token id {found} at index {index} is of type {kind}, expected int"
    found: str
    index: int
    kind: str


class ContextLengthError(PartlyAdmitted, ArgumentError):
    """Prompt and answer do not fit the context; nothing was cut or shifted."""

    status = Status.CONTEXT_LENGTH
    message = (
        "the request needs at least {needed_tokens} tokens and the context holds {limit_tokens}; "
        "shorten the prompt or lower max_tokens"
    )
    needed_tokens: int
    limit_tokens: int
    model_tokens: int

    def template(self) -> str:
        """Advise a larger context only where the model allows one."""
        more = ", or ask for a larger context_tokens: the model allows {model_tokens}"
        return self.message + (more if self.limit_tokens < self.model_tokens else "")


class OptionRangeError(ArgumentError):
    """An option has a value that it cannot have."""

    status = Status.OPTION_RANGE
    message = "{option} is {found}, expected {expected}"
    option: str
    found: str
    expected: str


class ObjectClosedError(StateError):
    """The object was closed and cannot be used any more."""

    status = Status.OBJECT_CLOSED
    message = "the {kind} is closed"
    kind: str


class SequenceBusyError(StateError):
    """A sequence still has tokens to compute, or none at all."""

    status = Status.SEQUENCE_BUSY
    message = "the sequence has {pending} tokens to compute, expected {expected}"
    pending: int
    expected: str


class SequenceInUseError(StateError):
    """Two threads, or a thread and its signal handler, use one sequence at the same time."""

    status = Status.SEQUENCE_IN_USE
    message = (
        "the {kind} is in use by another call; use one for each thread, or wait until that call "
        "has returned"
    )
    kind: str


class SequenceReleasedError(StateError):
    """A sequence was closed while it was being computed; its memory is free again."""

    status = Status.SEQUENCE_RELEASED
    message = "the sequence was closed while it was being computed; make another one"


class SequenceNotFreshError(StateError):
    """What only an empty sequence can take over was asked of one that has tokens."""

    status = Status.SEQUENCE_NOT_FRESH
    message = "the sequence has {token_count} tokens, expected none: reset it, or make another one"
    token_count: int


class NothingChosenError(StateError):
    """A sequence was to go on with the token that it chose, and it has chosen none."""

    status = Status.NOTHING_CHOSEN
    message = "no token is chosen after position {position}; prefill tokens and advance first"
    position: int


class ChoiceUnfinishedError(StateError):
    """A sequence was to go on with the token that it chooses, and is only about to choose it."""

    status = Status.CHOICE_UNFINISHED
    message = (
        "the token after position {position} is not chosen again yet, as another choice made the "
        "first one; advance first"
    )
    position: int


class NumericStepRefusedError(NumericError):
    """A token could not be chosen, as logits are beyond what scores can be; nothing was chosen."""

    status = Status.NUMERIC_STEP_REFUSED
    message = (
        "the largest logit after position {position} is beyond -2048 to 2048, where scores end; "
        "choose greedily, without bias and penalties: that compares logits of any size"
    )
    position: int


class PrefixFrozenError(StateError):
    """A prefix was to take in more after it was frozen."""

    status = Status.PREFIX_FROZEN
    message = "the prefix of {token_count} tokens is frozen; begin another one on top of it"
    token_count: int


class PrefixNotFrozenError(StateError):
    """A prefix was to be adopted before it was frozen."""

    status = Status.PREFIX_NOT_FROZEN
    message = (
        "the prefix of {token_count} tokens is not done yet; advance it until it is done, and "
        "freeze it if that is yours to do"
    )
    token_count: int


class BudgetMissingError(ArgumentError):
    """A slice was asked for without saying how much it may do."""

    status = Status.BUDGET_MISSING
    message = "a slice needs a budget: give layers (a number of units), max_ms, or both"


class AlreadyScheduledError(StateError):
    """A sequence was to have turns of a scheduler that gives it some already."""

    status = Status.ALREADY_SCHEDULED
    message = "the sequence is in this scheduler already; remove it first to change its weight"


class NotScheduledError(StateError):
    """A sequence was to be removed from a scheduler that does not have it."""

    status = Status.NOT_SCHEDULED
    message = "the sequence is not in this scheduler; it was never added, or closed or removed"


class SequenceUnfinishedError(StateError):
    """A sequence was asked for its result before its answer was complete."""

    status = Status.SEQUENCE_UNFINISHED
    message = "the answer is not complete: {completion_tokens} tokens of it so far; advance further"
    completion_tokens: int


class SequenceInterruptedError(StateError):
    """A call on a sequence was torn off half way, as by Ctrl-C, and what it holds is uncertain."""

    status = Status.SEQUENCE_INTERRUPTED
    message = "a call on this {kind} was interrupted half way; {advice}"
    kind: str
    advice: str


class PoolInUseError(StateError):
    """A pool was to be closed while pages of it are held; nothing was closed."""

    status = Status.POOL_IN_USE
    message = "{held_pages} pages of the pool are held; close the sequences and prefixes first"
    held_pages: int


class ModelHeldError(StateError):
    """A model was to be closed while sequences or prefixes of it live; nothing was closed."""

    status = Status.MODEL_HELD
    message = "{sequences} sequences and {prefixes} prefixes of the model live; release them first"
    sequences: int
    prefixes: int


_DIFFERS: Final = Cause(
    "SnapshotMismatchError",
    "the saved state and the sequence differ in {what}: {found}, expected {expected}",
    ("what", "found", "expected"),
)


class SnapshotMismatchError(ManyCausesError, ArgumentError):
    """A sequence was to continue from a state that does not fit it; `status` says in what."""

    causes: ClassVar = dict.fromkeys(
        (
            Status.SNAPSHOT_SCHEMA,
            Status.SNAPSHOT_MODEL,
            Status.SNAPSHOT_POOL,
            Status.SNAPSHOT_CHUNK_ROWS,
            Status.SNAPSHOT_SCORED_ROWS,
        ),
        _DIFFERS,
    )


class PlanMismatchError(ArgumentError):
    """A sequence of one program was to be advanced by a plan of another; nothing has run."""

    status = Status.PLAN_MISMATCH
    message = (
        "the sequence was made for another program than the plan was compiled from; advance it "
        "with a plan of its own model"
    )


class MisalignedMemoryError(ArgumentError):
    """Memory of the caller's begins where kernels cannot use it; it was not touched."""

    status = Status.MISALIGNED_MEMORY
    message = (
        "the memory for {what} begins at address {address}, expected a multiple of "
        "{alignment_bytes} bytes"
    )
    what: str
    address: int
    alignment_bytes: int


class MemoryTooSmallError(ArgumentError):
    """Memory of the caller's is smaller than what it is for; it was not touched."""

    status = Status.MEMORY_TOO_SMALL
    message = "the memory for {what} has {found_bytes} bytes, at least {needed_bytes} are needed"
    what: str
    found_bytes: int
    needed_bytes: int


class MemoryInUseError(StateError):
    """Memory of the caller's was lent to two live objects; it was not touched for the second."""

    status = Status.MEMORY_IN_USE
    message = (
        "the memory for {what} is used by {user}, which is open; close that first, or lend other "
        "memory"
    )
    what: str
    user: str


class ForkedProcessError(StateError):
    """A model came into this process by a fork, which copies locks but not who holds them."""

    status = Status.FORKED_PROCESS
    message = (
        "this {kind} was opened by process {owner}, this is process {process}: open it again after "
        "the fork"
    )
    kind: str
    owner: int
    process: int


class KvPoolExhaustedError(PartlyAdmitted, ResourceError):
    """The pool has fewer free pages than were asked for; nothing was taken."""

    status = Status.KV_POOL_EXHAUSTED
    message = "{needed_pages} pages of 64 tokens are needed and {free_pages} are free"
    needed_pages: int
    free_pages: int


class MemoryBudgetError(ResourceError):
    """The memory that was admitted does not suffice; nothing was allocated."""

    status = Status.MEMORY_BUDGET
    message = (
        "all that is open would take {needed_bytes} bytes with {what}, and memory_bytes allows "
        "{limit_bytes}; allow more, or ask for a smaller context_tokens"
    )
    what: str
    needed_bytes: int
    limit_bytes: int


class MemoryRefusedError(ResourceError):
    """The system has no memory for what was asked; nothing was kept."""

    status = Status.MEMORY_REFUSED
    message = "the system refuses {size_bytes} bytes for {what}; ask for {remedy}"
    what: str
    size_bytes: int
    remedy: str


class MemoryShortError(ResourceError):
    """The system has no memory for something small, as Python's own MemoryError says it."""

    status = Status.MEMORY_SHORT
    message = "the system has no memory left: {reason}; end other programs, or ask for less"
    reason: str


class StreamUnfinishedError(StateError):
    """A stream was asked for its result before its end, or was closed there."""

    status = Status.STREAM_UNFINISHED
    message = "the stream was not read to its end; read all of it, then ask for the result"


class NotCopyableError(StateError, TypeError):
    """Something that lives in one process was to be copied or pickled."""

    status = Status.NOT_COPYABLE
    message = "a {kind} lives in one process and cannot be copied; {advice}"
    kind: str
    advice: str


class DeadlineExceededError(ResourceError):
    """A request's time was over before its answer was complete; its memory is free again."""

    status = Status.DEADLINE_EXCEEDED
    message = (
        "the deadline of {deadline_s} s passed: after {elapsed_s:.3f} s, {prompt_tokens} tokens of "
        "the prompt were computed and {completion_tokens} of the answer chosen; allow more time or "
        "ask for fewer tokens"
    )
    deadline_s: float
    elapsed_s: float
    prompt_tokens: int
    completion_tokens: int
    token_ids: tuple[int, ...]
    text: str


class NestedCallError(StateError):
    """A thread called a model in the middle of its own run, and would have waited for itself."""

    status = Status.NESTED_CALL
    message = (
        "this thread is running the model already, and a signal handler, a callback or a finalizer "
        "called it again; let that call wait until the run has returned"
    )
