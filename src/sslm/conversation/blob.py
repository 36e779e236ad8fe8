"""Conversations as bytes, and back."""

import datetime
from array import array
from dataclasses import dataclass

from sslm.conversation.source import Conversation, Encode
from sslm.errors.base import ArgumentError
from sslm.errors.runtime import ObjectClosedError
from sslm.errors.saves import SavedSessionValueError, SaveSizeError
from sslm.errors.showing import briefly
from sslm.formats.saves.reader import stated_size_bytes
from sslm.formats.saves.session import (
    SavedMessage,
    SavedSession,
    encode_session,
    read_saved_session,
)
from sslm.opening.runner import Runner
from sslm.runtime.saves.saving import restore, save
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.snapshot import NO_ADAPTER
from sslm.runtime.transactions.token_session import TokenSession
from sslm.text.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSession:
    """A saved conversation whose texts are sound.

    Args:
        messages: What was said.
        date: Today, as it was then.
        states: A saved sequence, not looked at yet, or no bytes.
    """

    messages: Conversation
    date: datetime.date | None
    states: bytes | memoryview


def save_session(
    tokens: TokenSession[Conversation], encode: Encode, date: datetime.date | None, *, kv: bool
) -> bytes:
    """Return a conversation as bytes.

    Args:
        tokens: The conversation.
        encode: Encodes messages as its prompts are encoded.
        date: Of its template.
        kv: Whether to save the states of its longest saved beginning, or only the ids of that.

    Raises:
        ObjectClosedError: If the session is closed.
    """
    if tokens.is_closed:
        raise ObjectClosedError("session")
    committed = tokens.committed
    states = b""
    if committed.note:
        ids = array("i", encode(committed.note, add_generation_prompt=False))
        longest = committed.checkpoints.longest_prefix(tokens.model_id, NO_ADAPTER, ids)
        states = b"" if longest is None else save(longest, kv=kv)
    messages = tuple(SavedMessage(one.role, one.content) for one in committed.note)
    day = None if date is None else date.isoformat()
    return encode_session(SavedSession(messages=messages, date=day, states=states))


def read_session(blob: bytes | bytearray | memoryview) -> ReadSession:
    """Read a conversation; of its states only that there are some.

    Raises:
        ArtifactError: If it is damaged, or holds what nobody can have said.
    """
    saved = read_saved_session(blob)
    messages = []
    for index, one in enumerate(saved.messages):
        try:
            messages.append(Message(one.role, one.content))
        except ArgumentError as error:
            raise SavedSessionValueError(f"message {index}", str(error)) from error
    return ReadSession(messages=tuple(messages), date=_date(saved.date), states=saved.states)


def restore_states(
    runner: Runner, tokens: TokenSession[Conversation], states: bytes | memoryview
) -> None:
    """Give a fresh session the checkpoint that was saved, and compute what was not saved of it.

    Args:
        runner: Of the model.
        tokens: The session.
        states: A saved sequence, or no bytes.

    Raises:
        ArtifactError: If it is damaged, or of another model.
        SslmError: As computing raises it.
    """
    if len(states) == 0:
        return
    # Nothing of a file is ignored, unlike of a buffer that is restored.
    stated = stated_size_bytes(states)
    if stated != len(states):
        raise SaveSizeError(stated, len(states))
    options = SequenceOptions(context_tokens=tokens.context_tokens, reserved_tokens=0, chooses=True)
    with restore(states, tokens.program, tokens.pool, tokens.model_id, options) as sequence:
        while sequence.has_work:
            runner.run(sequence, None)
        if sequence.position:
            tokens.keep(sequence.snapshot())


def _date(text: str | None) -> datetime.date | None:
    if text is None:
        return None
    try:
        found = datetime.date.fromisoformat(text)
    except ValueError as error:
        raise SavedSessionValueError("the date", f"{briefly(text)} is none") from error
    if found.isoformat() != text:
        raise SavedSessionValueError("the date", f"{briefly(text)} is not spelled YYYY-MM-DD")
    return found
