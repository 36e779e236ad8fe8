"""Bytes overwritten where they lie, by ones that are often an edge of something."""

from typing import Final

from fuzz.choices import Choices

_PATCHES: Final = (b"\x7f", b"\x81", b"\1", b"\0", b"\x80", b"\xff\xff\x7f\0", b"\1\0\0\x80")


def overwritten(content: bytes, choices: Choices) -> bytes:
    """Overwrite a few bytes without moving any."""
    changed = bytearray(content)
    for _ in range(1 + choices.below(4) if changed else 0):
        at = choices.below(len(changed))
        patch = choices.pick(_PATCHES)
        changed[at : at + len(patch)] = patch[: len(changed) - at]
    return bytes(changed)
