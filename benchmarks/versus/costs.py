"""What the other benchmarks of this folder tell: opening, memory, and a model beyond the caches."""

import hashlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.versus.workers import PACKAGES, REPOSITORY

OPENINGS: Final = 5
CYCLES: Final = 20

_OPEN: Final = """
import json, sys, time
import sslm
imported = time.perf_counter()
load = sslm.load
started = time.perf_counter()
with load(sys.argv[1], sha256=sys.argv[2]):
    print(json.dumps([started - imported, time.perf_counter() - started]))
"""


def measure_costs(path: Path) -> dict[str, Any]:
    """Return the facts of ``benchmarks.footprint``, and seconds of openings with their hash."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    pairs = [json.loads(_run("-c", _OPEN, str(path), digest)) for _ in range(OPENINGS)]
    facts = _benchmark("footprint", str(path), "--cycles", str(CYCLES))
    return facts | {
        "load_import_s": statistics.median(pair[0] for pair in pairs),
        "hashed_open_s": statistics.median(pair[1] for pair in pairs),
    }


def measure_large(threads: int, tier: str, *, rounds: int) -> dict[str, Any]:
    """Return the facts of ``benchmarks.decode`` about a model that is larger than the caches."""
    options = ("--threads", str(threads), "--tier", tier, "--rounds", str(rounds))
    return _benchmark("decode", *options)


def _benchmark(name: str, *arguments: str) -> dict[str, Any]:
    # One that misses its bounds ends with 1, and tells what it measured all the same.
    text = _run("-m", f"benchmarks.{name}", *arguments, "--json", codes=(0, 1))
    facts: dict[str, Any] = json.loads(text)
    return facts


def _run(*arguments: str, codes: tuple[int, ...] = (0,)) -> str:
    paths = os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode not in codes:
        raise SystemExit(f"{' '.join(arguments[:2])} ended with exit code {done.returncode}")
    return done.stdout
