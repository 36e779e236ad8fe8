"""The targets, each in a module of its own name."""

import importlib
from typing import Final

from fuzz.target import Target

NAMES: Final = (
    "gguf",
    "gguf_fields",
    "artifact",
    "artifact_json",
    "save",
    "record",
    "schema",
    "tokenizer",
    "template",
    "options",
    "batch",
)


def load_target(name: str) -> Target:
    """Import a target by its name, or by that of its module if it lies elsewhere."""
    module = name if "." in name else f"{__name__}.{name}"
    target: Target = importlib.import_module(module).TARGET
    return target
