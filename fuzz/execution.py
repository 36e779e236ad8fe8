"""Running one input, with its time and memory measured."""

import os
import re
import resource
import time
from dataclasses import dataclass
from typing import Final

from fuzz.findings import Finding, finding_of
from fuzz.target import Outcomes, Target

SECONDS_MAX: Final = 1.0
"""Processor time of one input. What waits instead is stopped from outside."""

GROWTH_BYTES_MAX: Final = 64 << 20
"""Resident memory that one input may add while it runs."""

_PEAK: Final = re.compile(rb"VmHWM:\s*(\d+) kB")
_STATUS_SIZE_BYTES: Final = 4096


class PeakMemory:
    """The most resident memory since a moment, where the system says it (Linux)."""

    def __init__(self) -> None:
        try:
            self._reset = os.open("/proc/self/clear_refs", os.O_WRONLY)
            self._status = os.open("/proc/self/status", os.O_RDONLY)
        except OSError:
            self._reset = self._status = -1
        self._start = 0

    def begin(self) -> None:
        """Forget the peak so far."""
        if self._reset >= 0:
            os.pwrite(self._reset, b"5", 0)
        self._start = self._peak_bytes()

    def growth_bytes(self) -> int:
        """Return by how much the peak since :meth:`begin` is above what there was."""
        return self._peak_bytes() - self._start

    def _peak_bytes(self) -> int:
        if self._status < 0:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        # Not the peak of getrusage, which begins with that of the process that started this one.
        found = _PEAK.search(os.pread(self._status, _STATUS_SIZE_BYTES, 0))
        return int(found[1]) << 10 if found else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What one input took, and what is wrong with that."""

    seconds: float
    growth_bytes: int
    findings: tuple[Finding, ...]


def execute(target: Target, data: bytes, outcomes: Outcomes, memory: PeakMemory) -> Execution:
    """Run an input; whatever it raises, and whatever it takes too much of, is a finding.

    Raises:
        KeyboardInterrupt: If somebody interrupts.
    """
    findings = []
    before = outcomes.copy()
    memory.begin()
    start = time.process_time()
    try:
        target.run(data, outcomes)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # A panic of a library in Rust is no Exception.
        findings.append(finding_of(error))
        outcomes.reached(f"finding: {findings[0].signature}")
    seconds = time.process_time() - start
    growth = memory.growth_bytes()
    ends = " ".join(sorted((outcomes - before).keys()))
    if seconds > SECONDS_MAX:
        findings.append(Finding(kind="slow", signature=ends, story=f"{seconds:.2f} s; {ends}"))
    if growth > GROWTH_BYTES_MAX:
        story = f"{growth >> 20} MiB; {ends}"
        findings.append(Finding(kind="large", signature=ends, story=story))
    return Execution(seconds=seconds, growth_bytes=growth, findings=tuple(findings))
