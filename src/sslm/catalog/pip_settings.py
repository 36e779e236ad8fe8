"""Which of the user's pip settings a fetch honours: where packages are found, and nothing else.

pip takes every option from variables and from files too. One of them could have it read other
requirements, run another interpreter, or write a log elsewhere. So pip gets no file, and only the
variables that are made here.
"""

import ast
import os
from collections.abc import Mapping
from typing import Final

HONOURED: Final = (
    *("index_url", "extra_index_url", "find_links", "no_index", "trusted_host"),
    *("proxy", "cert", "client_cert", "keyring_provider", "timeout", "default_timeout", "retries"),
)
"""Settings that say where packages are found, and how that place is reached."""

_SECTIONS: Final = ("global", "download")
"""In the order in which pip lets one override the other."""

_PREFIX: Final = "PIP_"
_FILE_VARIABLE: Final = "PIP_CONFIG_FILE"


def listing_environment(outer: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for ``pip config list``: those of pip are left out.

    Args:
        outer: The variables of this process.
    """
    kept = {name: value for name, value in outer.items() if not _is_of_pip(name)}
    if _FILE_VARIABLE in outer:
        kept[_FILE_VARIABLE] = outer[_FILE_VARIABLE]
    return kept


def download_environment(outer: Mapping[str, str], listing: str) -> dict[str, str]:
    """Return the variables for ``pip download``.

    Args:
        outer: The variables of this process.
        listing: What ``pip config list`` printed.
    """
    kept = {name: value for name, value in outer.items() if not _is_of_pip(name)}
    found = _settings_of_files(listing)
    for name in HONOURED:
        value = outer.get(_PREFIX + name.upper()) or found.get(name)
        if value:
            kept[_PREFIX + name.upper()] = value
    # pip reads no file at all then.
    kept[_FILE_VARIABLE] = os.devnull
    return kept


def _settings_of_files(listing: str) -> dict[str, str]:
    """Return what pip's files say, by name; a line is ``section.name='value'``."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        key, _, quoted = line.partition("=")
        section, _, name = key.partition(".")
        if section in found and quoted[:1] in ("'", '"'):
            value = ast.literal_eval(quoted)
            found[section][name.replace("-", "_")] = str(value)
    return {name: value for section in _SECTIONS for name, value in found[section].items()}


def _is_of_pip(name: str) -> bool:
    # Names of variables have no case on Windows.
    return name.upper().startswith(_PREFIX)
