"""Token ids to text, one id at a time."""

import codecs
from dataclasses import dataclass

from sslm.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class DetokenizerState:
    """All that a detokenizer remembers.

    Attributes:
        pending: The beginning of a character that is not complete yet, at most 3 bytes.
        is_at_start: Whether no byte has come yet, so that a space prefix is still to be removed.
    """

    pending: bytes
    is_at_start: bool


class Detokenizer:
    """Turns ids into text as they come, never in the middle of a character.

    Whatever the split, the pieces that :meth:`push` and :meth:`finish` return join to what
    :meth:`Tokenizer.decode` makes of all ids at once. Bytes that can no longer become a character
    turn into U+FFFD, one for each maximal part of a character, as Python's ``errors="replace"``.

    Args:
        tokenizer: Whose ids are pushed.
        is_continuation: True if other text comes before, so that a leading space counts.
    """

    def __init__(self, tokenizer: Tokenizer, *, is_continuation: bool = False) -> None:
        self._tokenizer = tokenizer
        self._has_prefix = tokenizer.vocabulary.add_space_prefix and not is_continuation
        self._state = DetokenizerState(b"", is_at_start=True)

    def push(self, token_id: int) -> str:
        """Take the next id; return the text that is now certain, which may be empty.

        Raises:
            TokenizerIdError: If *token_id* is not in the vocabulary; nothing changes then.
        """
        data = self._tokenizer.token_bytes(token_id)
        if not data:
            return ""
        if self._has_prefix and self._state.is_at_start:
            data = data.removeprefix(b" ")
        return self._take(self._state.pending + data, is_final=False)

    def finish(self) -> str:
        """Return what is left at the end: U+FFFD if the last character never became complete."""
        return self._take(self._state.pending, is_final=True)

    def save(self) -> DetokenizerState:
        """Return the state, to come back to with :meth:`restore`."""
        return self._state

    def restore(self, state: DetokenizerState) -> None:
        """Go back to *state*, which a detokenizer of the same vocabulary has saved."""
        self._state = state

    def _take(self, data: bytes, *, is_final: bool) -> str:
        text, taken_count = codecs.utf_8_decode(data, "replace", is_final)
        self._state = DetokenizerState(data[taken_count:], is_at_start=False)
        return text
