"""What importing the package costs, and which copy of it is under test."""

import importlib.metadata
import json
import os
import pkgutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import sslm
from tests.converted import stories_artifact

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
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=240)
    assert done.stderr == ""
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("heavy", ["numpy", "tokenizers", "jinja2", "typer", "rich", "gguf"])
def test_importing_the_package_loads_nothing_heavy(heavy: str) -> None:
    assert heavy not in _after("import sslm")["modules"]


def test_importing_the_package_starts_no_thread() -> None:
    assert len(_after("import sslm")["threads"]) == 1


@pytest.mark.parametrize(
    "module",
    [
        "sslm.formats.gguf.file",
        "sslm.artifact",
        "sslm.runtime.slices.stepper",
        "sslm.backends.native",
    ],
)
def test_opening_and_running_a_model_needs_no_numpy(module: str) -> None:
    assert "numpy" not in _after(f"import {module}")["modules"]


def test_no_module_starts_a_thread_when_it_is_imported() -> None:
    """All but NumPy's own: it starts those of its BLAS, unless its environment says otherwise."""
    names = [
        info.name
        for info in pkgutil.walk_packages(sslm.__path__, "sslm.")
        if not info.name.endswith((".__main__", "._native"))
    ]
    assert len(names) > 100
    statement = "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'\n"
    statement += "\n".join(f"import {name}" for name in names)
    assert len(_after(statement)["threads"]) == 1
    without_numpy = "import sslm.cli.app, sslm.engine.model, sslm.catalog.loading"
    assert len(_after(without_numpy)["threads"]) == 1


def test_answering_on_the_native_backend_needs_no_numpy() -> None:
    found = _after(
        f"import sslm\nwith sslm.load({str(stories_artifact())!r}) as model:\n"
        "    model.generate('Once', max_tokens=2)\n    model.spec"
    )
    assert not {"numpy", "gguf", "jinja2", "asyncio.base_events"} & set(found["modules"])
    assert len(found["threads"]) == 1


def test_importing_the_package_loads_next_to_nothing() -> None:
    """``python -m benchmarks.footprint`` tells how long it takes."""
    found, before = _after("import sslm")["modules"], _after("")["modules"]
    loaded = {name for name in set(found) - set(before) if not name.startswith("_")}
    own = {name for name in loaded if name.partition(".")[0] == "sslm"}
    assert own == {"sslm", "sslm.version"}
    assert {name.partition(".")[0] for name in loaded - own} <= sys.stdlib_module_names
    assert len(loaded - own) < 20


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
