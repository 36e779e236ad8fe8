"""Which exit code each family of errors gives."""

from typing import Final

from sslm.errors.base import (
    ArgumentError,
    ArtifactError,
    NetworkError,
    NumericError,
    ResourceError,
    SslmError,
    StateError,
)

DIFFERENT: Final = 1
"""Verified, and not the same."""
USAGE: Final = 2
BAD_INPUT_FILE: Final = 3
REQUEST_REFUSED: Final = 4
OUT_OF_BUDGET: Final = 5
NETWORK: Final = 6
INTERNAL: Final = 7
SIGNALLED: Final = 128
"""Added to the number of the signal that ended the command, as shells do."""
INTERRUPTED: Final = 130
"""By Ctrl-C: signal 2 on every system."""

FAMILIES: Final[dict[type[SslmError], int]] = {
    ArgumentError: REQUEST_REFUSED,
    ArtifactError: BAD_INPUT_FILE,
    NumericError: BAD_INPUT_FILE,
    ResourceError: OUT_OF_BUDGET,
    NetworkError: NETWORK,
    StateError: INTERNAL,
}
"""Exit code of every family; the exact ``Status`` is in the JSON output."""


def exit_code(error: SslmError) -> int:
    """Return the exit code of an error's family."""
    return next((code for family, code in FAMILIES.items() if isinstance(error, family)), INTERNAL)
