"""The 256 characters by which byte-level vocabularies spell bytes.

The alphabet is the one of GPT-2: printable Latin-1 bytes stand for themselves, and the other 68
bytes take the characters from U+0100 on, in order.
"""

from typing import Final

_PRINTABLE: Final = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS: Final = tuple(byte for byte in range(256) if byte not in _PRINTABLE)

BYTE_OF_CHARACTER: Final = {
    **{chr(byte): byte for byte in _PRINTABLE},
    **{chr(0x100 + index): byte for index, byte in enumerate(_OTHERS)},
}
"""The byte that each of the 256 characters stands for."""

CHARACTER_OF_BYTE: Final = {byte: character for character, byte in BYTE_OF_CHARACTER.items()}
"""The character that spells each byte."""

_TO_LATIN_1: Final = {ord(character): byte for character, byte in BYTE_OF_CHARACTER.items()}


def bytes_of_spelling(spelling: str) -> bytes:
    """Return the bytes that *spelling*, made only of the alphabet's characters, stands for."""
    return spelling.translate(_TO_LATIN_1).encode("latin-1")
