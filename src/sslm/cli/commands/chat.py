"""``sslm chat``: a conversation."""

import codecs
import datetime
import importlib
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sslm import limits
from sslm.cli.commands.chat_lines import HELP, obey
from sslm.cli.commands.conversation import Conversation
from sslm.cli.cores import use_blas_threads
from sslm.cli.exit_codes import message_as_typed
from sslm.cli.options.choice import takes_choosing
from sslm.cli.options.model import (
    DEFAULT_BACKEND,
    DEFAULT_MAX_TOKENS,
    DEFAULT_MODEL,
    DEFAULT_THREADS,
    DEFAULT_TIER,
    BackendOption,
    CacheDirOption,
    CheckpointBytesOption,
    ContextTokensOption,
    DeadlineOption,
    MaxTokensOption,
    MemoryBytesOption,
    ModelOption,
    NoProgressOption,
    OfflineOption,
    StateBytesOption,
    StopOption,
    TextBytesOption,
    ThreadsOption,
    TierOption,
    open_model,
)
from sslm.cli.options.record import RecordFolderOption
from sslm.cli.options.text_input import argument_text, decode_text, require_stdin, typed_text
from sslm.cli.screen.output import complain, note, shown
from sslm.errors.base import SslmError
from sslm.errors.text import TextTooLongError

if TYPE_CHECKING:
    from sslm.answering.request import AnswerOptions

_EPILOG: Final = (
    'Example: sslm chat --system "You answer in one sentence."; or: '
    'echo "Name a river." | sslm chat --max-tokens 40'
)
_DATE_FORMAT: Final = "%Y-%m-%d"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "chat",
        help="Talk with a model; from a pipe, each line is a message. " + HELP,
        epilog=_EPILOG,
    )(takes_choosing(chat_command))


def chat_command(
    *,
    choosing: "AnswerOptions",
    model: ModelOption = DEFAULT_MODEL,
    system: Annotated[
        str | None,
        typer.Option(
            "--system", parser=argument_text, metavar="TEXT", help="What the system says first."
        ),
    ] = None,
    date: Annotated[
        datetime.datetime | None,
        typer.Option(
            "--date",
            metavar="YYYY-MM-DD",
            formats=[_DATE_FORMAT],
            help="Today, for chat templates that mention it; the clock is never read.",
        ),
    ] = None,
    backend: BackendOption = DEFAULT_BACKEND,
    tier: TierOption = DEFAULT_TIER,
    threads: ThreadsOption = DEFAULT_THREADS,
    context_tokens: ContextTokensOption = None,
    memory_bytes: MemoryBytesOption = None,
    text_bytes: TextBytesOption = limits.TEXT_BYTES_DEFAULT,
    state_bytes: StateBytesOption = None,
    checkpoint_bytes: CheckpointBytesOption = None,
    max_tokens: MaxTokensOption = DEFAULT_MAX_TOKENS,
    stop: StopOption = None,
    deadline_s: DeadlineOption = None,
    record: RecordFolderOption = None,
    cache_dir: CacheDirOption = None,
    offline: OfflineOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Answer one message after the other until there are no more."""
    use_blas_threads()
    with open_model(
        model,
        backend=backend,
        tier=tier,
        threads=threads,
        context_tokens=context_tokens,
        memory_bytes=memory_bytes,
        text_bytes=text_bytes,
        cache_dir=cache_dir,
        offline=offline,
        no_progress=no_progress,
    ) as opened:
        # Before the first message, a model that cannot chat says so, and what it takes is admitted.
        session = opened.session(
            system=system,
            date=date.date() if date else None,
            state_bytes=state_bytes,
            checkpoint_bytes=checkpoint_bytes,
        )
        conversation = Conversation(
            session,
            opened,
            options={**choosing, "max_tokens": max_tokens, "stop": stop},
            deadline_s=deadline_s,
            record_folder=record,
            no_progress=no_progress,
        )
        with session:
            if sys.stdin.isatty():
                _talk(conversation)
            else:
                _answer_lines(conversation)


def _talk(conversation: Conversation) -> None:
    """Converse with a person: errors are shown, and the conversation goes on."""
    with suppress(ImportError):
        # Importing it gives the prompt a history and editing keys.
        importlib.import_module("readline")
    note(HELP)
    while True:
        try:
            line = _ask()
        except EOFError:
            complain("")
            return
        except KeyboardInterrupt:
            note("\n/quit or Ctrl-D ends the conversation")
            continue
        try:
            if not obey(conversation, typed_text(line)):
                return
        except SslmError as error:
            complain(shown(f"error: {message_as_typed(error)}"))


def _ask() -> str:
    """Read a line; ask for it where that does not end up in the answers."""
    if sys.stdout.isatty():
        return input("> ")
    sys.stderr.write("> ")
    sys.stderr.flush()
    return input()


def _answer_lines(conversation: Conversation) -> None:
    """Answer the lines of a pipe or file; the first error ends it."""
    require_stdin()
    limit = 4 * limits.TEXT_SIZE_CHARS_MAX
    is_first = True
    while line := sys.stdin.buffer.readline(limit + 1):
        if len(line) > limit:
            raise TextTooLongError("a line of stdin", len(line), limits.TEXT_SIZE_CHARS_MAX)
        text = decode_text("stdin", line.removeprefix(codecs.BOM_UTF8) if is_first else line)
        is_first = False
        if not obey(conversation, text.rstrip("\r\n")):
            return
