"""Where a model in the cache came from: a note beside its file, which no byte of it depends on."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from sslm import limits
from sslm.json_nesting import nesting_of
from sslm.threads import open_file

ENDING: Final = ".origin.json"
"""What replaces ``.sslm`` in the name of the model's file."""


def origin_path(model: Path) -> Path:
    """Return where the note about a model's file lies."""
    return model.with_name(model.name.removesuffix(".sslm") + ENDING)


def encode_origin(origin: Mapping[str, str]) -> bytes:
    """Return the note's bytes."""
    return json.dumps(dict(sorted(origin.items())), ensure_ascii=True).encode("ascii") + b"\n"


def read_origin(model: Path) -> dict[str, str]:
    """Return what is noted about a model's file: names with texts; nothing if it cannot be read.

    It is for people to read, as anybody can have written it. All that is decided by it is whether
    a model is replaced by a newer conversion of the same source.
    """
    path = origin_path(model)
    with suppress(OSError, ValueError):
        if path.is_symlink() or not path.is_file():
            return {}
        with open_file(path, "rb") as file:
            text = file.read(limits.ORIGIN_SIZE_BYTES_MAX + 1)
        if len(text) <= limits.ORIGIN_SIZE_BYTES_MAX and nesting_of(text).depth == 1:
            origin = json.loads(text)
            if isinstance(origin, dict) and all(isinstance(one, str) for one in origin.values()):
                return origin
    return {}
