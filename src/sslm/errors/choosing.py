"""Errors of what a caller asks about the choice of tokens."""

from sslm.errors.base import ArgumentError
from sslm.errors.status import Status


class UnknownOptionError(ArgumentError, TypeError):
    """A call was given an option that it does not have."""

    status = Status.UNKNOWN_OPTION
    message = "there is no option {option!r} here; {advice}"
    option: str
    advice: str


class ChoiceConflictError(ArgumentError):
    """Two options contradict each other."""

    status = Status.CHOICE_CONFLICT
    message = "{option} cannot be used {other}; {advice}"
    option: str
    other: str
    advice: str
