"""``sslm chat``: a conversation."""

import datetime
import importlib
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from sslm import limits
from sslm.cli.blas import use_blas_threads
from sslm.cli.conversation import Conversation
from sslm.cli.options import (
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
    ThreadsOption,
    TierOption,
    open_model,
)
from sslm.cli.output import complain, note, shown
from sslm.cli.text_input import argument_text, decode_text, require_stdin
from sslm.errors.base import SslmError
from sslm.errors.text import TextTooLongError

_EPILOG: Final = (
    'Example: sslm chat --system "You answer in one sentence."; or: '
    'echo "Name a river." | sslm chat --max-tokens 40'
)
_HELP: Final = (
    "/undo takes back the last message; /edit TEXT puts TEXT in its place, /edit N TEXT in that of "
    "your message N, and what came after is forgotten; /save FILE writes the conversation as JSON "
    "(/save! replaces FILE); /quit ends it; //TEXT says /TEXT. Ctrl-C stops an answer and keeps "
    "what was shown."
)
_WANTED: Final = {"/edit": "the new text", "/save": "a file's name", "/save!": "a file's name"}
"""What commands of a chat are given."""
_DATE_FORMAT: Final = "%Y-%m-%d"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "chat",
        help="Talk with a model; from a pipe, each line is a message. " + _HELP,
        epilog=_EPILOG,
    )(chat_command)


def chat_command(
    *,
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
    state_bytes: StateBytesOption = None,
    checkpoint_bytes: CheckpointBytesOption = None,
    max_tokens: MaxTokensOption = DEFAULT_MAX_TOKENS,
    stop: StopOption = None,
    deadline_s: DeadlineOption = None,
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
            model_id=opened.model_id,
            max_tokens=max_tokens,
            stop=stop or (),
            deadline_s=deadline_s,
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
    note(_HELP)
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
            if not _obey(conversation, line):
                return
        except SslmError as error:
            complain(shown(f"error: {error}"))


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
    while line := sys.stdin.buffer.readline(limit + 1):
        if len(line) > limit:
            raise TextTooLongError("a line of stdin", len(line), limits.TEXT_SIZE_CHARS_MAX)
        if not _obey(conversation, decode_text("stdin", line).rstrip("\r\n")):
            return


def _obey(conversation: Conversation, line: str) -> bool:
    """Do what a line says; return whether the conversation goes on."""
    word, _, rest = line.partition(" ")
    if not line.strip():
        return True
    if not line.startswith("/") or line.startswith("//"):
        _go_on(conversation.say(line.removeprefix("/") if line.startswith("//") else line))
    elif word == "/quit":
        return False
    elif word == "/undo":
        undone = conversation.undo()
        note("there is nothing to undo" if undone is None else shown(f"undone: {undone.content}"))
    elif word in _WANTED and not rest.strip():
        note(f"{word} needs {_WANTED[word]} after it")
    elif word == "/edit":
        _edit(conversation, rest)
    elif word in ("/save", "/save!"):
        # A user that nobody knows stays part of the name, where Path would raise.
        path = Path(os.path.expanduser(rest.strip()))  # noqa: PTH111
        conversation.save(path, is_replaced=word == "/save!")
    else:
        note(shown(f"there is no command {word}"))
        note(_HELP)
    return True


def _edit(conversation: Conversation, rest: str) -> None:
    """Answer another text in place of the last message, or of the one whose number comes first."""
    digits, _, text = rest.partition(" ")
    # A text that begins with a number needs the number of its message, too.
    if re.fullmatch("[0-9]{1,9}", digits) and text.strip():
        is_complete = conversation.edit(int(digits), text)
        missing = f"you have said no message {digits}, and nothing was said"
    else:
        is_complete = conversation.edit(None, rest)
        missing = "there is nothing to edit, and nothing was said"
    if is_complete is None:
        note(missing)
    else:
        _go_on(is_complete)


def _go_on(is_complete: bool) -> None:
    """End the program if an answer in a pipe was interrupted."""
    if not is_complete and not sys.stdin.isatty():
        raise KeyboardInterrupt
