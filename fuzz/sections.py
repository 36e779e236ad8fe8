"""The sections of an artifact as bytes that can be changed, and put together again."""

import json
from contextlib import suppress
from typing import Any, Final

from tests.unit.artifact.tiny_artifact import reseal, sections_of, with_section

from fuzz.choices import Choices
from sslm.formats.sslm.canonical_json import encode_json
from sslm.formats.sslm.container import SectionType

JSON_SECTIONS: Final = (SectionType.CONFIG, SectionType.PROVENANCE, SectionType.GOLDEN)

_EDIT_COUNT_MAX: Final = 4
_SPELLINGS: Final = (
    *("null", "true", "false", "0", "1", "-1", "2", "16", "1048576", "9223372036854775807"),
    *('""', '"a"', "[]", "{}", "[[]]"),
)


def canonical(data: bytes) -> bytes | None:
    """Return the canonical spelling of JSON bytes, or None if they are none."""
    with suppress(ValueError, RecursionError, UnicodeError):
        return encode_json(json.loads(data))
    return None


def edited_json(data: bytes, choices: Choices) -> bytes:
    """Change a few values of a canonical JSON text; what is none comes back as it is."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    for _ in range(1 + choices.below(_EDIT_COUNT_MAX)):
        _edit(value, choices)
    with suppress(ValueError, UnicodeError, RecursionError):
        return encode_json(value)
    return data


def _edit(value: Any, choices: Choices) -> None:
    """Go to some place inside, and change what is there."""
    while isinstance(value, dict | list) and value:
        key = choices.pick(sorted(value) if isinstance(value, dict) else range(len(value)))
        child = value[key]
        if isinstance(child, dict | list) and child and not choices.is_chosen(4):
            value = child
            continue
        what = choices.below(6)
        if what == 0:
            del value[key]
        elif what == 1:
            _repeat(value, key, choices)
        elif what == 2 and isinstance(child, int):
            value[key] = child + choices.pick((1, -1, 1 << 8, 1 << 32))
        elif what == 3:
            value[key] = choices.number()
        elif what == 4:
            value[key] = choices.text(16)
        else:
            value[key] = json.loads(choices.pick(_SPELLINGS))
        return


def _repeat(value: Any, key: Any, choices: Choices) -> None:
    """Put a child into its list a second time, or into its object under another name."""
    if isinstance(value, dict):
        value[choices.text(8)] = value[key]
    else:
        value.insert(key, value[key])


def with_changed_section(file: bytes, kind: SectionType, content: bytes) -> bytes:
    """Put a section in place of another and lay out and seal the file, if it is sound so far."""
    try:
        return with_section(file, kind, content)
    except Exception:
        # The file was broken before; sealing is what is left to do.
        return sealed(file)


def section_contents(file: bytes) -> dict[SectionType, bytes]:
    """Return the sections of a file, none if its table is broken."""
    try:
        return sections_of(file)
    except Exception:
        return {}


def sealed(file: bytes) -> bytes:
    """Compute the hash of a file anew, as somebody with intent would."""
    return reseal(file) if len(file) >= 64 else file
