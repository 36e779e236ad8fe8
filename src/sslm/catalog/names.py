"""What a model in the cache may be called."""

import re
from pathlib import PurePath
from typing import Final

from sslm.errors.catalog import ModelNameError

NAME_SIZE_CHARS_MAX: Final = 64
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")


def checked_name(name: str) -> str:
    """Return a name that is safe as part of a file name on every system.

    Raises:
        ModelNameError: If it is not; it may not be a path, whatever is in it.
    """
    if not name:
        raise ModelNameError(name, "it is empty")
    if len(name) > NAME_SIZE_CHARS_MAX:
        raise ModelNameError(name, f"it is longer than {NAME_SIZE_CHARS_MAX} characters")
    if not _NAME.fullmatch(name) or ".." in name:
        reason = (
            "only a-z, 0-9 and single dots, dashes and underscores between them are allowed; "
            "rename the file"
        )
        raise ModelNameError(name, reason)
    return name


def name_of_file(path: PurePath) -> str:
    """Return the name under which a file is kept: its stem, in lower case.

    Raises:
        ModelNameError: If that cannot be a name.
    """
    return checked_name(path.stem.lower().replace(" ", "-"))
