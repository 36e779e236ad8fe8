"""The command that runs the library under sanitizers, without running it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.sanitized import SANITIZERS, Part, Report, Sandbox, main, parts_of, read_reports

ROOT = Path(__file__).parents[3]

ADDRESS = """=================================================================
==71==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000011 at pc 0x7f0
READ of size 1 at 0x602000000011 thread T0
    #0 0x7f0 in sslm_row /s/native/src/ops/add.c:7
SUMMARY: AddressSanitizer: heap-buffer-overflow /s/native/src/ops/add.c:7 in sslm_row
"""
BEHAVIOUR = """/s/native/src/ops/rope.c:31:9: runtime error: left shift of negative value -1
    #0 0x7f0 in sslm_rope /s/native/src/ops/rope.c:31
"""
RACES = """==================
WARNING: ThreadSanitizer: data race (pid=7)
  Write of size 8 at 0x7b by thread T1:
    #0 dgemm_beta <null> (libopenblas.so+0xc78582)
SUMMARY: ThreadSanitizer: data race (libopenblas.so+0xc78582) in dgemm_beta
==================
==================
WARNING: ThreadSanitizer: data race (pid=7)
  Write of size 4 at 0x7c by thread T2:
    #0 do_tasks <null> (_native.so+0x5f0)
SUMMARY: ThreadSanitizer: data race (_native.so+0x5f0) in do_tasks
==================
ThreadSanitizer: reported 2 warnings
"""


def test_each_part_runs_what_is_there() -> None:
    for sanitizer in SANITIZERS.values():
        parts = {part.name: part.words for part in parts_of(sanitizer, schedules=7)}
        assert list(parts)[:4] == ["native", "runtime", "schema", "simulation"]
        assert parts["simulation"] == ("-m", "tests.simulation", "--schedules", "7")
        for words in parts.values():
            for path in (word for word in words if "/" in word):
                assert (ROOT / path.partition("::")[0]).exists(), path
        seeds = [path for path in (ROOT / "fuzz" / "seeds").rglob("*") if path.is_file()]
        replayed = [word for name, words in parts.items() if "fuzz" in name for word in words]
        assert {path.relative_to(ROOT).as_posix() for path in seeds} <= set(replayed)


def test_reports_are_ours_or_of_others(tmp_path: Path) -> None:
    for name, text in (("a", ADDRESS), ("b", BEHAVIOUR), ("c", RACES), ("d", "")):
        (tmp_path / name).write_text(text)
    row = "AddressSanitizer: heap-buffer-overflow /s/native/src/ops/add.c:7 in sslm_row"
    rope = "/s/native/src/ops/rope.c:31:9: runtime error: left shift of negative value -1"
    blas = "ThreadSanitizer: data race (libopenblas.so+0xc78582) in dgemm_beta"
    pool = "ThreadSanitizer: data race (_native.so+0x5f0) in do_tasks"
    (tmp_path / "e").write_text("== ERRORS ==\nERROR tests/test_it.py::test - OSError\n")
    assert read_reports(sorted(tmp_path.iterdir())) == (
        Report(summary=row, is_ours=True),
        Report(summary=rope, is_ours=True),
        Report(summary=blas, is_ours=False),
        Report(summary=pool, is_ours=True),
    )


def test_what_is_asked_for_has_to_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["asan", "--only", "backends"])
    assert "no part is of that name; there are native, runtime" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "python -m tools.sanitized tsan --only simulation" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["its own file", "stderr"])
@pytest.mark.parametrize(
    ("exit_code", "text", "count"),
    [(0, "", 0), (1, "", 0), (0, RACES, 2), (0, ADDRESS, 1), (1, BEHAVIOUR, 1)],
)
def test_a_part_is_good_without_failure_and_without_report(
    tmp_path: Path, exit_code: int, text: str, count: int, place: str
) -> None:
    """With this interpreter in the place of the sandbox's, and no runtime to be loaded."""
    if sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("needs Linux and gcc")
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nLD_PRELOAD= exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    script = (
        "import os, sys; place = os.environ['ASAN_OPTIONS'].rpartition('log_path=')[2]\n"
        f"file = sys.stderr if {place == 'stderr'} else open(place + '.1', 'w')\n"
        f"file.write({text!r}); sys.exit({exit_code})"
    )
    outcome = Sandbox("asan", tmp_path).run(Part(name="one", words=("-c", script)))
    assert (outcome.exit_code, len(outcome.reports)) == (exit_code, count)
    assert outcome.is_good is (exit_code == 0 and not text)


def test_a_library_that_does_not_build_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    assert main(["tsan", "--only", "schema", "--folder", os.fspath(tmp_path)]) == 1
    assert "has the logs" in capsys.readouterr().err


def test_the_command_is_one() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.sanitized", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "{asan,tsan}" in done.stdout
