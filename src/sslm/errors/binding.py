"""Errors of sequences whose answers follow a schema."""

from sslm.errors.base import ArgumentError, StateError
from sslm.errors.runtime import NothingChosenError, PartlyAdmitted
from sslm.errors.status import Status


class SchemaBindError(StateError):
    """A schema was to be bound to a sequence that was used since it was made or reset."""

    status = Status.SCHEMA_BIND
    message = (
        "the sequence was used (it has {token_count} tokens), and schemas are bound before: "
        "reset it first"
    )
    token_count: int


class SchemaUnboundError(StateError):
    """Content of a schema was to be taken in by a sequence that follows none."""

    status = Status.SCHEMA_UNBOUND
    message = "the sequence follows no schema; bind one after a reset, or prefill without a schema"


class SchemaDeadEndError(NothingChosenError):
    """The schema lets no token follow; the sequence stays as it is, and says so again."""

    status = Status.SCHEMA_DEAD_END
    message = (
        "no token may follow position {position}: the text {is_complete} complete; "
        "reset the sequence, or let a token end the text"
    )
    is_complete: str


class SchemaSpanUnreachableError(PartlyAdmitted, ArgumentError):
    """A token of a schema's content is none that the schema takes there."""

    status = Status.SCHEMA_SPAN_UNREACHABLE
    message = (
        "token id {token_id} at index {index} is not taken there: {reason}; "
        "the tokens before it were taken in"
    )
    token_id: int
    index: int
    reason: str


class SchemaBudgetTokensError(ArgumentError):
    """An answer of so few tokens cannot be complete."""

    status = Status.SCHEMA_BUDGET_TOKENS
    message = (
        "of tokens, the answer may have {budget_tokens}, by max_tokens or as the context has no "
        "room for more, and the shortest that the schema takes has {needed_tokens}; allow more, or "
        "let it be cut off (finish='cut')"
    )
    budget_tokens: int
    needed_tokens: int
