"""What schemas in files may be called."""

import re
from typing import Final

from sslm import limits

_NAME: Final = re.compile("[A-Za-z0-9._-]+")


def is_schema_name(name: str) -> bool:
    """Tell whether schemas in files can have a name."""
    return len(name) <= limits.SCHEMA_NAME_SIZE_CHARS_MAX and bool(_NAME.fullmatch(name))
