"""The search as a whole: workers that are started again until the time is over."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fuzz.findings import MEASURED_KINDS, Finding, save_finding, saved_findings
from fuzz.shared_state import SharedState
from fuzz.target import Target
from fuzz.worker import HANG_SECONDS, RESIDENT_MIB_MAX
from fuzz.worker_report import WorkerReport, read_report

_POLL_S: Final = 0.5
_SILENCE_S_MAX: Final = 4 * HANG_SECONDS
"""Without a new execution for so long, imports included, a worker hangs unseen by libFuzzer."""

_REPLAY_S_MAX: Final = 60
_TIMEOUT_CODE: Final = 70
_OOM_CODE: Final = 71
_STATUS: Final = re.compile(rb"cov: (\d+) ft: (\d+)")
_LOG_TAIL_BYTES: Final = 1 << 16


@dataclass
class Summary:
    """What came of a search.

    Args:
        target: Its name.
        seconds: How long it took.
        executions: Inputs run, those of the corpus included.
        counters: libFuzzer's edges and features, the most of any worker.
        corpus_inputs: Files in the corpus at the end.
        corpus_bytes: Their size.
        restarts: Workers that had to be started again.
        outcomes: What became of the inputs, by name, of the workers that are still known.
        seconds_max: Processor time of the slowest input, in an instrumented process.
        growth_bytes_max: Memory that the largest input added.
        findings: Inputs that did harm, with the first line of their stories.
        missed: What sound inputs reach and none of these did: a search that shows nothing.
        unconfirmed: Inputs that took too much only in an instrumented process.
        lines: What the corpus reaches; see ``fuzz.worker``.
    """

    target: str
    seconds: float = 0.0
    executions: int = 0
    counters: tuple[int, int] = (0, 0)
    corpus_inputs: int = 0
    corpus_bytes: int = 0
    restarts: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds_max: float = 0.0
    growth_bytes_max: int = 0
    findings: dict[str, str] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    unconfirmed: list[str] = field(default_factory=list)
    lines: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a search keeps things.

    Args:
        corpus: Inputs that reach something new; grows from run to run.
        findings: Inputs that did harm.
    """

    corpus: Path
    findings: Path


def run_campaign(
    target: Target,
    places: Places,
    *,
    seconds: int,
    jobs: int,
    on_progress: Callable[[Summary], None],
) -> Summary:
    """Search for *seconds*, or until interrupted; return what came of it."""
    places.corpus.mkdir(parents=True, exist_ok=True)
    summary = Summary(target.name)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sslm-fuzz-") as folder:
        workers = [
            _Worker(target, places, Path(folder) / f"worker-{index}.state") for index in range(jobs)
        ]
        try:
            while (left := seconds - (time.monotonic() - start)) > 0:
                for worker in workers:
                    worker.keep_alive(left)
                time.sleep(_POLL_S)
                _take_stock(summary, workers, places, time.monotonic() - start)
                on_progress(summary)
        except KeyboardInterrupt:
            pass
        finally:
            for worker in workers:
                worker.stop()
        _take_stock(summary, workers, places, time.monotonic() - start)
    summary.missed = [one for one in target.reaches if not summary.outcomes[one]]
    _confirm(target, places, summary)
    summary.lines = lines_reached(target, places.corpus)
    return summary


class WorkerStartError(Exception):
    """A worker does not come as far as its first input: nothing can be searched."""


class _Worker:
    """One worker process after the other, with the counts of all of them."""

    def __init__(self, target: Target, places: Places, state: Path) -> None:
        self._target = target
        self._places = places
        self._state_path = state
        self._state = SharedState(state)
        self._process: subprocess.Popen[bytes] | None = None
        self._past: Counter[str] = Counter()
        self._heard_of = (0, 0.0)
        self._count_at_start = 0
        self.start_count = 0

    def keep_alive(self, seconds_left: float) -> None:
        """Start the process if there is none, and look into it if it ended or does not move."""
        if self._process is None:
            self._start(seconds_left)
            return
        code = self._process.poll()
        count = self._state.execution_count
        if code is None:
            if count != self._heard_of[0]:
                self._heard_of = (count, time.monotonic())
            elif time.monotonic() - self._heard_of[1] > _SILENCE_S_MAX:
                self._process.kill()
                self._process.wait()
                self._ended("hang", "it was killed after a long silence")
            return
        if code == 0:
            self._past += self.report().outcomes
            self._process = None
        elif code == _TIMEOUT_CODE:
            self._ended("hang", f"it took more than {HANG_SECONDS} s")
        elif code == _OOM_CODE:
            self._ended("memory", f"it took more than {RESIDENT_MIB_MAX} MiB")
        else:
            self._ended("crash", f"it ended with code {code}")

    def stop(self) -> None:
        """End the process; libFuzzer stops at once, the corpus is on disk already."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def execution_count(self) -> int:
        """Inputs run so far."""
        return self._state.execution_count

    @property
    def outcomes(self) -> Counter[str]:
        """What became of them."""
        return self._past + self.report().outcomes

    def report(self) -> WorkerReport:
        """Return what the present process last said."""
        try:
            return read_report(self._state_path)
        except (OSError, ValueError):
            return WorkerReport()

    def counters(self) -> tuple[int, int]:
        """Return libFuzzer's last count of edges and features."""
        found = _STATUS.findall(self._log_tail())
        return (int(found[-1][0]), int(found[-1][1])) if found else (0, 0)

    def _start(self, seconds_left: float) -> None:
        self.start_count += 1
        self._count_at_start = self._state.execution_count
        self._heard_of = (self._count_at_start, time.monotonic())
        self._state_path.with_suffix(".json").unlink(missing_ok=True)
        settings = [
            f"-max_total_time={max(1, int(seconds_left))}",
            f"-max_len={self._target.size_bytes_max}",
            f"-timeout={HANG_SECONDS}",
            f"-timeout_exitcode={_TIMEOUT_CODE}",
            f"-rss_limit_mb={RESIDENT_MIB_MAX}",
            f"-oom_exitcode={_OOM_CODE}",
            f"-artifact_prefix={self._state_path.parent}{os.sep}",
            "-detect_leaks=0",
            *self._dictionary(),
            str(self._places.corpus),
            *([str(self._target.seeds_folder)] if self._target.seeds_folder.is_dir() else []),
        ]
        command = [
            *worker_command("fuzz", self._target.name),
            f"--state={self._state_path}",
            f"--findings={self._places.findings}",
            *(f"--libfuzzer={one}" for one in settings),
        ]
        # A session of its own: an interrupt is for the parent, which passes it on.
        with self._log_path().open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=worker_environment(),
            )

    def _dictionary(self) -> list[str]:
        if not self._target.dictionary:
            return []
        path = self._state_path.with_suffix(".dict")
        words = ("".join(f"\\x{byte:02x}" for byte in word) for word in self._target.dictionary)
        path.write_text("".join(f'"{word}"\n' for word in words), encoding="ascii")
        return [f"-dict={path}"]

    def _ended(self, kind: str, how: str) -> None:
        if self._state.execution_count == self._count_at_start:
            log = self._log_tail().decode(errors="replace")
            raise WorkerStartError(f"a worker ended before its first input: {how}\n{log}")
        self._past += self.report().outcomes
        self._state_path.with_suffix(".json").unlink(missing_ok=True)
        log = self._log_tail().decode(errors="replace")
        signature = next(iter(re.findall(r"(?:Error|ERROR|panicked)[^\n]*", log)), how)
        finding = Finding(kind=kind, signature=f"{how}: {signature}"[:200], story=log[-8000:])
        harmful = self._state.current
        save_finding(self._places.findings, finding, harmful)
        # The next worker begins with the corpus, and would end there.
        for path, size_bytes in sizes_bytes(self._places.corpus):
            if size_bytes == len(harmful) and path.read_bytes() == harmful:
                path.unlink()
        self._log_path().unlink(missing_ok=True)
        self._process = None

    def _log_path(self) -> Path:
        return self._state_path.with_suffix(".log")

    def _log_tail(self) -> bytes:
        with suppress(OSError), self._log_path().open("rb") as file:
            file.seek(max(0, self._log_path().stat().st_size - _LOG_TAIL_BYTES))
            return file.read()
        return b""


def worker_command(mode: str, target: str) -> list[str]:
    """Return the command of a worker, to which arguments are added."""
    return [sys.executable, "-m", "fuzz.worker", mode, target]


def worker_environment() -> dict[str, str]:
    """Return the environment of a worker: one thread for BLAS, and a fixed order of sets."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


def replay(target: Target, paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Run inputs in fresh processes without instruments; return what each took and led to."""
    found = []
    for path in paths:
        command = [*worker_command("replay", target.name), str(path)]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                check=False,
                env=worker_environment(),
                timeout=_REPLAY_S_MAX,
            )
        except subprocess.TimeoutExpired:
            found.append(_died(path, "hang", f"no end after {_REPLAY_S_MAX} s"))
            continue
        lines = done.stdout.decode(errors="replace").splitlines()
        if done.returncode or not lines:
            story = done.stderr.decode(errors="replace")[-8000:]
            found.append(_died(path, "crash", f"code {done.returncode}\n{story}"))
            continue
        found.append(json.loads(lines[-1]))
    return found


def _died(path: Path, kind: str, story: str) -> dict[str, Any]:
    finding = {"kind": kind, "signature": story.partition("\n")[0], "story": story}
    return {"input": str(path), "outcomes": {}, "findings": [finding]}


def lines_reached(target: Target, corpus: Path) -> dict[str, Any]:
    """Return which lines of the target's modules seeds and corpus reach."""
    folders = [str(folder) for folder in (target.seeds_folder, corpus) if folder.is_dir()]
    done = subprocess.run(
        [*worker_command("lines", target.name), *folders],
        capture_output=True,
        check=False,
        env=worker_environment(),
    )
    lines = done.stdout.decode(errors="replace").splitlines()
    if done.returncode or not lines:
        return {"error": done.stderr.decode(errors="replace")[-2000:], "modules": {}}
    facts: dict[str, Any] = json.loads(lines[-1])
    return facts


def _take_stock(
    summary: Summary, workers: Sequence[_Worker], places: Places, seconds: float
) -> None:
    reports = [worker.report() for worker in workers]
    summary.seconds = seconds
    summary.executions = sum(worker.execution_count for worker in workers)
    summary.counters = max([summary.counters, *(worker.counters() for worker in workers)])
    summary.restarts = sum(max(worker.start_count - 1, 0) for worker in workers)
    summary.outcomes = sum((worker.outcomes for worker in workers), Counter())
    summary.seconds_max = max([summary.seconds_max, *(one.seconds_max for one in reports)])
    growth = [one.growth_bytes_max for one in reports]
    summary.growth_bytes_max = max([summary.growth_bytes_max, *growth])
    sizes = [size_bytes for _, size_bytes in sizes_bytes(places.corpus)]
    summary.corpus_inputs = len(sizes)
    summary.corpus_bytes = sum(sizes)
    summary.findings = {
        str(path): path.with_suffix(".txt").read_text(encoding="utf-8").partition("\n")[0]
        for path in saved_findings(places.findings)
    }


def _confirm(target: Target, places: Places, summary: Summary) -> None:
    """Set aside what took too much only because the process was watched."""
    for path in saved_findings(places.findings):
        if path.parent.name not in MEASURED_KINDS or str(path) not in summary.findings:
            continue
        if replay(target, [path])[0]["findings"]:
            continue
        del summary.findings[str(path)]
        aside = places.findings / "unconfirmed" / path.parent.name
        aside.mkdir(parents=True, exist_ok=True)
        for file in (path, path.with_suffix(".txt")):
            shutil.move(file, aside / file.name)
        summary.unconfirmed.append(str(aside / path.name))


def sizes_bytes(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield files with their sizes, but for those that a worker removes meanwhile."""
    for path in folder.iterdir():
        try:
            size_bytes = path.stat().st_size
        except FileNotFoundError:
            continue
        yield path, size_bytes
