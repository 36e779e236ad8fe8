"""Errors of what a command is given."""

from sslm.errors.base import ArgumentError
from sslm.errors.status import Status


class SourceFileMismatchError(ArgumentError):
    """An artifact is to be measured against a file that it was not converted from."""

    status = Status.SOURCE_FILE_MISMATCH
    message = (
        "{path} has the SHA-256 {found}; the artifact was converted from one with {expected}. Give "
        "that file, or --any-source to compare with another one"
    )
    path: str
    found: str
    expected: str


class OutputExistsError(ArgumentError):
    """A file would be replaced, and nobody said that it may be."""

    status = Status.OUTPUT_EXISTS
    message = "{path} exists already; choose another name, or give --force to replace it"
    path: str


class SavedFileExistsError(ArgumentError):
    """A conversation would be saved in place of a file."""

    status = Status.SAVED_FILE_EXISTS
    message = "{path} exists already; choose another name, or /save! {path} to replace it"
    path: str


class OutputNotFileError(ArgumentError):
    """A file would be written in place of what must not be replaced."""

    status = Status.OUTPUT_NOT_FILE
    message = "{path} cannot be replaced: {reason}; choose another name"
    path: str
    reason: str


class PlotLibraryMissingError(ArgumentError):
    """A picture was asked for, and what draws it is not installed."""

    status = Status.PLOT_LIBRARY_MISSING
    message = (
        "pictures are drawn by matplotlib, which is not installed; install it with "
        "`pip install 'sslm[bench]'`, or leave --plot out"
    )


class BenchContextError(ArgumentError):
    """What was asked to be measured does not fit the model's context; nothing ran."""

    status = Status.BENCH_CONTEXT
    message = (
        "{option} is {found}, expected at most {largest}: {case} needs {needed_tokens} tokens and "
        "the model's context holds {limit_tokens}"
    )
    option: str
    found: int
    largest: int
    case: str
    needed_tokens: int
    limit_tokens: int


class OutputIsFolderError(ArgumentError):
    """A file was to be written under the name of a folder."""

    status = Status.OUTPUT_IS_FOLDER
    message = "{path} is a folder; name the file to write"
    path: str


class ChatCommandError(ArgumentError):
    """A line of a chat gives a command that does not exist or make sense; nothing was done."""

    status = Status.CHAT_COMMAND
    message = "{command} is refused: {problem}"
    command: str
    problem: str
