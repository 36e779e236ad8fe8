"""Tokens of an answer that becomes part of a conversation."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final, Protocol

from sslm import limits
from sslm.answering.cutoff import Cutoff
from sslm.errors.base import SslmError
from sslm.errors.sessions import NothingToUndoError, StreamSupersededError
from sslm.program.choice import Choice
from sslm.progress import Progress
from sslm.runtime.transactions.token_request import FollowedSchema, TokenRequest
from sslm.runtime.transactions.token_session import TokenSession
from sslm.text.message import Message

Conversation = tuple[Message, ...]

_INTRODUCTION_TOKENS_MAX: Final = 8
"""Tokens that introduce a message: computing them again with another text takes no longer."""


class Encode(Protocol):
    """Returns the ids of messages, and of what introduces an answer if that is asked for."""

    def __call__(self, messages: Sequence[Message], *, add_generation_prompt: bool) -> list[int]:
        """Return them."""


class SessionSource:
    """One answer of a conversation: opened once, and kept as a whole or as far as it was shown.

    Args:
        session: The conversation.
        before: Its messages, of which the answer was asked.
        asked: The messages that are answered.
        encode: Encodes messages as the prompt was encoded.
        marks: Positions of the prompt where messages end.
        clock_ns: For the receipt, or None.
    """

    def __init__(
        self,
        session: TokenSession[Conversation],
        *,
        before: Conversation,
        asked: Conversation,
        encode: Encode,
        marks: Sequence[int],
        clock_ns: Callable[[], int] | None,
    ) -> None:
        self._session = session
        self._before = before
        self._asked = asked
        self._encode = encode
        self._prompt_ids: Sequence[int] = ()
        self._marks = marks
        self._clock_ns = clock_ns
        self._request: TokenRequest[Conversation] | None = None
        self._is_kept = False
        self._after: Conversation | None = None
        self.shown = ""
        """The text that was handed to whoever reads the answer."""

    @property
    def context_tokens(self) -> int:
        """Those of the session."""
        return self._session.context_tokens

    def call(self) -> AbstractContextManager[None]:
        """Return the block of a call; see :meth:`TokenSession.call`."""
        return self._session.call()

    def require_current(self) -> None:
        """Raise StreamSupersededError if the conversation has gone on without this answer."""
        note = self._session.committed.note
        if not (self._is_kept or note is self._before or note is self._after):
            raise StreamSupersededError

    @contextmanager
    def opened(
        self,
        prompt_ids: Sequence[int],
        *,
        answer_tokens: int,
        choice: Choice,
        answer_schema: FollowedSchema | None,
        has_logits: bool,
        cutoff: Cutoff,
        on_progress: Progress,
    ) -> Iterator[TokenRequest[Conversation]]:
        """Begin the request, which is rolled back when the block ends if it was not kept.

        Raises:
            SslmError: As :meth:`sslm.runtime.transactions.token_session.TokenSession.begin`.
        """
        with self._session.begin(
            prompt_ids,
            answer_tokens=answer_tokens,
            choice=choice,
            answer_schema=answer_schema,
            has_logits=has_logits,
            marks=self._marks,
            cancellation=cutoff.cancellation,
            require_time=cutoff.require_time,
            on_progress=on_progress,
            clock_ns=self._clock_ns,
        ) as request:
            self._request, self._prompt_ids = request, prompt_ids
            try:
                yield request
            finally:
                self._request = None

    def keep(self, text: str) -> None:
        """Commit the whole answer."""
        if self._request is None:
            raise AssertionError("kept within the block of the request")
        self._commit(self._request, (*self._asked, Message("assistant", text)))

    def keep_shown(self) -> None:
        """Keep the message and what was shown of its answer; if nothing was, neither.

        While the request is open, what it computed is kept too. After an interrupt, which may have
        hit in the middle of anything, only the texts are.

        Raises:
            NothingToUndoError: If the conversation has gone on since.
        """
        # An interrupt may have come right after it was kept.
        if self._is_kept or self._session.committed.note is self._after or not self.shown:
            return
        after = (*self._asked, Message("assistant", self.shown))
        if self._request is not None and self._request.is_open:
            # An interrupt may have kept it from being closed: then it may have nothing to give.
            with suppress(SslmError):
                self._commit(self._request, after)
                return
        if self._session.committed.note is not self._before:
            raise NothingToUndoError("keep", len(self._session.committed.note))
        self._session.keep_note(after)
        self._is_kept = True

    def _commit(self, request: TokenRequest[Conversation], after: Conversation) -> None:
        ids = [*self._prompt_ids, *request.token_ids]
        closing: Sequence[int] = ()
        # Some templates refuse conversations that end otherwise than with a question.
        with suppress(SslmError):
            whole = self._encode(after, add_generation_prompt=False)
            # An answer that was cut, or that its text spells otherwise, does not go on so.
            if whole[: len(ids)] == ids:
                closing = whole[len(ids) :]
        self._after = after
        request.commit(after, closing)
        self._is_kept = True


def message_marks(
    encode: Encode, messages: Sequence[Message], prompt_ids: Sequence[int], cached_count: int
) -> list[int]:
    """Return where earlier messages end in a prompt, ascending.

    Whoever edits a later message continues from there. Where text is tokenized across the end of a
    message, it is the last position that does not depend on what follows. Before the first message
    it is where a template's own beginning ends, if that is a long one.

    Args:
        encode: Encodes messages as the prompt was encoded.
        messages: Of the prompt.
        prompt_ids: The prompt.
        cached_count: Up to here nobody needs to know.
    """
    marks: list[int] = []
    latest, most = len(messages) - 1, limits.CHECKPOINT_MARK_COUNT_MAX
    for count in range(latest, max(0, latest - most), -1):
        try:
            beginning = encode(messages[:count], add_generation_prompt=False)
        except SslmError:
            # Some templates refuse conversations that end otherwise than with a question.
            continue
        mark = _common_count(beginning, prompt_ids)
        if mark <= cached_count:
            break
        marks.append(mark)
    if len(messages) == 1:
        marks += _template_mark(encode, messages[0], prompt_ids, cached_count)
    return sorted(set(marks))


def _template_mark(
    encode: Encode, first: Message, prompt_ids: Sequence[int], cached_count: int
) -> list[int]:
    other = Message(first.role, "" if first.content else "x")
    try:
        mark = _common_count(encode([other], add_generation_prompt=True), prompt_ids)
    except SslmError:
        return []
    return [mark] if mark > max(cached_count, _INTRODUCTION_TOKENS_MAX) else []


def _common_count(first: Sequence[int], second: Sequence[int]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))
