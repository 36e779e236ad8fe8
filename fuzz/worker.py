"""The process that runs inputs: ``python -m fuzz.worker fuzz|replay|lines TARGET ...``.

It is a process of its own, so that a crash ends it and not the search.
"""

import argparse
import importlib
import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fuzz.execution import PeakMemory, execute
from fuzz.findings import save_finding
from fuzz.line_coverage import module_names, replay_lines
from fuzz.shared_state import SharedState
from fuzz.target import Outcomes, Target
from fuzz.targets import load_target
from fuzz.worker_report import WorkerReport, write_report

RESIDENT_MIB_MAX: Final = 2048
HANG_SECONDS: Final = 30
_ADDRESS_SPACE_BYTES_MAX: Final = 4 << 30
"""Beyond what is mapped at the start; more is refused by the system, and seen as an exception."""

_REPORT_EVERY_S: Final = 1.0
_LINES_SECONDS_MAX: Final = 120.0


def main(arguments: list[str]) -> None:
    """Do what the parent asks for."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.worker")
    parser.add_argument("mode", choices=("fuzz", "replay", "lines"))
    parser.add_argument("target")
    parser.add_argument("--state", type=Path)
    parser.add_argument("--findings", type=Path)
    parser.add_argument("inputs", nargs="*", type=Path)
    parser.add_argument("--libfuzzer", action="append", default=[])
    options = parser.parse_args(arguments)
    if options.mode == "fuzz":
        _fuzz(options)
    elif options.mode == "replay":
        _replay(load_target(options.target), options.inputs)
    else:
        _lines(load_target(options.target), options.inputs)


def _fuzz(options: argparse.Namespace) -> None:
    import atheris  # type: ignore[import-untyped]

    with atheris.instrument_imports(include=["sslm"]):
        target = load_target(options.target)
        # Those that are imported late would otherwise be run without being watched.
        for name in module_names(target.modules):
            importlib.import_module(name)
    _bound_memory()
    worker = _Fuzzing(target, options.findings, options.state)
    warm_up(target)
    worker.report()
    settings: dict[str, Any] = {}
    if (mutate := target.mutate) is not None:
        settings["custom_mutator"] = lambda data, size_bytes_max, seed: mutate(
            data, size_bytes_max, seed, atheris.Mutate
        )
    atheris.Setup(["fuzz", *options.libfuzzer], worker.run, **settings)
    atheris.Fuzz()


def _bound_memory() -> None:
    mapped = Path("/proc/self/statm")
    if not mapped.exists():
        return
    pages = int(mapped.read_text().split()[0])
    most = pages * resource.getpagesize() + _ADDRESS_SPACE_BYTES_MAX
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def warm_up(target: Target) -> None:
    """Run a seed of the target, so that what is imported or kept once is charged to no input."""
    memory = PeakMemory()
    for data in target.seeds()[:1] + target.seeds()[-1:]:
        execute(target, data, Outcomes(), memory)


class _Fuzzing:
    """Runs the inputs of the search, and keeps count."""

    def __init__(self, target: Target, findings: Path, state: Path) -> None:
        self._target = target
        self._findings = findings
        self._state_path = state
        self._report = WorkerReport()
        self._state = SharedState(state)
        self._memory = PeakMemory()
        self._reported = time.monotonic()

    def run(self, data: bytes) -> None:
        """Run one input."""
        self._state.begin(data)
        done = execute(self._target, data, self._report.outcomes, self._memory)
        for finding in done.findings:
            save_finding(self._findings, finding, data)
        self._report.note(done)
        if time.monotonic() - self._reported > _REPORT_EVERY_S:
            self.report()

    def report(self) -> None:
        """Leave the counts where the parent finds them."""
        write_report(self._state_path, self._report)
        self._reported = time.monotonic()


def _replay(target: Target, paths: list[Path]) -> None:
    """Print one JSON line for each input."""
    warm_up(target)
    memory = PeakMemory()
    for path in paths:
        outcomes = Outcomes()
        done = execute(target, path.read_bytes(), outcomes, memory)
        facts = {
            "input": str(path),
            "seconds": round(done.seconds, 3),
            "growth_bytes": done.growth_bytes,
            "outcomes": dict(outcomes),
            "findings": [
                {"kind": one.kind, "signature": one.signature, "story": one.story}
                for one in done.findings
            ],
        }
        print(json.dumps(facts), flush=True)


def _lines(target: Target, folders: list[Path]) -> None:
    """Print one JSON object: the lines that the inputs in these folders reach."""
    paths = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_file()]
    warm_up(target)
    found, done = replay_lines(target, _contents(paths), seconds_max=_LINES_SECONDS_MAX)
    facts = {
        "inputs": len(paths),
        "replayed": done,
        "modules": {
            one.module: {
                "lines": len(one.lines),
                "reached": len(one.reached),
                "missed": one.missed,
            }
            for one in found
        },
    }
    print(json.dumps(facts))


def _contents(paths: list[Path]) -> Iterator[bytes]:
    return (path.read_bytes() for path in paths)


if __name__ == "__main__":
    main(sys.argv[1:])
