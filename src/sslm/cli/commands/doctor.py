"""``sslm doctor``: what this machine and this installation can do."""

import os
import platform
import sys
from pathlib import Path
from typing import Final

import typer

from sslm import limits
from sslm.catalog.child_process import python_problem
from sslm.cli.cores import physical_cores
from sslm.cli.exit_codes import exit_code
from sslm.cli.options.model import CacheDirOption, JsonOption
from sslm.cli.screen.output import print_json, print_text, shown
from sslm.errors.base import SslmError
from sslm.memory import huge_page_mode
from sslm.version import VERSION

DEPENDENCIES: Final = (
    "numpy",
    "cffi",
    "tokenizers",
    "jinja2",
    "gguf",
    "mpmath",
    "platformdirs",
    "rich",
    "typer",
)
"""Packages whose version may explain a difference between two machines."""

Facts = dict[str, object]


_EPILOG: Final = "Example: sslm doctor --json"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("doctor", epilog=_EPILOG)(doctor)


def doctor(*, cache_dir: CacheDirOption = None, as_json: JsonOption = False) -> int:
    """Show CPU features, the tiers that run here and those that do not, the cache, and versions.

    Exit 0 if models can run on the native backend.
    """
    native, error = _native_facts()
    facts: Facts = {
        "ok": error is None,
        "native": native,
        "threads": {
            "default": min(physical_cores(), limits.THREAD_COUNT_MAX),
            "cpus": os.cpu_count() or 1,
        },
        "memory": {"huge_pages": huge_page_mode()},
        "cache": _cache_facts(cache_dir),
        "versions": _versions(),
        "platform": {
            "system": platform.system(),
            "machine": platform.machine(),
            "python": sys.executable if python_problem() is None else None,
        },
    }
    if as_json:
        print_json(facts)
    else:
        print_text("".join(_lines(facts)))
    return 0 if error is None else exit_code(error)


def _native_facts() -> tuple[Facts, SslmError | None]:
    """Return what the C library says of this machine, or why it does not."""
    # Loading it is what may fail, so nothing else depends on it.
    from sslm import native_library

    try:
        available = list(native_library.available_tiers())
        return {
            "library": str(native_library.load_library().path),
            "cpu_features": list(native_library.cpu_features()),
            "tiers": available,
            "tiers_not_here": [name for name in native_library.TIERS if name not in available],
            "default_tier": native_library.best_tier(),
        }, None
    except SslmError as error:
        return {"problem": str(error), "status": int(error.status)}, error


def _cache_facts(cache_dir: CacheDirOption) -> Facts:
    from sslm.catalog.cache import Cache, cache_folder

    cache = Cache(cache_folder(cache_dir))
    models = cache.models()
    return {
        "path": str(cache.folder),
        "models": [model.name for model in models],
        "size_bytes": sum(model.size_bytes for model in models),
        "problem": _cache_problem(cache.folder),
    }


def _cache_problem(folder: Path) -> str | None:
    """Return why no model can be put into the cache, or None."""
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not there.is_dir():
        return f"{there} is no folder"
    return None if os.access(there, os.W_OK | os.X_OK) else f"{there} cannot be written"


def _versions() -> Facts:
    from sslm.formats.sslm.container import FORMAT_VERSION
    from sslm.program.program import ARITHMETIC_VERSION, PROFILE

    return {
        "sslm": VERSION,
        "arithmetic": f"{PROFILE} version {ARITHMETIC_VERSION}",
        "format": FORMAT_VERSION,
        "python": platform.python_version(),
        **{name: _version(name) for name in DEPENDENCIES},
    }


def _version(package: str) -> str | None:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _lines(facts: Facts) -> list[str]:
    lines = []
    for title, group in facts.items():
        if not isinstance(group, dict):
            continue
        lines.append(f"{title}\n")
        for name, value in group.items():
            text = ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
            lines.append(
                f"  {name.replace('_', ' '):<14} {'none' if value is None else shown(text)}\n"
            )
    return lines
