"""What importing the package costs, and which copy of it is under test."""

import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import sslm

SOURCES = Path(__file__).parents[1] / "src"


def _after(statement: str) -> dict[str, list[str]]:
    """Return the modules and threads of a new interpreter that has run *statement*."""
    program = (
        f"import json, sys, threading\n{statement}\n"
        "threads = [thread.name for thread in threading.enumerate()]\n"
        "try:\n    import os; threads = os.listdir('/proc/self/task')\n"
        "except OSError:\n    pass\n"
        "print(json.dumps({'modules': list(sys.modules), 'threads': threads}))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    assert done.stderr == ""
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("heavy", ["numpy", "tokenizers", "jinja2", "typer", "rich", "gguf"])
def test_importing_the_package_loads_nothing_heavy(heavy: str) -> None:
    assert heavy not in _after("import sslm")["modules"]


def test_importing_the_package_starts_no_thread() -> None:
    assert len(_after("import sslm")["threads"]) == 1


@pytest.mark.parametrize(
    "module", ["sslm.formats.gguf", "sslm.artifact", "sslm.runtime.stepper", "sslm.backends.native"]
)
def test_opening_and_running_a_model_needs_no_numpy(module: str) -> None:
    assert "numpy" not in _after(f"import {module}")["modules"]


def _is_editable() -> bool:
    try:
        origin = importlib.metadata.distribution("sslm").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return False
    return bool(json.loads(origin or "{}").get("dir_info", {}).get("editable"))


def test_the_installed_package_is_under_test() -> None:
    """Sources count only where PYTHONPATH or an editable installation asks for them."""
    asked = [Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    location = Path(str(sslm.__file__)).resolve().parents[1]
    if SOURCES.resolve() in asked or _is_editable():
        assert location == SOURCES.resolve()
    else:
        installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
        assert location in installed
