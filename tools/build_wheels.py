"""Build the wheels of all machines on this one, check each, and run those that can run here.

    python tools/build_wheels.py [--only TARGET] [--out dist] [--json] [--emulated-python FOLDER]

Needs what `pip install -e '.[test]'` brings, and the network for pip. Each wheel is built twice, in
folders of different names, and must come out the same to the byte. Linux AArch64 runs under
qemu-user, with the Python that ``tools/emulated_python.py`` makes; give its folder to use it again.
Nothing is put into the output folder before every check has passed.
"""

import argparse
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
for _folder in (ROOT, ROOT / "build_backend"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from tools.disassembly import DisassemblyError  # noqa: E402
from tools.wheel_build import BuildFailedError, Workshop, clean_environment  # noqa: E402
from tools.wheel_check import (  # noqa: E402
    WheelDefectError,
    check_disassembly,
    check_tiers,
    check_wheel,
    expected_of,
)
from tools.wheel_run import DigestDiffersError, run_emulated, run_native  # noqa: E402
from tools.wheel_targets import TARGETS, Target, Ways  # noqa: E402

QEMU: Final = "qemu-aarch64-static"
INTERRUPTED: Final = 130
FAILURES: Final = (
    BuildFailedError,
    DigestDiffersError,
    DisassemblyError,
    OSError,
    WheelDefectError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is printed of one wheel.

    Args:
        wheel: Name of the file.
        size_bytes: Of the file.
        sha256: Of the file.
        tiers: CPU tiers inside.
        checks: Names of the checks that it passed.
        run: How far it could be tried here.
        digests: How many ways of running it gave the pinned digest.
    """

    wheel: str
    size_bytes: int
    sha256: str
    tiers: tuple[str, ...]
    checks: tuple[str, ...]
    run: str
    digests: int


class Progress:
    """Lines on stderr, each with the time since the start."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()

    def __call__(self, text: str) -> None:
        """Say what begins now."""
        print(f"[{time.monotonic() - self._started_s:4.0f} s] {text}", file=sys.stderr, flush=True)


class Factory:
    """Builds, checks and runs wheels in one temporary folder.

    Args:
        folder: Empty, and removed by the caller.
        emulated: A folder that ``tools/emulated_python.py`` made, or None to make one.
        progress: Told what begins.
    """

    def __init__(self, folder: Path, emulated: Path | None, progress: Progress) -> None:
        self._folder = folder
        self._emulated = emulated
        self._progress = progress
        self._workshop = Workshop(folder)
        self._model = folder / "stories.sslm"

    def prepare(self) -> None:
        """Make what all wheels are built from."""
        self._progress("install what the build needs, pack the sources")
        self._workshop.prepare()
        sdist = self._workshop.pack_sources()
        self._places = [self._workshop.unpack(sdist, name) for name in ("first", "the-second-time")]

    def make(self, target: Target) -> tuple[Path, Row]:
        """Return a wheel that passed every check, with what is said of it."""
        first, second = self._places
        self._progress(f"build {target.name}")
        built = self._workshop.build(first, target)
        expected = expected_of(target, self._foreign_paths(), sources=first)
        checks = check_wheel(built.path, expected)
        tiers = check_tiers(built.commands, target)
        if check_disassembly(built.path, target, built.path.parent / "library"):
            checks = (*checks, "disassembly")
        self._progress(f"build {target.name} again, elsewhere")
        again = self._workshop.build(second, target)
        if built.path.read_bytes() != again.path.read_bytes():
            raise WheelDefectError("reproducible", "another wheel the second time", "the same")
        way, digests = self._try(built.path, target)
        data = built.path.read_bytes()
        row = Row(
            wheel=built.path.name,
            size_bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            tiers=tiers,
            checks=(*checks, "tiers", "reproducible"),
            run=way.value,
            digests=len(digests),
        )
        return built.path, row

    def _foreign_paths(self) -> tuple[str, ...]:
        places = (self._folder, ROOT, Path.home(), Path(sys.prefix))
        return tuple(sorted({str(place) for place in places if len(place.parts) > 1}))

    def _try(self, wheel: Path, target: Target) -> tuple[Ways, dict[str, str]]:
        if _is_this_machine(target):
            self._progress(f"run {target.name}")
            return Ways.NATIVE, run_native(wheel, self._folder / "native", self._model)
        if target.name == "linux-aarch64" and shutil.which(QEMU) and self._model.is_file():
            emulated = self._emulated or self._make_emulated()
            self._progress(f"run {target.name} under {QEMU}")
            folder = self._folder / "aarch64"
            return Ways.EMULATED, run_emulated(wheel, emulated, folder, self._model)
        return Ways.COMPILED, {}

    def _make_emulated(self) -> Path:
        self._progress("make an emulated Python")
        folder = self._folder / "emulated"
        script = str(ROOT / "tools" / "emulated_python.py")
        command = [sys.executable, script, "--cpu", "aarch64", str(folder)]
        done = subprocess.run(
            command, env=clean_environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise BuildFailedError("making an emulated Python", done.stdout + done.stderr)
        return folder


def _is_this_machine(target: Target) -> bool:
    here = (platform.system().lower(), platform.machine().lower())
    return {
        "linux-x86_64": ("linux", "x86_64"),
        "linux-aarch64": ("linux", "aarch64"),
        "windows-x86_64": ("windows", "amd64"),
        "macos-arm64": ("darwin", "arm64"),
    }[target.name] == here


def _keep(wheel: Path, out: Path) -> None:
    """Copy a wheel into the output folder, whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    partial = out / f".{wheel.name}.partial"
    try:
        shutil.copyfile(wheel, partial)
        partial.replace(out / wheel.name)
    finally:
        partial.unlink(missing_ok=True)


def _print_table(rows: list[Row]) -> None:
    print("| wheel | bytes | tiers | run | digests | checked |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        facts = f"`{row.wheel}` | {row.size_bytes:,} | {', '.join(row.tiers)}"
        print(f"| {facts} | {row.run} | {row.digests} | {', '.join(row.checks)} |")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [target.name for target in TARGETS]
    parser.add_argument("--only", action="append", choices=names, help="repeatable")
    parser.add_argument("--out", type=Path, default=Path("dist"), metavar="FOLDER")
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--emulated-python", type=Path, metavar="FOLDER")
    return parser.parse_args()


def main() -> int:
    """Build, check, run, keep, print."""
    options = _options()
    chosen = [t for t in TARGETS if options.only is None or t.name in options.only]
    with tempfile.TemporaryDirectory(prefix="sslm-wheels-", ignore_cleanup_errors=True) as folder:
        factory = Factory(Path(folder).resolve(), options.emulated_python, Progress())
        try:
            factory.prepare()
            made = [factory.make(target) for target in chosen]
        except FAILURES as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        for wheel, _ in made:
            _keep(wheel, options.out)
    rows = [row for _, row in made]
    if options.as_json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        _print_table(rows)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
