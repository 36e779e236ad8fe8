"""Conversion gives the same bytes under every floating-point library; what opening takes.

    python -m benchmarks.conversion SOURCE.gguf [--weights int8|int4] [--json] [--repeats N]

Converts a model twice as it comes, then under other kernels of OpenBLAS and with NumPy's vector
code switched off, each in a process of its own, and compares the files, also with the hash that
this version pins for the source. Then times opening the artifact, hash included, and importing the
package in fresh processes. Exit 1 if any byte differs.
"""

import argparse
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sslm.catalog.known_models import KNOWN_MODELS
from sslm.convert.weight_formats import WEIGHT_FORMATS

CONVERT = """
import sys
from sslm.convert.conversion import convert_gguf
convert_gguf(sys.argv[1], sys.argv[2], weights=sys.argv[3])
"""
LIST_FEATURES = """
from numpy._core import _multiarray_umath as found
print(*[name for name in found.__cpu_dispatch__ if found.__cpu_features__[name]])
"""
OPEN_MODEL = """
import sys, time
from sslm.engine.model import Model
started = time.perf_counter()
model = Model(sys.argv[1])
print(time.perf_counter() - started)
"""
IMPORT_PACKAGE = """
import time
started = time.perf_counter()
import sslm
print(time.perf_counter() - started)
"""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One environment to convert in."""

    name: str
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a conversion in one environment gave.

    Args:
        setting: The environment's name.
        blas_core: The kernels that OpenBLAS says it uses, or a dash.
        sha256: Of the artifact.
        seconds: Of the whole process.
    """

    setting: str
    blas_core: str
    sha256: str
    seconds: float


def settings() -> list[Setting]:
    """Return the environments, those that vary NumPy's code according to this machine's CPU."""
    dispatched = _run(LIST_FEATURES).stdout.split()
    widest = [name for name in dispatched if re.match(r"AVX512|X86_V4", name)]
    found = [
        Setting(name="as it comes"),
        Setting(name="again"),
        Setting(name="one BLAS thread", environment={"OPENBLAS_NUM_THREADS": "1"}),
        Setting(name="OpenBLAS Haswell", environment={"OPENBLAS_CORETYPE": "Haswell"}),
        Setting(name="OpenBLAS Prescott", environment={"OPENBLAS_CORETYPE": "Prescott"}),
    ]
    for name, features in (("NumPy without AVX-512", widest), ("NumPy baseline", dispatched)):
        if features:
            mask = {"NPY_DISABLE_CPU_FEATURES": " ".join(features)}
            found.append(Setting(name=name, environment=mask))
    return found


def convert(source: Path, out: Path, weights: str, setting: Setting) -> Row:
    """Convert in a process of its own."""
    started = time.perf_counter()
    done = _run(
        CONVERT,
        *(source, out, weights),
        environment={"OPENBLAS_VERBOSE": "2", **setting.environment},
    )
    core = re.search(r"^Core: (\S+)", done.stdout + done.stderr, re.MULTILINE)
    return Row(
        setting=setting.name,
        blas_core=core[1] if core else "-",
        sha256=hashlib.sha256(out.read_bytes()).hexdigest(),
        seconds=time.perf_counter() - started,
    )


def pinned_sha256(source: Path) -> str | None:
    """Return the hash that this version pins for what a source is converted to."""
    found = hashlib.sha256(source.read_bytes()).hexdigest()
    known = [model for model in KNOWN_MODELS.values() if model.source.sha256 == found]
    return known[0].artifact_sha256 if known else None


def seconds_of(program: str, *arguments: object, repeats: int) -> tuple[float, float]:
    """Return median and least of what a program prints in fresh processes."""
    found = [float(_run(program, *arguments).stdout) for _ in range(max(repeats, 1))]
    return statistics.median(found), min(found)


def _run(
    program: str, *arguments: object, environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        check=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | (environment or {}),
    )


def main() -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source", type=Path, help="a GGUF file")
    parser.add_argument("--weights", choices=WEIGHT_FORMATS, default="int8")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--repeats", type=int, default=7, help="processes to time each")
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for index, setting in enumerate(settings()):
            # The same name each time, as the file does not know its own.
            out = Path(folder) / str(index) / "model.sslm"
            out.parent.mkdir()
            rows.append(convert(arguments.source, out, arguments.weights, setting))
            if not arguments.json:
                _print_row(rows[-1], is_first=index == 0)
        open_s = seconds_of(OPEN_MODEL, out, repeats=arguments.repeats)
        size_bytes = out.stat().st_size
    import_s = seconds_of(IMPORT_PACKAGE, repeats=arguments.repeats)
    # What is pinned is a conversion to int8.
    pinned = pinned_sha256(arguments.source) if arguments.weights == "int8" else None
    is_same = {row.sha256 for row in rows} | {pinned or rows[0].sha256} == {rows[0].sha256}
    if arguments.json:
        facts = {"ok": is_same, "pinned": pinned, "conversions": [asdict(row) for row in rows]}
        print(json.dumps(facts | {"open_s": open_s, "import_s": import_s, "bytes": size_bytes}))
    else:
        print(f"{'pinned by this version':<22} {'':<10} {(pinned or 'none')[:16]}")
        print(f"open {size_bytes} bytes, hash included: {_shown(open_s)}")
        print(f"import sslm: {_shown(import_s)}")
        print("ok" if is_same else "DIFFERENT")
    return 0 if is_same else 1


def _shown(seconds: tuple[float, float]) -> str:
    return f"median {seconds[0]:.3f} s, best {seconds[1]:.3f} s"


def _print_row(row: Row, *, is_first: bool) -> None:
    if is_first:
        print(f"{'conversion':<22} {'BLAS':<10} {'sha256':<16} {'seconds':>8}")
    print(f"{row.setting:<22} {row.blas_core:<10} {row.sha256[:16]} {row.seconds:>8.1f}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
