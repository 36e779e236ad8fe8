"""Runs a reader over many spoiled files, each within bounds of memory and work, and counts.

The cases run in child processes: one that dies, hangs or asks for too much memory is one failure
with the case that caused it, and not the end of the sweep.
"""

import mmap
import os
import pickle
import resource
import signal
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType

from sslm.errors.base import SslmError
from tests.call_count import CallCount
from tests.unit.artifact.tiny_artifact import sections_of, with_section

MEMORY_GROWTH_BYTES_MAX = 64 << 20
CALL_COUNT_MAX = 1_000_000
"""Most functions that are called for a case: work that no clock and no other program changes."""
MASKS = (0x01, 0x80, 0xFF)
"""What a byte is XORed with: its lowest bit, its highest, all of them."""

_BATCH_CASES = 500
_HANG_SECONDS = 120
_PACKAGE = "sslm."
_SHARED_READER = "sslm.formats.bounded_reader"


@dataclass(frozen=True, slots=True)
class Case:
    """A spoiled file: its name for the report, and how to make it."""

    name: str
    offset: int
    content: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A named error, with the function of the package that raised it."""

    validator: str
    error: str


Trip = Callable[[bytes, int], str | None]
"""Reads a file whose byte at an offset was changed as far as it goes.

Returns None if all that it finds is right, else what is wrong; raises whatever the package raises.
"""


@dataclass(slots=True)
class Sweep:
    """What became of the cases.

    Args:
        cases: How many there were.
        loaded: How many were read to the end, and faithfully.
        refusals: How many each validator refused, by error.
        failures: Everything else, in words, with the case.
        growth_bytes: Most memory that a case added to what the process had.
        calls: Most functions that a case called.
        seconds: Most processor time of a case, for reports.
    """

    cases: int = 0
    loaded: int = 0
    refusals: Counter[Refusal] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    growth_bytes: int = 0
    calls: int = 0
    seconds: float = 0.0

    def add(self, other: "Sweep") -> None:
        """Count another sweep in."""
        self.cases += other.cases
        self.loaded += other.loaded
        self.refusals += other.refusals
        self.failures += other.failures
        self.growth_bytes = max(self.growth_bytes, other.growth_bytes)
        self.calls = max(self.calls, other.calls)
        self.seconds = max(self.seconds, other.seconds)


def cuts(
    sound: bytes,
    *,
    step: int = 1,
    first: int = 0,
    seal: Callable[[bytes], bytes] = lambda content: content,
) -> Iterator[Case]:
    """Every beginning of a file that is not all of it, from *first* bytes on.

    *seal* does to the file what an attacker would do afterwards.
    """
    for size in range(first, len(sound), step):
        yield Case(f"cut to {size} bytes", size, partial(_cut, sound, size, seal))


def _cut(sound: bytes, size: int, seal: Callable[[bytes], bytes]) -> bytes:
    return seal(sound[:size])


def section_cuts(sound: bytes, *, step: int = 1) -> Iterator[Case]:
    """Every beginning of every section, with the file laid out and sealed anew around it."""
    for kind, content in sections_of(sound).items():
        for size in range(0, len(content), step):
            spoiled = partial(with_section, sound, kind, content[:size])
            yield Case(f"{kind.name} cut to {size} bytes", len(sound), spoiled)


def flips(
    sound: bytes,
    *,
    step: int = 1,
    first: int = 0,
    seal: Callable[[bytes], bytes] = lambda content: content,
) -> Iterator[Case]:
    """Every byte changed by every mask; with a step, some bytes by one mask each.

    *seal* does to the file what an attacker would do afterwards.
    """
    for offset in range(first, len(sound), step):
        masks = MASKS if step == 1 else (MASKS[offset // step % len(MASKS)],)
        for mask in masks:
            content = partial(_flipped, sound, offset, mask, seal)
            yield Case(f"byte {offset} ^ {mask:#04x}", offset, content)


def _flipped(sound: bytes, offset: int, mask: int, seal: Callable[[bytes], bytes]) -> bytes:
    changed = bytearray(sound)
    changed[offset] ^= mask
    return seal(bytes(changed))


def sweep(cases: Iterable[Case], trip: Trip, *, sound: bytes) -> Sweep:
    """Take every case on its trip.

    *sound* goes first, here, so that what is imported on the way is not counted as growth; and
    first in each child, where a refusal is a failure: what refuses everything shows nothing.
    """
    problem = trip(sound, -1)
    assert problem is None, problem
    total = Sweep()
    left = iter(cases)
    while batch := list(islice(left, _BATCH_CASES)):
        start = 0
        while start < len(batch):
            found = _in_child(batch[start:], trip, sound)
            total.add(found)
            start += found.cases
    return total


def _in_child(cases: Sequence[Case], trip: Trip, sound: bytes) -> Sweep:
    """Run cases in a child until they are done or it dies; the case it died of is the last."""
    progress = mmap.mmap(-1, 8)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read_end)
            found = _run_all(cases, trip, sound, progress)
            with os.fdopen(write_end, "wb") as pipe:
                pickle.dump(found, pipe)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        answer = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 0:
        found = pickle.loads(answer)
        assert isinstance(found, Sweep)
        return found
    done = struct.unpack("<q", progress[:])[0]
    how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    lost = f"{cases[done].name}: the process died ({how})"
    # What the child had counted before is lost with it; its cases are run again.
    found = _in_child(cases[:done], trip, sound) if done else Sweep()
    found.add(Sweep(cases=1, failures=[lost]))
    return found


def _run_all(cases: Sequence[Case], trip: Trip, sound: bytes, progress: mmap.mmap) -> Sweep:
    status = _status_bytes()
    limit = status["VmSize"] + MEMORY_GROWTH_BYTES_MAX
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    # Whoever runs the tests may have a handler, which this process has inherited.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_HANG_SECONDS)
    found = Sweep(failures=_refused_here(trip, sound))
    for index, case in enumerate(cases):
        progress[:] = struct.pack("<q", index)
        signal.alarm(_HANG_SECONDS)
        _run(case, trip, found)
    return found


def _refused_here(trip: Trip, sound: bytes) -> list[str]:
    """Return why a file that nobody changed does not come through in this process, if so."""
    try:
        problem = trip(sound, -1)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    return [] if problem is None else [f"the file as it was: {problem}"[:300]]


def _run(case: Case, trip: Trip, found: Sweep) -> None:
    content = case.content()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status_bytes()["VmRSS"]
    start = time.process_time()
    calls = CallCount()
    try:
        with calls:
            problem = trip(content, case.offset)
    except SslmError as error:
        found.refusals[_refusal(error)] += 1
    except Exception as error:
        found.failures.append(f"{case.name}: {type(error).__name__}: {error}"[:300])
    else:
        if problem is None:
            found.loaded += 1
        else:
            found.failures.append(f"{case.name}: {problem}"[:300])
    seconds = time.process_time() - start
    growth = _status_bytes()["VmHWM"] - before
    if calls.count > CALL_COUNT_MAX:
        found.failures.append(f"{case.name}: took {calls.count} calls")
    if growth > MEMORY_GROWTH_BYTES_MAX:
        found.failures.append(f"{case.name}: took {growth} bytes")
    found.cases += 1
    found.calls = max(found.calls, calls.count)
    found.seconds = max(found.seconds, seconds)
    found.growth_bytes = max(found.growth_bytes, growth)


def _status_bytes() -> dict[str, int]:
    """Sizes of this process, by the names of proc(5)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    rows = [line.split() for line in lines if line.startswith("Vm")]
    return {row[0].rstrip(":"): int(row[1]) << 10 for row in rows}


def _refusal(error: SslmError) -> Refusal:
    return Refusal(_raiser(error.__traceback__), error.cause)


def _raiser(trace: TracebackType | None) -> str:
    """Name the innermost function of the package that an error passed through.

    The reader that all others read with is passed over: what matters is what was being read.
    """
    where = "?"
    while trace is not None:
        # By its module: a checkout may lie in a folder of the package's name.
        module = str(trace.tb_frame.f_globals.get("__name__"))
        if module.startswith(_PACKAGE) and module != _SHARED_READER:
            where = f"{module.removeprefix(_PACKAGE)}:{trace.tb_frame.f_code.co_qualname}"
        trace = trace.tb_next
    return where
