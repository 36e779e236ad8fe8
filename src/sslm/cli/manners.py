"""How much a command says: ``-q`` and ``-v``, which every command takes."""

import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from sslm.cli.output import complain_between, lines_between, quiet, shown

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

Command = Callable[..., object]


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
        return lambda command: add(with_manners(command))


def with_manners(command: Command) -> Command:
    """Return a command that also takes ``--quiet`` and ``--verbose``."""

    @functools.wraps(command)
    def mannered(**options: Any) -> object:
        is_quiet, verbosity = options.pop("quiet"), options.pop("verbose")
        if is_quiet and verbosity:
            raise typer.BadParameter("it is the opposite of --verbose", param_hint="--quiet")
        with quiet() if is_quiet else _log(verbosity):
            return command(**options)

    signature = inspect.signature(command)
    added = {"quiet": (QuietOption, False), "verbose": (VerboseOption, 0)}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in added.items()
    ]
    mannered.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *parameters]
    )
    mannered.__annotations__ = command.__annotations__ | {
        name: kind for name, (kind, _) in added.items()
    }
    return mannered


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
