"""Decisions taken from the bytes of an input, so that mutating them mutates what is built."""

from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")

_ODD_CHARACTERS = (
    *"aAeh 01'<|>/_\n\t\r\0.,",
    *"\u2581\u0120\u010a\u00e9\u00df\u0301\u200d\u3000\ufffd\ufeff\u0085\u2028",
    *"\U0001f600\U000f0000\U0010ffff",
)


class Choices:
    """A cursor over an input; when that is used up, every choice is the first one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def is_used_up(self) -> bool:
        """Whether no byte is left."""
        return self._position >= len(self._data)

    def take(self, size_bytes: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        taken = self._data[self._position : self._position + size_bytes]
        self._position += len(taken)
        return taken

    def rest(self) -> bytes:
        """Return all bytes that are left."""
        return self.take(len(self._data))

    def below(self, limit: int) -> int:
        """Return a number from 0 to *limit* - 1; *limit* is at least 1."""
        size_bytes = max(1, ((limit - 1).bit_length() + 7) // 8)
        return int.from_bytes(self.take(size_bytes), "little") % limit

    def is_chosen(self, one_in: int) -> bool:
        """Return True for one of so many values of a byte, False when nothing is left."""
        return not self.is_used_up and self.below(256) % one_in == one_in - 1

    def pick(self, options: Sequence[_T]) -> _T:
        """Return one of the options."""
        return options[self.below(len(options))]

    def number(self) -> int:
        """Return an unsigned number of up to 64 bits, often one at an edge."""
        edges = (0, 1, 2, 4, 31, 32, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
        large = ((1 << 32) + 1, 1 << 42, (1 << 62) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
        kind = self.below(4)
        if kind == 0:
            return self.below(64)
        if kind == 1:
            return self.pick(edges)
        return self.pick(large) if kind == 2 else int.from_bytes(self.take(8), "little")

    def text(self, most: int, *, alphabet: Sequence[str] = _ODD_CHARACTERS) -> str:
        """Return at most *most* characters, mostly of the alphabet, never half a surrogate pair."""
        return "".join(self._character(alphabet) for _ in range(self.below(most + 1)))

    def _character(self, alphabet: Sequence[str]) -> str:
        byte = self.below(256)
        if byte < 224:
            return alphabet[byte % len(alphabet)]
        code = self.below(0x110000)
        return "?" if 0xD800 <= code < 0xE000 else chr(code)
