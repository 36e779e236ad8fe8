"""The parent's side: processes that stay loaded and measure on command, one at a time."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sslm
from benchmarks.versus.serving import ANSWERS_VARIABLE

FOLDER: Final = Path(__file__).parent
REPOSITORY: Final = FOLDER.parents[1]
PACKAGES: Final = Path(sslm.__file__).parents[1]
"""Where this package is imported from: the repository's sources, or an installation."""
_LOG_SIZE_CHARS: Final = 300


class WorkerError(Exception):
    """A worker ended instead of answering; the message says which, how and when."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How to start a worker.

    Args:
        name: Unique, as it stands in the tables.
        script: One of this folder.
        model: The file that it loads.
        python: The interpreter that has what the script needs.
        more: More arguments.
    """

    name: str
    script: str
    model: Path
    python: str = sys.executable
    more: tuple[str, ...] = ()


class Worker:
    """A process with a loaded model.

    Args:
        engine: What it is.
        threads: That compute.
    """

    def __init__(self, engine: Engine, threads: int) -> None:
        self.engine = engine
        self.threads = threads
        self._log = tempfile.TemporaryFile(  # noqa: SIM115
            "w+", encoding="utf-8", errors="replace"
        )
        path = os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH")]))
        own = engine.python == sys.executable
        reading, writing = os.pipe()
        self._answers = os.fdopen(reading, encoding="utf-8")
        self._process = subprocess.Popen(
            [
                engine.python,
                str(FOLDER / engine.script),
                "serve",
                str(engine.model),
                str(threads),
                *engine.more,
            ],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            text=True,
            pass_fds=(writing,),
            # Packages of this interpreter do not fit another one.
            env=os.environ | {"PYTHONPATH": path if own else "", ANSWERS_VARIABLE: str(writing)},
        )
        os.close(writing)

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Let it do something and return its answer.

        Raises:
            WorkerError: If it ends instead.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._answers.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerError(self._ending(do))
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ending(self, do: str) -> str:
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._log.seek(0)
        log = self._log.read().strip()[-_LOG_SIZE_CHARS:].rpartition("\n")[2]
        where = f"{self.engine.name} with {self.threads} threads ({self.engine.python})"
        return f"{where} ended at {do!r}: {how}{': ' + log if log else ''}"

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._answers.close()
        self._log.close()


@contextmanager
def started(engine: Engine, threads: int) -> Iterator[Worker]:
    """Start a worker; it has ended afterwards."""
    worker = Worker(engine, threads)
    try:
        yield worker
    finally:
        worker.close()
