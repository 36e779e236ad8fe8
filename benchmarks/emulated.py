"""One digest from other CPUs and another compiler: emulated ones, and libraries that zig built.

    python -m benchmarks.emulated MODEL.sslm ... [--aarch64 FOLDER] [--quick] [--json]

FOLDER is what ``python tools/emulated_python.py FOLDER`` made. Each row is a process of its own: a
library, a CPU, a tier. It answers one prompt without importing NumPy, and its digest is compared
with the reference backend's. Where a CPU lacks a tier, the row is right if the tier is refused by
name. Needs qemu-user (qemu-user-static), CMake, Ninja and the package ziglang. Exit 1 if any row is
wrong.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import sslm
from sslm.native_library import available_tiers, load_library

ROOT = Path(__file__).parents[1]
PROMPT = "The capital of France is"
MAX_TOKENS = 24
ZIG_TARGETS = {"x86_64": "x86_64-linux-gnu.2.17", "aarch64": "aarch64-linux-gnu.2.17"}
QUICK_CPUS = ("this one", "qemu64,-sse3", "max")
"""Of a large model, to which emulators give minutes."""
INSTALLED = "installed"
REFUSED = "refused"
ANSWER = """
import json, platform, sys
import sslm
path, backend, tier, prompt, count = sys.argv[1:]
try:
    with sslm.load(path, backend=backend, tier=tier) as model:
        assert backend == "reference" or model.tier == tier
        print(model.generate(prompt, max_tokens=int(count)).digest)
except sslm.SslmError as error:
    if type(error).__name__ != "TierUnavailableError":
        raise
    print("refused")
assert backend == "reference" or "numpy" not in sys.modules
"""


@dataclass(frozen=True, kw_only=True)
class Way:
    """One library on one CPU.

    Args:
        library: Which: the installed one, or what zig built.
        cpu: As qemu calls it, or "this one".
        tier: To ask for.
        is_refused: Whether this CPU lacks the tier.
        command: Starts Python.
        environment: Variables for it.
    """

    library: str
    cpu: str
    tier: str
    command: tuple[str, ...]
    is_refused: bool = False
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def how(self) -> str:
        """Return by what it runs."""
        emulator = self.environment.get("QEMU_CPU") or "qemu" in self.command[0]
        return "qemu-user" if emulator else "natively"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    model: str
    library: str
    tier: str
    cpu: str
    how: str
    digest: str
    is_right: bool
    seconds: float


def native_ways(library: str) -> Iterator[Way]:
    """Yield every tier of this machine."""
    for tier in available_tiers():
        yield Way(library=library, cpu="this one", tier=tier, command=(sys.executable,))


def x86_ways(library: str) -> Iterator[Way]:
    """Yield CPUs of x86-64: the baseline alone, one with SSE 4.2, one with AVX2."""
    python = str(Path(sys.executable).resolve())
    for cpu, tier, is_refused in (
        ("qemu64,-sse3", "scalar", False),
        ("qemu64,-sse3", "avx2", True),
        ("Nehalem", "scalar", False),
        ("Haswell", "avx2", False),
        ("Haswell", "avxvnni", True),
        ("Haswell", "amx", True),
    ):
        command = ("qemu-x86_64-static", "-cpu", cpu, python)
        yield Way(library=library, cpu=cpu, tier=tier, is_refused=is_refused, command=command)


def arm_ways(library: str, folder: Path) -> Iterator[Way]:
    """Yield CPUs of AArch64 without and with dot products."""
    for cpu, tier, is_refused in (
        ("cortex-a53", "scalar", False),
        ("cortex-a53", "neon", True),
        ("cortex-a76", "neon", False),
        ("max", "neon", False),
    ):
        yield Way(
            library=library,
            cpu=cpu,
            tier=tier,
            is_refused=is_refused,
            command=(str(folder.absolute() / "bin" / "python"),),
            environment={"QEMU_CPU": cpu},
        )


def build_with_zig(target: str, folder: Path) -> Path:
    """Build the library for a target of zig's and return its path."""
    sys.path.insert(0, str(ROOT / "build_backend"))
    from sslm_build.compiler import zig_program

    toolchain = ROOT / "build_backend" / "sslm_build" / "zig.cmake"
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja"]
    configure += [f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DSSLM_ZIG={zig_program()}"]
    subprocess.run(
        [*configure, f"-DSSLM_ZIG_TARGET={target}"], check=True, stdout=subprocess.DEVNULL
    )
    subprocess.run(["cmake", "--build", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return folder / "_native.so"


def package_with(library: Path, folder: Path) -> Path:
    """Copy the package into *folder*, with another library in it."""
    installed = load_library().path
    source = Path(sslm.__file__).parent
    shutil.copytree(source, folder / "sslm", ignore=shutil.ignore_patterns("_native.*", "*.pyc"))
    shutil.copyfile(library, folder / "sslm" / installed.name)
    return folder


def digest_of(way: Way, package: Path, model: Path, *, backend: str = "native") -> str:
    """Return what a way answers: a digest, or ``REFUSED``."""
    dependencies = [entry for entry in sys.path if entry.endswith("site-packages")]
    if "QEMU_CPU" in way.environment:
        dependencies = []
    path = os.pathsep.join([str(package), *dependencies])
    environment = os.environ | way.environment | {"PYTHONPATH": path}
    script = [*way.command, "-c", ANSWER, str(model.absolute()), backend, way.tier]
    done = subprocess.run(
        [*script, PROMPT, str(MAX_TOKENS)],
        env=environment,
        # Not the checkout, whose package would be found first.
        cwd=package,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line]
    return lines[-1] if done.returncode == 0 and lines else f"failed: {done.stderr[-200:].strip()}"


def rows_of(model: Path, ways: list[Way], packages: dict[str, Path]) -> Iterator[Row]:
    """Answer in every way; yield the reference's row first."""
    started = time.perf_counter()
    plain = Way(library="NumPy", cpu="this one", tier="auto", command=(sys.executable,))
    expected = digest_of(plain, packages[INSTALLED], model, backend="reference")
    yield _row(model, plain, "reference", expected, is_right=len(expected) == 64, since=started)
    for way in ways:
        started = time.perf_counter()
        digest = digest_of(way, packages[way.library], model)
        is_right = digest == (REFUSED if way.is_refused else expected)
        yield _row(model, way, way.tier, digest, is_right=is_right, since=started)


def _row(model: Path, way: Way, tier: str, digest: str, *, is_right: bool, since: float) -> Row:
    return Row(
        model=model.stem,
        library=way.library,
        tier=tier,
        cpu=way.cpu,
        how=way.how,
        digest=digest,
        is_right=is_right,
        seconds=round(time.perf_counter() - since, 1),
    )


def main() -> int:
    """Build, run, print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path, nargs="+", help="an artifact")
    parser.add_argument("--aarch64", type=Path, help="a folder with an emulated Python")
    parser.add_argument("--quick", action="store_true", help="fewer CPUs, for large models")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packages = {INSTALLED: package_with(load_library().path, folder / INSTALLED)}
        ways = [*native_ways(INSTALLED), *x86_ways(INSTALLED)]
        for cpu in ["x86_64", *(["aarch64"] if options.aarch64 else [])]:
            library = build_with_zig(ZIG_TARGETS[cpu], folder / f"build-{cpu}")
            packages[f"zig {cpu}"] = package_with(library, folder / cpu)
        ways += [*native_ways("zig x86_64"), *x86_ways("zig x86_64")]
        if options.aarch64:
            ways += arm_ways("zig aarch64", options.aarch64)
        if options.quick:
            ways = [way for way in ways if way.cpu in QUICK_CPUS]
        for model in options.model:
            for row in rows_of(model, ways, packages):
                rows.append(row)
                if not options.json:
                    _print_row(row, is_first=len(rows) == 1)
    ok = all(row.is_right for row in rows)
    if options.json:
        print(json.dumps({"ok": ok, "rows": [asdict(row) for row in rows]}))
    else:
        print(("ok" if ok else "WRONG") + ("" if options.aarch64 else "; AArch64 was left out"))
    return 0 if ok else 1


def _print_row(row: Row, *, is_first: bool) -> None:
    if is_first:
        print(f"{'model':<12} {'library':<12} {'tier':<11} {'cpu':<13} {'how':<10} digest")
    digest = row.digest[:16] if row.is_right else f"{row.digest} WRONG"
    words = f"{row.model[:12]:<12} {row.library:<12} {row.tier:<11} {row.cpu:<13} {row.how:<10}"
    print(f"{words} {digest:<16} {row.seconds:>6.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
