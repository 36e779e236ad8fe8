"""Signals to real processes: a command unwinds once, says so in one line, and leaves nothing."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.interrupts import cases, sweep

import sslm
from tests.converted import STORIES_SOURCE, stories_artifact
from tests.signalled import SCRIPT, Case, complaints, run
from tests.unit.cli.commands import start
from tests.unit.cli.terminal import in_terminal

SIGNALS = sorted((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))

FAKE_PIP = """
import os, time
open(os.environ["FAKE_STARTED"], "w").write(str(os.getpid()))
time.sleep(600)
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


def ignoring(*numbers: signal.Signals) -> Callable[[], None]:
    """Return what lets a child begin as ``nohup`` or a shell without job control starts it."""

    def begin() -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN if number in numbers else signal.SIG_DFL)

    return begin


ENDLESS = ("-p", "256", "-n", "256", "-b", "8", "-d", "0", "-r", "1000")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_what_would_take_long(number: signal.Signals) -> None:
    process = start("bench", stories_artifact(), *ENDLESS, preexec_fn=ignoring())
    assert process.stderr is not None
    # The first line of progress: it is measuring.
    assert process.stderr.readline().startswith("bench")
    process.send_signal(number)
    _, error = process.communicate(timeout=240)
    assert process.returncode == 128 + number
    assert error.endswith("interrupted\n" if number == signal.SIGINT else "terminated\n")


@pytest.mark.parametrize(
    ("ignored", "heard"),
    [((signal.SIGINT, signal.SIGHUP), signal.SIGTERM), ((signal.SIGTERM,), signal.SIGINT)],
)
def test_what_was_ignored_at_the_start_stays_ignored(
    ignored: tuple[signal.Signals, ...], heard: signal.Signals
) -> None:
    """As a program in the background has it; what was not ignored ends it."""
    process = start("bench", stories_artifact(), *ENDLESS, preexec_fn=ignoring(*ignored))
    assert process.stderr is not None
    assert process.stderr.readline().startswith("bench")
    for number in ignored:
        process.send_signal(number)
    status = Path(f"/proc/{process.pid}/status")
    if status.exists():
        mask = int(re.search(r"SigIgn:\s*(\w+)", status.read_text())[1], 16)  # type: ignore[index]
        assert [number for number in SIGNALS if mask >> number - 1 & 1] == sorted(ignored)
    process.send_signal(heard)
    process.communicate(timeout=240)
    assert process.returncode == 128 + heard


@pytest.mark.parametrize("number", SIGNALS)
def test_an_answer_is_whole_where_signals_are_ignored(number: signal.Signals) -> None:
    asked = ("generate", "Once upon a time", "-m", stories_artifact(), "--max-tokens", 400)
    whole = start(*asked).communicate(timeout=240)[0]
    process = start(*asked, preexec_fn=ignoring(number))
    assert process.stdout is not None
    text = process.stdout.read(1)
    process.send_signal(number)
    # communicate() would lose what the first read took beyond its character.
    text += process.stdout.read()
    error = process.communicate(timeout=240)[1]
    assert (process.returncode, text) == (0, whole), error
    assert "interrupted" not in error


def test_what_a_command_starts_ignores_the_same(tmp_path: Path) -> None:
    """pip, asked to fetch, is not ended by what its parent does not hear."""
    packages = tmp_path / "packages"
    (packages / "pip").mkdir(parents=True)
    (packages / "pip" / "__init__.py").touch()
    told = tmp_path / "told"
    (packages / "pip" / "__main__.py").write_text(
        "import os, signal\n"
        "names = ('SIGINT', 'SIGHUP', 'SIGTERM')\n"
        "found = [signal.getsignal(getattr(signal, name)) == signal.SIG_IGN for name in names]\n"
        f"open({str(told)!r}, 'w').write(repr(found))\n"
    )
    source = str(Path(str(sslm.__file__)).parents[1])
    variables = {
        "PYTHONPATH": os.pathsep.join([str(packages), source]),
        "SSLM_CACHE_DIR": str(tmp_path / "cache"),
        "SSLM_OFFLINE": "",
        "HF_HUB_OFFLINE": "",
    }
    done = subprocess.run(
        [*SCRIPT, "pull", "smollm2-135m"],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=ignoring(signal.SIGINT, signal.SIGHUP),
    )
    assert done.returncode == 6, done.stderr
    assert told.read_text() == "[True, True, False]"


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
            "FAKE_STARTED": str(started),
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
    time.sleep(200)
except KeyboardInterrupt:
    sys.exit(130)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_in_a_terminal_does_not_end_a_chat(talker: Path) -> None:
    # A Ctrl-D that is typed before the next prompt is not the end of a line that readline reads.
    steps = [("> ", b"\x03"), ("ends the conversation", b""), ("> ", b"\x04")]
    code, shown = in_terminal("chat", "-m", talker, steps=steps)
    assert code == 0, shown
    assert "Traceback" not in shown
    assert "interrupted" not in shown


def test_signals_are_taken_care_of_before_anything_that_takes_time_to_load() -> None:
    code = (
        "import sys; before = set(sys.modules); import sslm.cli.entry;"
        " print(sorted({'enum', 're', 'typing'} & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
