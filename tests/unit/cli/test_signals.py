"""Signals to real processes: a command unwinds once, says so in one line, and leaves nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.interrupts import cases, sweep

from tests.converted import STORIES_SOURCE, stories_artifact
from tests.signalled import SCRIPT, Case, complaints, run
from tests.unit.cli.terminal import in_terminal

FAKE_PIP = """
import os, time
open(os.environ["PIP_STARTED"], "w").write(str(os.getpid()))
time.sleep(60)
"""


@pytest.fixture(scope="module")
def all_cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    folder = tmp_path_factory.mktemp("signals")
    return {case.name: case for case in cases(STORIES_SOURCE, stories_artifact(), folder)}


@pytest.mark.parametrize("name", ["generate", "verify"])
def test_a_signal_at_any_time_ends_a_command_cleanly(
    all_cases: dict[str, Case], tmp_path: Path, name: str
) -> None:
    delays_s = [0.08 * step for step in range(5)]
    found = list(sweep([all_cases[name]], tmp_path, delays_s))
    assert [wrong for _, _, wrong in found if wrong] == []
    assert any(ended in ("129", "130", "143") for _, ended, _ in found)


def test_what_was_ignored_at_the_start_stays_ignored(
    all_cases: dict[str, Case], tmp_path: Path
) -> None:
    ignoring = (
        sys.executable,
        "-c",
        "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
        "from sslm.cli import main; sys.exit(main())",
    )
    found = run(
        all_cases["tokenize"], tmp_path, program=ignoring, number=signal.SIGHUP, delay_s=0.25
    )
    assert found.code == 0, found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_fetch_takes_pip_with_it(tmp_path: Path, number: signal.Signals) -> None:
    packages, started = tmp_path / "packages", tmp_path / "started"
    (packages / "pip").mkdir(parents=True)
    (packages / "pip" / "__init__.py").touch()
    (packages / "pip" / "__main__.py").write_text(FAKE_PIP)
    case = Case(
        name="pull",
        arguments=lambda place: ("pull", "smollm2-135m"),
        variables={
            "PYTHONPATH": str(packages),
            "PIP_STARTED": str(started),
            "SSLM_OFFLINE": "",
            "HF_HUB_OFFLINE": "",
        },
    )
    found = run(case, tmp_path / "run", program=SCRIPT, number=number, delay_s=started)
    assert found.code == 128 + number, found
    assert found.files == {}
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


def test_ctrl_c_keeps_what_was_shown(all_cases: dict[str, Case], tmp_path: Path) -> None:
    """A pipe sees a beginning of the answer, whatever the moment."""
    whole = run(all_cases["generate"], tmp_path / "whole")
    found = run(all_cases["generate"], tmp_path / "cut", delay_s=0.5, is_twice=True)
    assert complaints(whole, found, signal.SIGINT) == []


def test_a_second_signal_comes_too_early_to_disturb() -> None:
    from sslm.cli.signals import _Unwinding

    unwinding = _Unwinding()
    with pytest.raises(KeyboardInterrupt):
        unwinding.interrupt(signal.SIGINT, None)
    unwinding.interrupt(signal.SIGINT, None)
    unwinding.interrupt(signal.SIGTERM, None)
    unwinding._raised_ns = time.monotonic_ns() - 2_000_000_000
    with pytest.raises(SystemExit) as ended:
        unwinding.interrupt(signal.SIGTERM, None)
    assert ended.value.code == 143


def test_an_interrupt_in_a_finalizer_is_not_lost() -> None:
    program = """
import signal, sys, time
from sslm.cli import signals
signals.unwind()
class Kept:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
kept = Kept()
del kept
try:
    time.sleep(20)
except KeyboardInterrupt:
    sys.exit(130)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_in_a_terminal_does_not_end_a_chat(talker: Path) -> None:
    # A Ctrl-D that is typed before the next prompt is not the end of a line that readline reads.
    steps = [("> ", b"\x03"), ("ends the conversation", b""), ("> ", b"\x04")]
    code, shown = in_terminal("chat", "-m", talker, steps=steps)
    assert code == 0, shown
    assert "Traceback" not in shown
    assert "interrupted" not in shown
