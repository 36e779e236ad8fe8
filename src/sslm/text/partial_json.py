"""The value that a text of JSON has so far, while the text grows."""

import json
import re
from typing import Any, Final

_BETWEEN: Final = ",: \t\n\r"
_WORD: Final = re.compile(r"[^\s,:\[\]{}\"]*")
_PLAIN: Final = re.compile(r'[^"\\]*')
_ESCAPES: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_HIGH_SURROGATES: Final = range(0xD800, 0xDC00)
_LOW_SURROGATES: Final = range(0xDC00, 0xE000)
_UNICODE_SIZE: Final = 6
"""Characters of an escape that names a code unit."""


class PartialJson:
    """Reads a text of JSON piece by piece, and tells its value at any time.

    Each character is read once. The text has to be JSON, as what follows a schema is: nothing is
    checked. Lists and objects in each other may be of any depth.
    """

    def __init__(self) -> None:
        self._top: list[Any] = []
        # Open lists and objects, the outermost first; the bottom one holds the value itself.
        self._open: list[list[Any] | dict[str, Any]] = [self._top]
        self._keys: list[str | None] = [None]
        self._string: list[str] | None = None
        self._is_key = False
        # What cannot be told yet: the beginning of a number, of a word or of an escape.
        self._unread = ""

    def push(self, text: str) -> None:
        """Take the next piece of the text, however long."""
        text, self._unread, at = self._unread + text, "", 0
        while at < len(text):
            read = self._read_outside if self._string is None else self._read_string
            after = read(text, at)
            if after == at:
                self._unread = text[at:]
                return
            at = after

    def value(self) -> Any:
        """Return the value of what is complete so far, or None before anything is.

        Lists, objects and strings that have begun are there as far as they go; numbers, words and
        keys without a value are once they are certain. What was closed is the same object each
        time, the rest is made anew, so that no later piece changes what was returned.
        """
        inner: Any = None
        has_inner = self._string is not None and not self._is_key
        if self._string is not None:
            inner = "".join(self._string)
            self._string[:] = [inner]
        for container, key in zip(reversed(self._open), reversed(self._keys), strict=True):
            copied = container.copy()
            if has_inner:
                _put(copied, key, inner)
            inner, has_inner = copied, True
        return inner[0] if inner else None

    def _read_outside(self, text: str, at: int) -> int:
        """Read one thing that is not within a string; return what is behind it."""
        character = text[at]
        if character == '"':
            self._string = []
            self._is_key = isinstance(self._open[-1], dict) and self._keys[-1] is None
        elif character in "[{":
            self._open.append([] if character == "[" else {})
            self._keys.append(None)
        elif character in "]}":
            self._close()
        elif character not in _BETWEEN:
            return self._read_word(text, at)
        return at + 1

    def _read_word(self, text: str, at: int) -> int:
        """Read a number or a word that something follows."""
        end = _WORD.match(text, at).end()  # type: ignore[union-attr]
        if end == len(text):
            return at
        self._add(json.loads(text[at:end]))
        return end

    def _read_string(self, text: str, at: int) -> int:
        """Read a run of characters of a string, an escape, or its end."""
        assert self._string is not None
        if text[at] == '"':
            string, self._string = "".join(self._string), None
            if self._is_key:
                self._keys[-1] = string
            else:
                self._add(string)
            return at + 1
        if text[at] == "\\":
            found, end = _escape(text, at)
            if found is not None:
                self._string.append(found)
            return end
        end = _PLAIN.match(text, at).end()  # type: ignore[union-attr]
        self._string.append(text[at:end])
        return end

    def _close(self) -> None:
        closed = self._open.pop()
        self._keys.pop()
        self._add(closed)

    def _add(self, value: Any) -> None:
        _put(self._open[-1], self._keys[-1], value)
        self._keys[-1] = None


class PartialText:
    """The value of a text that grows in a list, for whoever asks, from any thread.

    What was read for one answer is kept for the next one; nothing is read before somebody asks.

    Args:
        pieces: The text; others append to it.
    """

    def __init__(self, pieces: list[str]) -> None:
        self._pieces = pieces
        # At most one, and none while somebody has it; an interrupt only costs reading it again.
        self._idle: list[tuple[PartialJson, int]] = []

    def value(self) -> Any:
        """Return the value so far; see :meth:`PartialJson.value`."""
        try:
            reader, count = self._idle.pop()
        except IndexError:
            reader, count = PartialJson(), 0
        new = self._pieces[count:]
        reader.push("".join(new))
        value = reader.value()
        self._idle[:] = [(reader, count + len(new))]
        return value


def _put(container: Any, key: str | None, value: Any) -> None:
    if isinstance(container, list):
        container.append(value)
    else:
        container[key] = value


def _escape(text: str, at: int) -> tuple[str | None, int]:
    """Read an escape.

    Returns:
        What it stands for, and what is behind it; the beginning of it again if it is not whole.
    """
    kind = text[at + 1 : at + 2]
    if kind != "u":
        return (_ESCAPES.get(kind, kind), at + 2) if kind else (None, at)
    end = at + _UNICODE_SIZE
    if len(text) < end:
        return None, at
    unit = int(text[at + 2 : end], 16)
    if unit not in _HIGH_SURROGATES:
        return chr(unit), end
    # Two units may be one character; what shows that they are not is behind the first one.
    following = text[end : end + _UNICODE_SIZE]
    if len(following) < _UNICODE_SIZE and "\\u".startswith(following[:2]):
        return None, at
    if following.startswith("\\u"):
        low = int(following[2:], 16)
        if low in _LOW_SURROGATES:
            pair = (unit - _HIGH_SURROGATES.start << 10) + low - _LOW_SURROGATES.start
            return chr(0x10000 + pair), end + _UNICODE_SIZE
    return chr(unit), end
