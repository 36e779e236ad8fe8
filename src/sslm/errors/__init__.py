"""Every exception of the package, one class per cause, with its stable number.

A package rather than one module, because each cause is a class and there are more than a module
may hold; callers import from here and need not know where a class lives.
"""

from sslm.errors.base import (
    ArgumentError,
    ArtifactError,
    NetworkError,
    NumericError,
    ResourceError,
    SslmError,
    StateError,
)
from sslm.errors.status import Status

__all__ = [
    "ArgumentError",
    "ArtifactError",
    "NetworkError",
    "NumericError",
    "ResourceError",
    "SslmError",
    "StateError",
    "Status",
]
