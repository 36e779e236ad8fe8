"""Every exception of the package, and the stable numbers of their causes.

A package rather than one module, because there are more classes than a module may hold; callers
import from here and need not know where a class lives.
"""

# ruff: noqa: F403 (for type checkers only, and naming 200 classes twice would not make it clearer)

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sslm.errors.artifact import *
    from sslm.errors.base import *
    from sslm.errors.batches import *
    from sslm.errors.binding import *
    from sslm.errors.canonical_json import *
    from sslm.errors.catalog import *
    from sslm.errors.causes import *
    from sslm.errors.choosing import *
    from sslm.errors.commands import *
    from sslm.errors.convert import *
    from sslm.errors.engine import *
    from sslm.errors.gguf import *
    from sslm.errors.model import *
    from sslm.errors.native import *
    from sslm.errors.program import *
    from sslm.errors.reading import *
    from sslm.errors.records import *
    from sslm.errors.runtime import *
    from sslm.errors.saves import *
    from sslm.errors.schema import *
    from sslm.errors.schema_documents import *
    from sslm.errors.schema_files import *
    from sslm.errors.sessions import *
    from sslm.errors.status import *
    from sslm.errors.text import *

MODULES: Final = (
    "base",
    "status",
    "runtime",
    "engine",
    "catalog",
    "artifact",
    "batches",
    "binding",
    "canonical_json",
    "causes",
    "choosing",
    "commands",
    "convert",
    "gguf",
    "model",
    "native",
    "program",
    "reading",
    "records",
    "saves",
    "schema",
    "schema_documents",
    "schema_files",
    "sessions",
    "text",
)
"""Where classes are looked for, in this order; most programs name only those of the first few."""


def __getattr__(name: str) -> object:
    """Find a class in its module when it is first asked for, so that an import stays cheap."""
    if name == "Status" or name.endswith("Error"):
        for module_name in MODULES:
            module = importlib.import_module(f"{__name__}.{module_name}")
            found: object = vars(module).get(name)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return all names, those not yet asked for included."""
    names = {"Status"}
    for module_name in MODULES:
        module = importlib.import_module(f"{__name__}.{module_name}")
        names.update(name for name in vars(module) if name.endswith("Error"))
    return sorted(names)
