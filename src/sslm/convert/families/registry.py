"""The families that can be converted, by name."""

from typing import Final

from sslm.convert.families.llama import LLAMA
from sslm.convert.families.source_family import SourceFamily
from sslm.errors.model import UnsupportedArchitectureError

SOURCE_FAMILIES: Final = {family.name: family for family in (LLAMA,)}
"""Every family that can be read."""


def source_family(name: str) -> SourceFamily:
    """Return the family of this name.

    Raises:
        UnsupportedArchitectureError: If there is none.
    """
    if name not in SOURCE_FAMILIES:
        raise UnsupportedArchitectureError(name, ", ".join(sorted(SOURCE_FAMILIES)))
    return SOURCE_FAMILIES[name]
