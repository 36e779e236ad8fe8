"""What a line of a chat means: a message, or a command that begins with a slash."""

import os
import re
import sys
from pathlib import Path
from typing import Final

from sslm.cli.commands.conversation import Conversation
from sslm.cli.options.values import whole_number
from sslm.cli.screen.output import note, shown
from sslm.errors.commands import ChatCommandError
from sslm.errors.showing import briefly

HELP: Final = (
    "/undo takes back the last message; /edit TEXT puts TEXT in its place, /edit N TEXT in that of "
    "your message N, and what came after is forgotten (a TEXT that begins with a number needs its "
    "N); /save FILE writes the conversation as JSON (/save! replaces FILE); /help says this; /quit "
    "ends the conversation; //TEXT says /TEXT. Ctrl-C stops an answer and keeps what was shown."
)
_WANTED: Final = {"/edit": "the new text", "/save": "a file's name", "/save!": "a file's name"}
"""Commands that are given something."""
_ALONE: Final = ("/undo", "/help", "/quit")
"""Commands that are given nothing."""
_NUMBER: Final = re.compile("[+-]?[0-9]+")


def obey(conversation: Conversation, line: str) -> bool:
    """Do what a line says; return whether the conversation goes on.

    Raises:
        ChatCommandError: If it is a command that does not exist or make sense; nothing was done.
        SslmError: As the conversation raises it.
    """
    if not line.strip():
        return True
    if not line.startswith("/") or line.startswith("//"):
        _go_on(conversation.say(line.removeprefix("/") if line.startswith("//") else line))
        return True
    word, rest = _command(line)
    if word == "/undo":
        _undo(conversation)
    elif word == "/edit":
        _edit(conversation, rest)
    elif word in ("/save", "/save!"):
        # A user that nobody knows stays part of the name, where Path would raise.
        path = Path(os.path.expanduser(rest.rstrip()))  # noqa: PTH111
        conversation.save(path, is_replaced=word == "/save!")
    elif word == "/help":
        note(HELP)
    return word != "/quit"


def _command(line: str) -> tuple[str, str]:
    """Return a line's command, which is one, and what it is given: as much as it takes."""
    word, rest = _first_word(line)
    if word not in _WANTED and word not in _ALONE:
        problem = "there is no such command; /help lists them, and //TEXT says /TEXT"
        raise ChatCommandError(briefly(word), problem)
    if word in _ALONE and rest:
        raise ChatCommandError(word, f"it takes nothing after it, found {briefly(rest)}")
    if word in _WANTED and not rest:
        raise ChatCommandError(word, f"it needs {_WANTED[word]} after it")
    return word, rest


def _first_word(line: str) -> tuple[str, str]:
    """Return the first word of a line and what follows it; that is empty if it is blank."""
    words = line.split(maxsplit=1)
    return words[0], words[1] if len(words) > 1 else ""


def _undo(conversation: Conversation) -> None:
    undone = conversation.undo()
    if undone is None:
        raise ChatCommandError("/undo", "no message has been said that it could take back")
    note(shown(f"undone: {undone.content}"))


def _edit(conversation: Conversation, rest: str) -> None:
    """Answer another text in place of the last message, or of the one whose number comes first."""
    count = conversation.said_count
    if not count:
        raise ChatCommandError("/edit", "no message has been said that it could replace")
    word, text = _first_word(rest)
    if not _NUMBER.fullmatch(word):
        _go_on(conversation.edit(count, rest))
        return
    number = whole_number(word, 1, count)
    if number is None:
        problem = f"the number {briefly(word)} is none of your messages, which are 1 to {count}"
        raise ChatCommandError("/edit", problem)
    if not text:
        raise ChatCommandError(f"/edit {number}", f"it needs {_WANTED['/edit']} after the number")
    _go_on(conversation.edit(number, text))


def _go_on(is_complete: bool) -> None:
    """End the program if an answer in a pipe was interrupted."""
    if not is_complete and not sys.stdin.isatty():
        raise KeyboardInterrupt
