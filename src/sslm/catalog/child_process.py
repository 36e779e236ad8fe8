"""Python programs of others, run so that they end when this process ends, however that happens."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import Final

from sslm import limits
from sslm.threads import open_file

STALL_S_MAX: Final = 300
"""Longest time in which a child may bring no new byte; its own timeouts are far shorter."""

_PYTHON_NAME: Final = re.compile("python|pypy|graalpy", re.IGNORECASE)
_FULL: Final = re.compile(
    r"no space left|disk quota exceeded|not enough space|file too large", re.IGNORECASE
)

_POLL_S: Final = 1
_HAS_GROUPS: Final = os.name == "posix"
_OVER_SIZE: Final = -getattr(signal, "SIGXFSZ", 0)
"""The return code of a process that wrote a larger file than it may."""

_START: Final = """
import os, runpy, signal, sys, threading, time

def end_with_parent():
    # The parent never writes; whatever ends it closes its end of the pipe.
    os.read(0, 1)
    os._exit(1)

def used_bytes():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

def end_beyond(most_bytes):
    # What it inherits counts too, so only what is added is bounded.
    most_bytes += used_bytes()
    while used_bytes() <= most_bytes:
        time.sleep(0.05)
    os.write(2, (os.linesep + "MemoryError" + os.linesep).encode())
    os._exit(1)

def bound(kind, most):
    soft, hard = resource.getrlimit(kind)
    is_lower = 0 <= most and not 0 <= soft <= most and not 0 <= hard < most
    if is_lower:
        resource.setrlimit(kind, (most, hard))
    return is_lower

threading.Thread(target=end_with_parent, daemon=True).start()
file_bytes, memory_bytes = map(int, sys.argv[1:3])
del sys.argv[:3]
try:
    import resource
except ImportError:
    pass
else:
    if bound(resource.RLIMIT_FSIZE, file_bytes):
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    bound(resource.RLIMIT_AS, memory_bytes)
    threading.Thread(target=end_beyond, args=(memory_bytes,), daemon=True).start()
if sys.argv[0].endswith(".py"):
    runpy.run_path(sys.argv[0], run_name="__main__")
else:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


class Ending(Enum):
    """How a child ended."""

    BY_ITSELF = auto()
    STALLED = auto()
    TOO_LARGE = auto()


def python_problem() -> str | None:
    """Return why no Python can be started from here, or None if one can.

    A frozen program would start itself again, and a program that embeds Python would start
    whatever it is.
    """
    path = sys.executable
    if getattr(sys, "frozen", False):
        return f"{path or 'this program'} is frozen: it holds Python, and is none"
    if not path:
        return "this program does not say where its Python is"
    if not _PYTHON_NAME.search(Path(path).name):
        return f"{path} embeds Python, and is none"
    return None


@contextmanager
def child_process(
    arguments: Sequence[str],
    *,
    folder: Path,
    log: Path,
    environment: Mapping[str, str],
    file_size_bytes_max: int,
) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a module, or a file that ends in .py, in a Python of its own; end it at the end.

    Its memory is bounded, and so is each file that it writes, by the system where it can do that.

    Args:
        arguments: The module or file, and what it is given.
        folder: Its current and temporary folder.
        log: The file that gets what it prints.
        environment: All its variables but those of temporary folders.
        file_size_bytes_max: The largest file that it may write.
    """
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    bounds = (str(file_size_bytes_max), str(limits.CHILD_MEMORY_SIZE_BYTES_MAX))
    # -P: Python would else look for modules in the current folder first.
    command = [sys.executable, "-P", "-c", _START, *bounds, *arguments]
    with open_file(log, "wb") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, **places},
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            process_group=0 if _HAS_GROUPS else None,
        )
    try:
        yield process
    finally:
        _kill(process)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End a process, and all that it started, unless it has ended already."""
    if process.poll() is None and sys.platform != "win32":
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def watch(
    process: "subprocess.Popen[bytes]",
    folder: Path,
    report: Callable[[int], None] = lambda size_bytes: None,
    *,
    size_bytes_max: int,
) -> Ending:
    """Wait for a process to end, or to do what it must not.

    Args:
        process: Writes below *folder*.
        folder: Where its largest file grows.
        report: Called often with the bytes of that file, which are no more than it may have; may
            raise.
        size_bytes_max: The largest file that it may write.
    """
    size_bytes, idle_since_ns = -1, time.monotonic_ns()
    while time.monotonic_ns() - idle_since_ns < STALL_S_MAX * 1_000_000_000:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_POLL_S)
            is_over = process.returncode == _OVER_SIZE != 0
            return Ending.TOO_LARGE if is_over else Ending.BY_ITSELF
        grown_bytes = largest_file_size_bytes(folder)
        if grown_bytes > size_bytes_max:
            return Ending.TOO_LARGE
        report(grown_bytes)
        if grown_bytes != size_bytes:
            size_bytes, idle_since_ns = grown_bytes, time.monotonic_ns()
    return Ending.STALLED


def says_memory_short(line: str) -> bool:
    """Tell whether a line that a child wrote is about memory that it could not have."""
    return line.startswith("MemoryError") or "Cannot allocate memory" in line


def says_disk_full(line: str) -> bool:
    """Tell whether a line that a child wrote is about a disk, or a quota on it, without room."""
    return _FULL.search(line) is not None


def largest_file_size_bytes(folder: Path) -> int:
    """Return the size of the largest file below a folder that changes meanwhile."""
    largest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                largest = max(largest, Path(parent, name).lstat().st_size)
    return largest
