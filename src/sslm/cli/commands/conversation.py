"""A conversation that is shown while it goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sslm.artifact.write_errors import named_write_errors
from sslm.cli.screen.answers import note_cut, note_digest, note_logprobs, read_answer
from sslm.cli.screen.output import note, print_text, shown
from sslm.errors.artifact import UnwritableFileError
from sslm.errors.base import SslmError
from sslm.errors.commands import OutputExistsError, SavedFileExistsError
from sslm.errors.sessions import NothingToUndoError
from sslm.progress import Progress, StageProgress

if TYPE_CHECKING:
    from sslm.answering.request import AnswerOptions
    from sslm.conversation.session import Session, SessionStream
    from sslm.engine.model import Model
    from sslm.text.message import Message


class RecordFolder:
    """Names the records of one chat, after those that are there.

    Args:
        folder: Made if it is not there.

    Raises:
        UnwritableFileError: If it can neither be made nor be looked into.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            with named_write_errors(folder):
                folder.mkdir(exist_ok=True)
                found = list(folder.glob("*.sslmr"))
        except (UnwritableFileError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            if isinstance(error.__cause__, FileExistsError):
                reason = "it is no folder; name one, in which each answer gets a file of its own"
            raise UnwritableFileError(str(folder), reason) from error
        numbers = [int(path.stem) for path in found if path.stem.isdecimal()]
        self._number = max(numbers, default=0)

    def next_path(self) -> Path:
        """Return the name of the next answer's record, which is free.

        An answer that fails or is interrupted leaves no record, and its number is not used again.
        """
        self._number += 1
        return self._folder / f"{self._number:04}.sslmr"


class Conversation:
    """A session whose answers are printed.

    Args:
        session: Stays the caller's.
        model: What answers.
        options: What is asked of every answer.
        deadline_s: Seconds that an answer may take, or None.
        record_folder: Where each answer gets a record of its own, or None.
        no_progress: Whether nothing shows how far a long prompt is.
    """

    def __init__(
        self,
        session: "Session",
        model: "Model",
        *,
        options: "AnswerOptions",
        deadline_s: float | None = None,
        record_folder: Path | None = None,
        no_progress: bool = False,
    ) -> None:
        self._session = session
        self._model = model
        self._options = options
        self._deadline_s = deadline_s
        self._records = RecordFolder(record_folder) if record_folder else None
        self._no_progress = no_progress

    def say(self, text: str) -> bool:
        """Answer a message and show the answer; return whether it came to its end.

        Ctrl-C stops the answer, and what was shown of it stays in the conversation. Where nothing
        was shown, and after an error, the message does not stay either.
        """
        record = self._records.next_path() if self._records else None
        return self._show_answer(
            lambda on_progress, told: self._session.stream(
                text,
                deadline_s=self._deadline_s,
                record=record,
                on_progress=on_progress,
                **(self._options | {"on_schema_progress": told}),
            )
        )

    @property
    def said_count(self) -> int:
        """How many messages the user has said."""
        return len(self._said())

    def _said(self) -> list[int]:
        """Return where the user's messages are."""
        return [at for at, one in enumerate(self._session.messages) if one.role == "user"]

    def edit(self, number: int, text: str) -> bool:
        """Say *text* in place of an earlier message, which stays if the new one gets no answer.

        Args:
            number: Of the user's messages, from 1 to :attr:`said_count`.
            text: What to say.

        Returns:
            As :meth:`say`.
        """
        at = self._said()[number - 1]
        record = self._records.next_path() if self._records else None
        return self._show_answer(
            lambda on_progress, told: self._session.edit_stream(
                at,
                text,
                deadline_s=self._deadline_s,
                record=record,
                on_progress=on_progress,
                **(self._options | {"on_schema_progress": told}),
            )
        )

    def _show_answer(self, start: "Callable[[Progress, StageProgress], SessionStream]") -> bool:
        has_begun = False
        before = self._session.messages

        def show(text: str) -> None:
            nonlocal has_begun
            has_begun = True
            print_text(text)

        try:
            completion = read_answer(
                start,
                on_text=show,
                no_progress=self._no_progress,
                on_interrupt=lambda stream: stream.commit(),
                schema=self._options.get("schema"),
            )
        except KeyboardInterrupt:
            print_text("\n")
            if self._session.messages == before:
                note("nothing of an answer was shown yet, so the message was dropped")
            return False
        except SslmError:
            if has_begun:
                print_text("\n")
            raise
        print_text("\n")
        note_cut(completion)
        note_logprobs(completion, self._model.tokenizer)
        note_digest(completion)
        return True

    def undo(self) -> "Message | None":
        """Take back the last message with its answer; return it, or None if there is none."""
        try:
            return self._session.undo()
        except NothingToUndoError:
            return None

    def save(self, path: Path, *, is_replaced: bool) -> None:
        """Write the messages to a JSON file.

        Args:
            path: The file.
            is_replaced: Whether it may be there already.

        Raises:
            SavedFileExistsError: If it is, and may not.
            OutputNotFileError, OutputIsFolderError: If it is no regular file, or that of the model.
            DiskFullError, UnwritableFileError: If it cannot be written.
        """
        from sslm.artifact.atomic_file import atomic_file, require_no_input

        require_no_input(path, {"the model that answers": self._model.path})
        messages = self._session.messages
        facts = {
            "model_id": self._model.model_id,
            "messages": [{"role": one.role, "content": one.content} for one in messages],
        }
        try:
            with atomic_file(path, is_replaced=is_replaced) as file:
                file.write((json.dumps(facts, ensure_ascii=False, indent=2) + "\n").encode())
        except OutputExistsError:
            raise SavedFileExistsError(str(path)) from None
        note(shown(f"saved {len(messages)} messages to {path}"))
