"""What can be wrong with a conversation that is kept, and with its budgets."""

from sslm.errors.base import ResourceError, StateError
from sslm.errors.status import Status


class SessionNotAcceptingError(StateError):
    """A session takes no requests until it is reset, because its saved states are in doubt.

    What was committed can still be read.
    """

    status = Status.SESSION_NOT_ACCEPTING
    message = "the session takes no requests until it is reset: {reason}"
    reason: str


class AnswerUnfinishedError(StateError):
    """A session was to change while a stream of it is neither at its end nor being read."""

    status = Status.ANSWER_UNFINISHED
    message = (
        "an answer of this session is not read to its end: read it, commit it or close it first"
    )


class StreamSupersededError(StateError):
    """A conversation changed after a stream of it was made and before that was read, or kept.

    By another request, an undo or a reset. The stream's answer would belong to what is no more.
    """

    status = Status.STREAM_SUPERSEDED
    message = (
        "the conversation has changed since this stream was made, as by another request, undo() or "
        "reset(): make it again"
    )


class NothingToUndoError(StateError):
    """A conversation has no message that could be taken back or kept."""

    status = Status.NOTHING_TO_UNDO
    message = "there is no message to {verb} in this conversation of {count} messages"
    verb: str
    count: int


class StateBudgetError(ResourceError):
    """The states of a whole context take more than was allowed for them; nothing was taken."""

    status = Status.STATE_BUDGET
    message = (
        "the states of {context_tokens} tokens take {needed_bytes} bytes, and state_bytes allows "
        "{limit_bytes}; ask for a smaller context_tokens, or allow more"
    )
    context_tokens: int
    needed_bytes: int
    limit_bytes: int


class CheckpointBudgetError(ResourceError):
    """A checkpoint alone is more than all may be together; the others are as they were."""

    status = Status.CHECKPOINT_BUDGET
    message = (
        "a checkpoint of {token_count} tokens takes {needed_bytes} bytes, and {limit_count} of "
        "{limit_bytes} bytes together are allowed; allow more checkpoint_bytes"
    )
    token_count: int
    needed_bytes: int
    limit_bytes: int
    limit_count: int
