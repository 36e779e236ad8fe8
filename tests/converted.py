"""Artifacts that are converted once per test run."""

import atexit
import tempfile
from functools import cache
from pathlib import Path

from sslm.convert.conversion import convert_gguf
from tests.data import shared_data

STORIES_SOURCE = shared_data("stories260K/stories260K-F32.gguf")


@cache
def stories_artifact() -> Path:
    """Return the path of stories260K as an artifact; tests do not change it."""
    folder = tempfile.TemporaryDirectory(prefix="sslm-tests-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "stories260K.sslm"
    convert_gguf(STORIES_SOURCE, path)
    return path
