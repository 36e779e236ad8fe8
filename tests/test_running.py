"""How tests are run: each for a limited time, and hearing signals however the run was started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SIGNALLED = """
import os, signal, subprocess, sys, time
import pytest

def endless():
    program = "import time; print(1, flush=True); time.sleep(600)"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    process.stdout.read(1)
    return process

@pytest.fixture(scope="module")
def child():
    process = endless()
    yield process
    process.kill()
    process.communicate()

def test_an_interrupt_of_its_own():
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(600)

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_child(number):
    process = endless()
    process.send_signal(number)
    process.communicate()
    assert process.returncode == -number

def test_a_child_of_a_fixture(child):
    child.send_signal(signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM
"""

HANGING = """
import threading, time

def test_waiting():
    threading.Lock().acquire() and threading.Event().wait()

def test_the_next_one():
    pass
"""


def outcome(folder: Path, text: str, *options: str, ignored: tuple[int, ...] = ()) -> str:
    """Run tests as the suite is run, by a process that ignores signals; return the last line."""
    path = folder / "test_it.py"
    path.write_text(text)

    def ignore() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)

    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-o", "addopts="]
    done = subprocess.run(
        [*command, *options, str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        preexec_fn=ignore if ignored else None,
    )
    return done.stdout


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(
    "ignored",
    [(), (signal.SIGINT,), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
    ids=["none ignored", "interrupts ignored", "all ignored"],
)
def test_tests_hear_signals_that_the_run_ignores(tmp_path: Path, ignored: tuple[int, ...]) -> None:
    told = outcome(tmp_path, SIGNALLED, "-o", "timeout=240", ignored=ignored)
    assert "4 passed" in told.splitlines()[-1], told


def test_a_test_that_stands_still_fails_and_the_next_one_runs(tmp_path: Path) -> None:
    told = outcome(tmp_path, HANGING, "-o", "timeout=0.5", "-o", "timeout_method=signal")
    assert "Timeout" in told
    assert "1 failed, 1 passed" in told.splitlines()[-1], told


def test_no_test_is_without_a_limit(request: pytest.FixtureRequest) -> None:
    """A mark may only raise it, or say by which means."""
    assert float(request.config.getini("timeout")) == 300
    marks = [mark for item in request.session.items for mark in item.iter_markers("timeout")]
    limits = [*(mark.args[0] for mark in marks if mark.args)]
    limits += [mark.kwargs["timeout"] for mark in marks if "timeout" in mark.kwargs]
    assert all(300 < limit <= 1800 for limit in limits)
