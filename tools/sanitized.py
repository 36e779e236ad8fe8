"""Run the C library under a sanitizer of gcc: tests, schedules of the simulator and fuzz seeds.

Builds the library with AddressSanitizer and UndefinedBehaviorSanitizer (asan) or ThreadSanitizer
(tsan), every tier of this machine, into a folder of its own, beside a copy of the package. Python
itself is not instrumented: the sanitizer's runtime is loaded before it. Needs Linux, gcc, cmake,
ninja, and what `pip install -e '.[test]'` brings. Exit 1 if a part fails or a report names our
library; reports of other libraries are counted.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SEEDS: Final = ROOT / "fuzz" / "seeds"
SCHEDULES: Final = 500
SITES: Final = ("_native.so", "native/src/")
"""What a report names where our library is at fault."""

_PROGRESS_EVERY_S: Final = 10
_TAIL_LINES: Final = 25
_MMAP_BITS: Final = Path("/proc/sys/vm/mmap_rnd_bits")
_MMAP_BITS_MAX: Final = 28
"""Beyond so many random bits of an address, the ThreadSanitizer of gcc 12 does not start."""

_EXAMPLE: Final = """example:
  python -m tools.sanitized asan
  python -m tools.sanitized tsan --only simulation --schedules 50
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitizer:
    """How one is compiled in and told what to do.

    Args:
        flags: Of the compiler, when it links too.
        runtimes: Libraries of gcc that have to be loaded first.
        options: Environment variables, to which the place of reports is added.
        left_out: Tests that say nothing under it, with the reason.
    """

    flags: tuple[str, ...]
    runtimes: tuple[str, ...]
    options: Mapping[str, str]
    left_out: Mapping[str, str]


_OWN_PRELOAD: Final = {
    "tests/backends/test_heap.py": "its children preload a counter of the heap, and nothing else"
}

SANITIZERS: Final = {
    "asan": Sanitizer(
        flags=("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
        runtimes=("libasan.so", "libubsan.so"),
        options={
            # CPython keeps memory to its end. A test that asks for too much expects a refusal.
            # Fuzz targets bound by how much an input lets the process grow.
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=16:",
            "UBSAN_OPTIONS": "print_stacktrace=1:",
        },
        left_out=_OWN_PRELOAD,
    ),
    "tsan": Sanitizer(
        flags=("-fsanitize=thread",),
        runtimes=("libtsan.so",),
        # A Python signal handler runs between instructions of Python, not within the C handler.
        options={"TSAN_OPTIONS": "report_signal_unsafe=0:exitcode=0:history_size=4:"},
        left_out=_OWN_PRELOAD,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One command of a run.

    Args:
        name: As ``--only`` takes it.
        words: Of the command, behind the interpreter.
    """

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a sanitizer said.

    Args:
        summary: In a line.
        is_ours: Whether it names our library.
    """

    summary: str
    is_ours: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a part.

    Args:
        name: Of the part.
        seconds: That it took.
        exit_code: Of its command.
        reports: Of the sanitizer.
        log: What the command printed.
    """

    name: str
    seconds: float
    exit_code: int
    reports: tuple[Report, ...]
    log: str

    @property
    def is_good(self) -> bool:
        """Whether nothing failed, and nothing of ours was reported."""
        return self.exit_code == 0 and not any(report.is_ours for report in self.reports)


def parts_of(sanitizer: Sanitizer, *, schedules: int = SCHEDULES) -> tuple[Part, ...]:
    """Return what is run under a sanitizer, in order."""
    left_out = [word for test in sanitizer.left_out for word in ("--deselect", test)]
    # Without capture, or what a sanitizer says before it ends the process would be lost.
    pytest = ("-m", "pytest", "-q", "-n", "0", "-s", "-p", "no:cacheprovider", *left_out)
    targets = sorted(folder.name for folder in SEEDS.iterdir() if folder.is_dir())
    return (
        Part(
            name="native",
            words=(*pytest, "tests/backends", "tests/unit/backends", "tests/unit/test_memory.py"),
        ),
        Part(name="runtime", words=(*pytest, "tests/unit/runtime")),
        Part(
            name="schema",
            words=(
                *pytest,
                "tests/unit/schema/tokens/test_bound_schema.py",
                "tests/unit/schema/tokens/test_tables.py",
            ),
        ),
        Part(name="simulation", words=("-m", "tests.simulation", "--schedules", str(schedules))),
        *(Part(name=f"fuzz-{target}", words=_replay_words(target)) for target in targets),
    )


def _replay_words(target: str) -> tuple[str, ...]:
    seeds = sorted(path.relative_to(ROOT) for path in (SEEDS / target).iterdir())
    return ("-m", "fuzz", target, "--replay", *map(str, seeds))


def read_reports(paths: Iterable[Path]) -> tuple[Report, ...]:
    """Return what sanitizers wrote into files, a report for each summary line."""
    found = []
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [_report(piece) for piece in _pieces(text)]
    return tuple(found)


def _pieces(text: str) -> Iterator[str]:
    """Yield the reports of a text, whose summaries end them; UBSan's have a line at their head."""
    pieces = re.split(r"(?m)(?<=\n)(?=={18}$)|(?<=\n)(?==={4,}\d+==ERROR)", text)
    yield from (piece for piece in pieces if re.search(r"SUMMARY|runtime error|==ERROR", piece))


def _report(piece: str) -> Report:
    line = re.search(r"(?m)^SUMMARY: (.*)$|^(.*runtime error: .*)$", piece)
    summary = next(filter(None, line.groups())) if line else piece.strip().splitlines()[0]
    return Report(summary=summary, is_ours=any(site in piece for site in SITES))


class Sandbox:
    """A folder with the instrumented library, a copy of the package and an interpreter for them.

    Args:
        name: Of the sanitizer.
        folder: Where; what an earlier run built there is used again.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self._sanitizer, self._folder = SANITIZERS[name], folder
        self._python = folder / "venv" / "bin" / "python"

    def prepare(self) -> None:
        """Build the library, and put it beside the package.

        Raises:
            CalledProcessError: If a step of it fails.
        """
        build, package = self._folder / "build", self._folder / "package"
        flags = " ".join((*self._sanitizer.flags, "-fno-omit-frame-pointer", "-g", "-O1"))
        configure = ("cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja")
        choices = ("-DCMAKE_C_COMPILER=gcc", "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_C_FLAGS={flags}")
        self._call("configure.log", *configure, *choices)
        self._call("build.log", "cmake", "--build", str(build))
        shutil.rmtree(package, ignore_errors=True)
        ignored = shutil.ignore_patterns("_native.*", "__pycache__")
        shutil.copytree(ROOT / "src" / "sslm", package / "sslm", ignore=ignored)
        shutil.copy(build / "_native.so", package / "sslm")
        # An editable installation would be found before PYTHONPATH, but not from another
        # environment, whose list of folders names that one's and does not read its hooks.
        venv = self._folder / "venv"
        self._call("venv.log", sys.executable, "-m", "venv", "--clear", "--without-pip", str(venv))
        installed = [folder for folder in sys.path if folder.endswith("site-packages")]
        lines = "".join(f"{folder}\n" for folder in (package, *installed))
        for folder in venv.glob("lib/python*/site-packages"):
            (folder / "sanitized.pth").write_text(lines, encoding="utf-8")

    def run(self, part: Part) -> Outcome:
        """Run a part and return what came of it; a line on stderr tells that it goes on."""
        reports, log = self._folder / "reports" / part.name, self._folder / f"{part.name}.log"
        shutil.rmtree(reports, ignore_errors=True)
        reports.mkdir(parents=True)
        began = time.monotonic()
        command = [*_unrandomized(), str(self._python), *part.words]
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=ROOT, env=self._environment(reports), stdout=out, stderr=out
            )
            try:
                while (exit_code := _waited(process)) is None:
                    print(f"  {part.name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        return Outcome(
            name=part.name,
            seconds=round(time.monotonic() - began, 1),
            exit_code=exit_code,
            # UndefinedBehaviorSanitizer writes to stderr, whatever it is told.
            reports=read_reports([*sorted(reports.iterdir()), log]),
            log=str(log),
        )

    def _environment(self, reports: Path) -> dict[str, str]:
        options = {
            name: f"{value}log_path={reports / 'report'}"
            for name, value in self._sanitizer.options.items()
        }
        runtimes = " ".join(_runtime(name) for name in self._sanitizer.runtimes)
        # Python's own allocator would hide from a sanitizer where a block ends, and OpenBLAS
        # shares work by flags that ThreadSanitizer does not see.
        quiet = {"PYTHONMALLOC": "malloc", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        own = {"LD_PRELOAD": runtimes, "PYTHONDONTWRITEBYTECODE": "1"}
        return {**os.environ, **quiet, **own, **options}

    def _call(self, log: str, *command: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / log).open("wb") as out:
            subprocess.run(command, cwd=ROOT, stdout=out, stderr=out, check=True)


def _runtime(name: str) -> str:
    done = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _unrandomized() -> tuple[str, ...]:
    """Return what starts a command at addresses that every sanitizer can do with."""
    bits = int(_MMAP_BITS.read_text()) if _MMAP_BITS.exists() else 0
    return ("setarch", "--addr-no-randomize") if bits > _MMAP_BITS_MAX else ()


def _waited(process: "subprocess.Popen[bytes]") -> int | None:
    try:
        return process.wait(_PROGRESS_EVERY_S)
    except subprocess.TimeoutExpired:
        return None


def outcome_text(outcome: Outcome) -> str:
    """Return what is printed of a part."""
    ours = sum(report.is_ours for report in outcome.reports)
    others = len(outcome.reports) - ours
    counts = f"{ours} reports of our library, {others} of others"
    lines = [f"{outcome.name}: exit {outcome.exit_code}, {outcome.seconds} s, {counts}"]
    lines += [f"  {report.summary}" for report in outcome.reports]
    if not outcome.is_good:
        log = Path(outcome.log).read_text(encoding="utf-8", errors="replace")
        lines += [f"  {line}" for line in log.splitlines()[-_TAIL_LINES:]]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Build, run, and tell; return the exit code."""
    parser = argparse.ArgumentParser(
        "python -m tools.sanitized",
        description=__doc__,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sanitizer", choices=sorted(SANITIZERS))
    parser.add_argument("--only", action="append", metavar="PART", help="repeatable; fuzz is all")
    parser.add_argument("--schedules", type=int, default=SCHEDULES, metavar="N", help="(500)")
    parser.add_argument("--folder", type=Path, help="scratch (build/sanitized/SANITIZER)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    arguments = parser.parse_args(words)
    name = arguments.sanitizer
    parts = parts_of(SANITIZERS[name], schedules=arguments.schedules)
    chosen = [part for part in parts if _is_chosen(part, arguments.only)]
    if not chosen:
        parser.error(f"no part is of that name; there are {', '.join(one.name for one in parts)}")
    folder = (arguments.folder or ROOT / "build" / "sanitized" / name).resolve()
    sandbox = Sandbox(name, folder)
    print(f"building in {folder}", file=sys.stderr)
    try:
        sandbox.prepare()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"error: {error}; {folder} has the logs", file=sys.stderr)
        return 1
    outcomes = []
    for part in chosen:
        outcomes.append(sandbox.run(part))
        if not arguments.json:
            print(outcome_text(outcomes[-1]), flush=True)
    if arguments.json:
        print(json.dumps({"sanitizer": name, "parts": [asdict(one) for one in outcomes]}))
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


def _is_chosen(part: Part, only: list[str] | None) -> bool:
    return only is None or part.name in only or part.name.partition("-")[0] in only


if __name__ == "__main__":
    sys.exit(main())
