"""A conversation that is shown while it goes on."""

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sslm.artifact.atomic_file import atomic_file
from sslm.cli.answers import note_digest
from sslm.cli.output import note, print_text
from sslm.text.message import Message

if TYPE_CHECKING:
    from sslm.engine.model import Model


class Conversation:
    """Messages, and the model that answers them.

    Args:
        model: With a chat template.
        system: What the system says first, or None.
        max_tokens: Most tokens of an answer.
        stop: Strings that end an answer.
        date: Today, for templates that mention it.
    """

    def __init__(
        self,
        model: "Model",
        *,
        system: str | None,
        max_tokens: int,
        stop: Sequence[str],
        date: datetime.date | None,
    ) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._stop = stop
        self._date = date
        self.messages = [] if system is None else [Message("system", system)]

    def say(self, text: str) -> bool:
        """Answer a message and show the answer; return whether it came to its end.

        Ctrl-C stops the answer, and what was shown of it stays in the conversation. Where nothing
        was shown, and after an error, the message does not stay either.
        """
        messages = [*self.messages, Message("user", text)]
        shown: list[str] = []
        is_complete = self._show_answer(messages, shown)
        if is_complete or any(shown):
            self.messages = [*messages, Message("assistant", "".join(shown))]
        return is_complete

    def _show_answer(self, messages: list[Message], shown: list[str]) -> bool:
        try:
            with self._model.chat_stream(
                messages, max_tokens=self._max_tokens, stop=self._stop, date=self._date
            ) as stream:
                for chunk in stream:
                    shown.append(chunk.text)
                    print_text(chunk.text)
                completion = stream.result()
        except KeyboardInterrupt:
            print_text("\n")
            return False
        print_text("\n")
        note_digest(completion)
        return True

    def undo(self) -> Message | None:
        """Take back the last message with its answer; return it, or None if there is none."""
        for index in range(len(self.messages) - 1, -1, -1):
            message = self.messages[index]
            if message.role == "user":
                del self.messages[index:]
                return message
        return None

    def save(self, path: Path) -> None:
        """Write the messages to a JSON file, in place of what is there.

        Raises:
            DiskFullError, UnwritableFileError: If it cannot be written.
        """
        facts = {
            "model_id": self._model.model_id,
            "messages": [
                {"role": message.role, "content": message.content} for message in self.messages
            ],
        }
        with atomic_file(path) as file:
            file.write((json.dumps(facts, ensure_ascii=False, indent=2) + "\n").encode())
        note(f"saved {len(self.messages)} messages to {path}")
