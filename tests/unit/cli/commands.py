"""Running commands as ``sslm`` does, in this process or in one of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sslm
from sslm.cli.app import run

PROGRAM = "import sys; from sslm.cli import main; main()"


class Commands:
    """Runs commands in this process.

    Args:
        capture: Where pytest keeps what was printed.
    """

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def text(self, *arguments: object, code: int = 0) -> str:
        """Run a command that must end with this exit code; return its stdout."""
        self._capture.readouterr()
        found = run([str(argument) for argument in arguments])
        out, error = self._capture.readouterr()
        assert found == code, error
        return out

    def json(self, *arguments: object, code: int = 0) -> Any:
        """Run a command with ``--json``; stdout must be one JSON object and nothing else."""
        out = self.text(*arguments, "--json", code=code)
        assert out.count("\n") == 1
        assert out.endswith("\n")
        facts = json.loads(out)
        assert isinstance(facts, dict)
        return facts

    def error(self, *arguments: object, code: int) -> str:
        """Run a command that must fail; return the name of the error's class."""
        name: str = self.json(*arguments, code=code)["error"]["type"]
        return name


def start(*arguments: object, program: str = PROGRAM, **options: Any) -> subprocess.Popen[str]:
    """Start a command as a process of its own, with pipes for its output.

    Args:
        arguments: Of the command.
        program: In Python, what runs it.
        options: Of the process.
    """
    source = str(Path(str(sslm.__file__)).parents[1])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        text=True,
        env=os.environ | {"PYTHONPATH": source},
        **pipes | options,
    )
