"""Commands in a terminal."""

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import sslm

_END_TIMEOUT_S = 240


def in_terminal(
    *arguments: object,
    typed: bytes = b"",
    steps: Sequence[tuple[str, bytes]] = (),
    **variables: str,
) -> tuple[int, str]:
    """Run a command whose three streams are one terminal; return its code and what is shown.

    Args:
        arguments: Of the command.
        typed: What is typed at once.
        steps: What is typed when a text has been shown, one after the other.
        variables: Of the environment.
    """
    source = str(Path(str(sslm.__file__)).parents[1])
    environment = os.environ | {"TERM": "xterm", "PYTHONPATH": source} | variables
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sslm", *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        preexec_fn=_own_terminal,  # noqa: PLW1509
    )
    os.close(theirs)
    shown, seen, left = b"", 0, list(steps)
    try:
        os.write(ours, typed)
        while select.select([ours], [], [], _END_TIMEOUT_S)[0]:
            # Linux says that the other side is closed by an error.
            try:
                shown += os.read(ours, 1 << 16)
            except OSError:
                break
            while left and (place := shown.find(left[0][0].encode(), seen)) >= 0:
                after, reply = left.pop(0)
                seen = place + len(after)
                _wait_until_it_reads(process)
                os.write(ours, reply)
        return process.wait(timeout=_END_TIMEOUT_S), shown.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _wait_until_it_reads(process: "subprocess.Popen[bytes]") -> None:
    """Let a process come to rest: readline shows its prompt before it looks for signals."""
    status = Path(f"/proc/{process.pid}/stat")
    if not status.exists():
        time.sleep(1)
        return
    for _ in range(_END_TIMEOUT_S * 100):
        time.sleep(0.01)
        if status.read_text().rpartition(")")[2].split()[0] == "S":
            return
    raise AssertionError("it computes, and reads nothing")


def _own_terminal() -> None:
    """Make the terminal the process's own, so that Ctrl-C in it is a signal."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
