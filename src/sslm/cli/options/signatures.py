"""Options that several commands take, written down once: among them ``-q`` and ``-v``."""

import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from sslm.cli.screen.output import complain_between, lines_between, shown
from sslm.cli.screen.output import quiet as silenced

Command = Callable[..., object]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No notes and no progress on stderr, only errors.")
]
VerboseOption = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        help="Say on stderr what is done; -vv says it in detail.",
    ),
]
_LEVELS: Final = (logging.WARNING, logging.INFO, logging.DEBUG)


def taking(
    command: Command,
    options: Mapping[str, tuple[object, object]],
    call: Callable[..., object],
    *,
    instead_of: Sequence[str] = (),
) -> Command:
    """Return a command that takes further options.

    Args:
        command: A function of keywords alone.
        options: By name, the annotation and the default of each.
        call: Called in place of the command, with all options.
        instead_of: Arguments of the command that *call* makes, and that are no options.
    """

    @functools.wraps(command)
    def taker(**given: Any) -> object:
        return call(**given)

    signature = inspect.signature(command)
    own = [one for name, one in signature.parameters.items() if name not in instead_of]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]
    taker.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    kinds = {name: kind for name, (kind, _) in options.items()}
    kept = {name: kind for name, kind in command.__annotations__.items() if name not in instead_of}
    taker.__annotations__ = kept | kinds
    return taker


class Program(typer.Typer):
    """A program whose commands all take the options of this module."""

    def __init__(self, *, name: str, help: str) -> None:  # noqa: A002
        super().__init__(
            name=name,
            help=help,
            add_completion=False,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
        )

    def command(self, *arguments: Any, **settings: Any) -> Callable[[Command], Command]:  # type: ignore[override]
        """Return what adds a command, as in the base class."""
        add = super().command(*arguments, **settings)
        return lambda command: add(_opening_files_itself(with_manners(command)))


def _opening_files_itself(command: Command) -> Command:
    """Let a file that cannot be read be the command's to tell, as one that does not exist is.

    Otherwise the parser looks first, and calls it a wrong use of the command.
    """
    for kind in command.__annotations__.values():
        for told in getattr(kind, "__metadata__", ()):
            if hasattr(told, "readable"):
                told.readable = False
    return command


def with_manners(command: Command) -> Command:
    """Return a command that also takes ``--quiet`` and ``--verbose``."""

    def mannered(*, quiet: bool, verbose: int, **options: Any) -> object:
        if quiet and verbose:
            raise typer.BadParameter("it is the opposite of --verbose", param_hint="--quiet")
        with silenced() if quiet else _log(verbose):
            return command(**options)

    return taking(command, {"quiet": (QuietOption, False), "verbose": (VerboseOption, 0)}, mannered)


@contextmanager
def _log(verbosity: int) -> Iterator[None]:
    """Write what the package logs to stderr: by default warnings, and nothing of other packages."""
    logger = logging.getLogger("sslm")
    handler, level = _Lines(), logger.level
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(_LEVELS[min(verbosity, len(_LEVELS) - 1)])
    try:
        with lines_between():
            yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


class _Lines(logging.Handler):
    """Writes each message as a line that cannot steer the terminal, and not amid an answer's."""

    def emit(self, record: logging.LogRecord) -> None:
        complain_between(shown(self.format(record)))
