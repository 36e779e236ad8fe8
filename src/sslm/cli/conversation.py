"""A conversation that is shown while it goes on."""

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sslm.cli.answers import note_cut, note_digest, read_answer
from sslm.cli.output import note, print_text, shown
from sslm.errors.base import SslmError
from sslm.errors.commands import OutputExistsError, SavedFileExistsError

if TYPE_CHECKING:
    from sslm.engine.model import Model
    from sslm.text.message import Message


class Conversation:
    """Messages, and the model that answers them.

    Args:
        model: With a chat template.
        system: What the system says first, or None.
        max_tokens: Most tokens of an answer.
        stop: Strings that end an answer.
        deadline_s: Seconds that an answer may take, or None.
        date: Today, for templates that mention it.
        no_progress: Whether nothing shows how far a long prompt is.
    """

    def __init__(
        self,
        model: "Model",
        *,
        system: str | None,
        max_tokens: int,
        stop: Sequence[str],
        deadline_s: float | None = None,
        date: datetime.date | None,
        no_progress: bool = False,
    ) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._stop = stop
        self._deadline_s = deadline_s
        self._date = date
        self._no_progress = no_progress
        self.messages: list[Message] = [] if system is None else [_message("system", system)]

    def say(self, text: str) -> bool:
        """Answer a message and show the answer; return whether it came to its end.

        Ctrl-C stops the answer, and what was shown of it stays in the conversation. Where nothing
        was shown, and after an error, the message does not stay either.
        """
        messages = [*self.messages, _message("user", text)]
        pieces: list[str] = []
        is_complete = self._show_answer(messages, pieces)
        if is_complete or any(pieces):
            self.messages = [*messages, _message("assistant", "".join(pieces))]
        return is_complete

    def _show_answer(self, messages: "list[Message]", pieces: list[str]) -> bool:
        def show(text: str) -> None:
            pieces.append(text)
            print_text(text)

        try:
            completion = read_answer(
                lambda on_progress: self._model.chat_stream(
                    messages,
                    max_tokens=self._max_tokens,
                    stop=self._stop,
                    date=self._date,
                    deadline_s=self._deadline_s,
                    on_progress=on_progress,
                ),
                on_text=show,
                no_progress=self._no_progress,
            )
        except KeyboardInterrupt:
            print_text("\n")
            return False
        except SslmError:
            if pieces:
                print_text("\n")
            raise
        print_text("\n")
        note_cut(completion, self._max_tokens)
        note_digest(completion)
        return True

    def undo(self) -> "Message | None":
        """Take back the last message with its answer; return it, or None if there is none."""
        for index in range(len(self.messages) - 1, -1, -1):
            message = self.messages[index]
            if message.role == "user":
                del self.messages[index:]
                return message
        return None

    def edit(self, text: str) -> bool | None:
        """Say *text* in place of the last message, which stays if the new one gets no answer.

        Returns:
            As :meth:`say`, or None if there is no message.
        """
        before = list(self.messages)
        if self.undo() is None:
            return None
        without = list(self.messages)
        try:
            return self.say(text)
        finally:
            if self.messages == without:
                self.messages = before

    def save(self, path: Path, *, is_replaced: bool) -> None:
        """Write the messages to a JSON file.

        Args:
            path: The file.
            is_replaced: Whether it may be there already.

        Raises:
            SavedFileExistsError: If it is, and may not.
            OutputNotFileError, OutputIsFolderError: If it is no regular file.
            DiskFullError, UnwritableFileError: If it cannot be written.
        """
        from sslm.artifact.atomic_file import atomic_file

        facts = {
            "model_id": self._model.model_id,
            "messages": [
                {"role": message.role, "content": message.content} for message in self.messages
            ],
        }
        try:
            with atomic_file(path, is_replaced=is_replaced) as file:
                file.write((json.dumps(facts, ensure_ascii=False, indent=2) + "\n").encode())
        except OutputExistsError:
            raise SavedFileExistsError(str(path)) from None
        note(shown(f"saved {len(self.messages)} messages to {path}"))


def _message(role: str, content: str) -> "Message":
    # Imported when somebody speaks: asking for help needs none of it.
    from sslm.text.message import Message

    return Message(role, content)
