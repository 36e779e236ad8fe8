"""Commands as processes that get a signal, with what they must leave behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import sslm

PACKAGE: Final = Path(str(sslm.__file__)).parent
MODULE: Final = (sys.executable, "-m", "sslm")
SCRIPT: Final = (sys.executable, "-c", "import sys; from sslm.cli import main; sys.exit(main())")
"""What the console script does, which is there only where the package is installed."""

_CHANGING: Final = frozenset({"usage", "elapsed_ms", "ms", "path"})
"""Facts of JSON output that differ from run to run."""
_END_TIMEOUT_S: Final = 240


@dataclass(frozen=True, kw_only=True)
class Case:
    """A command that is signalled.

    Args:
        name: For reports.
        arguments: Given the folder of a run; its output goes there.
        stdin: What it reads.
        variables: Of its environment.
    """

    name: str
    arguments: Callable[[Path], Sequence[object]]
    stdin: bytes = b""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a process ended.

    Args:
        code: Its exit code; negative if a signal killed it.
        out: Its stdout.
        error: Its stderr.
        files: What is in its folder afterwards, with sizes.
    """

    code: int
    out: bytes
    error: str
    files: dict[str, int]


def run(
    case: Case,
    folder: Path,
    *,
    program: Sequence[str] = MODULE,
    number: signal.Signals = signal.SIGINT,
    delay_s: float | Path | None = None,
    is_twice: bool = False,
) -> Outcome:
    """Run a command in an empty folder; signal it after a delay, or once a file is there."""
    for name in ("cache", "tmp", "out"):
        (folder / name).mkdir(parents=True)
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder / "tmp"))
    # What a case puts there comes first: the package may lie beside all that is installed.
    modules = [case.variables.get("PYTHONPATH"), str(PACKAGE.parent)]
    paths = {
        "PYTHONPATH": os.pathsep.join(filter(None, modules)),
        "SSLM_CACHE_DIR": str(folder / "cache"),
        "OPENBLAS_NUM_THREADS": "1",
    }
    with (folder / "stdin").open("w+b") as stdin:
        stdin.write(case.stdin)
        stdin.seek(0)
        process = subprocess.Popen(
            [*program, *map(str, case.arguments(folder))],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | dict(case.variables) | paths | places,
            preexec_fn=_hear_signals,  # noqa: PLW1509
        )
    try:
        if delay_s is not None:
            _signal(process, number, delay_s)
            if is_twice:
                _signal(process, number, 0.03)
        out, error = process.communicate(timeout=_END_TIMEOUT_S)
    finally:
        process.kill()
    (folder / "stdin").unlink()
    return Outcome(code=process.returncode, out=out, error=error.decode(), files=_files(folder))


def _hear_signals() -> None:
    """Undo what whoever runs the tests in the background has asked for."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _signal(
    process: "subprocess.Popen[bytes]", number: signal.Signals, delay_s: float | Path
) -> None:
    if isinstance(delay_s, Path):
        while not (delay_s.is_file() and delay_s.read_bytes()) and process.poll() is None:
            time.sleep(0.02)
        delay_s = 0
    try:
        process.wait(timeout=delay_s)
    except subprocess.TimeoutExpired:
        process.send_signal(number)


def _files(folder: Path) -> dict[str, int]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(folder)): path.stat().st_size for path in found}


def complaints(whole: Outcome, found: Outcome, number: signal.Signals) -> list[str]:
    """Return what is wrong with how a signalled command ended.

    Args:
        whole: How it ends without a signal.
        found: How it ended.
        number: The signal.
    """
    wrong = []
    if "Traceback" in found.error and not is_before_start(found):
        wrong.append(f"a traceback: {found.error}")
    if found.code == 0:
        if _stable(found.out) != _stable(whole.out):
            wrong.append(f"it ended well with another answer: {found.out!r}")
    elif found.code == 128 + number:
        word = "interrupted" if number == signal.SIGINT else "terminated"
        if found.error.splitlines()[-1:] != [word]:
            wrong.append(f"the last line does not say {word}: {found.error}")
        if not _is_part(whole.out, found.out):
            wrong.append(f"stdout is no part of the answer: {found.out!r}")
    elif not is_before_start(found):
        wrong.append(f"exit code {found.code}: {found.error}")
    changed = {name: size for name, size in found.files.items() if whole.files.get(name) != size}
    if changed:
        wrong.append(f"left behind: {changed}")
    return wrong


def is_before_start(found: Outcome) -> bool:
    """Tell whether the signal came while Python itself was starting, before any line of ours."""
    return found.code in (-2, -15, -1, 1, 130) and not found.out and str(PACKAGE) not in found.error


def _is_part(whole: bytes, part: bytes) -> bool:
    if not whole.startswith(b"{"):
        return whole.startswith(part) or whole.startswith(part.removesuffix(b"\n"))
    if not part or _stable(part) == _stable(whole):
        return True
    facts = json.loads(part)
    return set(facts) == {"error"} and facts["error"]["type"] in ("Interrupted", "Terminated")


def _stable(out: bytes) -> object:
    """Return output without what differs from run to run."""
    return _without_times(json.loads(out)) if out.startswith(b"{") else out


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if key not in _CHANGING}
    return [_without_times(item) for item in value] if isinstance(value, list) else value
