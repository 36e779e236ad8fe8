"""Whether the environment switches fetching off."""

import os
from typing import Final

OFFLINE_VARIABLES: Final = ("SSLM_OFFLINE", "HF_HUB_OFFLINE")
OFF_WORDS: Final = frozenset({"", "0", "false", "f", "no", "n", "off"})
"""Values, in lower case, with which a variable forbids nothing."""


def is_offline() -> bool:
    """Tell whether the environment switches fetching off; a word that nobody knows does, too."""
    values = [os.environ.get(name, "") for name in OFFLINE_VARIABLES]
    return any(value.strip().lower() not in OFF_WORDS for value in values)
