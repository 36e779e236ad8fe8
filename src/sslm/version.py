"""The version of this package, which conversion writes into artifacts."""

from typing import Final

VERSION: Final = "0.1.0"
