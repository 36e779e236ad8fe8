"""Names in files: of feature bits, and of schemas."""

import re
from enum import IntFlag
from typing import Final

from sslm import limits

_NAME: Final = re.compile("[A-Za-z0-9._-]+")


def feature_names(kind: type[IntFlag], bits: int) -> str:
    """Name features, those that have no name yet by their number."""
    names = {feature.value: str(feature.name).lower() for feature in kind}
    found = [index for index in range(32) if bits >> index & 1]
    texts = [names.get(1 << index, f"feature {index}").replace("_", " ") for index in found]
    return ", ".join(texts)


def is_schema_name(name: str) -> bool:
    """Tell whether schemas in files can have a name."""
    return len(name) <= limits.SCHEMA_NAME_SIZE_CHARS_MAX and bool(_NAME.fullmatch(name))
