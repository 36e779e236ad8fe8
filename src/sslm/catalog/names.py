"""What a model in the cache may be called."""

import re
from pathlib import PurePath
from typing import Final

from sslm.errors.catalog import ModelNameError

NAME_SIZE_CHARS_MAX: Final = 64
NAME: Final = r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?"
"""What a name looks like, as a regular expression."""

_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{kind}{number}" for kind in ("com", "lpt") for number in "0123456789¹²³"}
)
"""Names that Windows keeps for devices, in every folder and with any ending."""


def is_device(file_name: str) -> bool:
    """Tell whether Windows would take this file name for a device."""
    return file_name.partition(".")[0].rstrip(" ").lower() in _DEVICES


def checked_name(name: str) -> str:
    """Return a name that is safe as part of a file name on every system.

    Raises:
        ModelNameError: If it is not; it may not be a path, whatever is in it.
    """
    if not name:
        raise ModelNameError(name, "it is empty")
    if len(name) > NAME_SIZE_CHARS_MAX:
        raise ModelNameError(name, f"it is longer than {NAME_SIZE_CHARS_MAX} characters")
    if not re.fullmatch(NAME, name) or ".." in name:
        reason = (
            "only a-z, 0-9 and single dots, dashes and underscores between them are allowed; "
            "rename the file"
        )
        raise ModelNameError(name, reason)
    if is_device(name):
        raise ModelNameError(name, "Windows keeps it for a device; rename the file")
    return name


def name_of_file(path: PurePath) -> str:
    """Return the name under which a file is kept: its stem, in lower case.

    Raises:
        ModelNameError: If that cannot be a name.
    """
    # Lower case only makes of ASCII what it looks like: a Kelvin sign would become a k.
    if not path.stem.isascii():
        raise ModelNameError(path.stem, "only ASCII letters are allowed; rename the file")
    return checked_name(path.stem.lower().replace(" ", "-"))
