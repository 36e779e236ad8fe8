"""Python programs of others, run so that they end when this process ends, however that happens."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

STALL_S_MAX: Final = 300
"""Longest time in which a child may bring no new byte; its own timeouts are far shorter."""

_FULL: Final = re.compile(
    r"no space left|disk quota exceeded|not enough space|file too large", re.IGNORECASE
)

_START: Final = """
import os, runpy, sys, threading

def end_with_parent():
    # The parent never writes; whatever ends it closes its end of the pipe.
    os.read(0, 1)
    os._exit(1)

threading.Thread(target=end_with_parent, daemon=True).start()
del sys.argv[0]
if sys.argv[0].endswith(".py"):
    runpy.run_path(sys.argv[0], run_name="__main__")
else:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@contextmanager
def child_process(
    arguments: Sequence[str], *, folder: Path, log: Path, environment: Mapping[str, str]
) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a module, or a file that ends in .py, in a Python of its own; end it at the end.

    Args:
        arguments: The module or file, and what it is given.
        folder: Its current and temporary folder.
        log: The file that gets what it prints.
        environment: Variables that it has beside those of this process.
    """
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    # -P: Python would else look for modules in the current folder first.
    command = [sys.executable, "-P", "-c", _START, *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **places, **environment},
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def watch(
    process: "subprocess.Popen[bytes]",
    folder: Path,
    report: Callable[[int], None] = lambda size_bytes: None,
) -> bool:
    """Wait for a process to end; return whether it stopped bringing anything instead.

    Args:
        process: Writes below *folder*.
        folder: Where its largest file grows.
        report: Called every second with the bytes of that file; may raise.
    """
    size_bytes, idle_since_ns = -1, time.monotonic_ns()
    while time.monotonic_ns() - idle_since_ns < STALL_S_MAX * 1_000_000_000:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
            return False
        grown_bytes = largest_file_size_bytes(folder)
        report(grown_bytes)
        if grown_bytes != size_bytes:
            size_bytes, idle_since_ns = grown_bytes, time.monotonic_ns()
    return True


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
