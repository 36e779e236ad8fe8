"""Runs the command lines of a case as processes, and makes what they print comparable."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.corpus.commands import Case
from tests.corpus.inputs import copy_inputs

_PROGRAM: Final = "from sslm.cli import main; main()"
_UNSTABLE_KEY: Final = re.compile(
    r"_(ms|s|ns|at)$|seconds|^(huge_page_bytes|ways|versions)$"
    r"|^(kl|mean_difference|perplexity_change|source_perplexity|(clustered_)?standard_error)$"
)
"""Keys of times, and of what depends on the machine: scores of a source in float32, too."""
_PROGRESS: Final = re.compile(r"^(compiling the schema|[a-z ]+: \d+ %)\n", re.MULTILINE)
"""Lines that are there only where something takes long."""
_TIME: Final = re.compile(r"\b\d+(\.\d+)? ?(ms|s|min)\b")


def run_case(case: Case, inputs: Path, folder: Path) -> list[dict[str, Any]]:
    """Run the lines of a case in a folder of its own; return what each of them did."""
    copy_inputs(inputs, folder)
    seen = _files(folder)
    results = []
    for line in case.lines:
        results.append(_run_line(line, case.stdin, folder))
        found = _files(folder)
        results[-1]["files"] = {
            name: value for name, value in found.items() if seen.get(name) != value
        }
        results[-1]["gone"] = sorted(seen.keys() - found.keys())
        seen = found
    return results


def _run_line(line: tuple[str, ...], stdin: str, folder: Path) -> dict[str, Any]:
    settings = {
        "SSLM_TIER": "" if "--tier" in line or "reference" in line else "scalar",
        "SSLM_THREADS": "1",
        "SSLM_CACHE_DIR": str(folder / "cache"),
        "SSLM_OFFLINE": "1",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *line],
        input=stdin.encode(),
        capture_output=True,
        cwd=folder,
        env={"PATH": os.environ["PATH"], **settings},
        timeout=300,
        check=False,
    )
    return {
        "line": list(line),
        "stdin": stdin,
        "code": ended.returncode,
        "stdout": _comparable(ended.stdout, folder),
        "stderr": _comparable(ended.stderr, folder),
    }


def _comparable(output: bytes, folder: Path) -> Any:
    text = output.decode("utf-8", "backslashreplace").replace(str(folder), "{folder}")
    text = _PROGRESS.sub("", text)
    if text.startswith("{"):
        return _stable(json.loads(text))
    return _TIME.sub("#", text)


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stable(one) for key, one in value.items() if not _UNSTABLE_KEY.search(key)}
    if isinstance(value, list):
        return [_stable(one) for one in value]
    return _TIME.sub("#", value) if isinstance(value, str) else value


def _files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in {"lock"}
    }
