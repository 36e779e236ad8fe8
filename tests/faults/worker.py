"""The process that faults happen in: makes the cases that it is told, and tells what came of each.

It prints a JSON line before and after each case, so that a case that ends the process is known.
"""

import faulthandler
import gc
import json
import os
import re
import shutil
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from sslm.errors.base import SslmError
from sslm.errors.status import Status
from tests.faults.calls import CALLS, Call
from tests.faults.shim import NEVER, Shim
from tests.faults.sweep import Part

STANDING_S: Final = 10
"""After which a case that does not end says where it stands, and ends its process."""

_OF_OTHERS: Final = {
    r"TypeError: .*, not PosixPath": "CPython",
    r"SystemError: error return without exception set": "CPython",
    r"SystemError: <.*> returned NULL without": "CPython or NumPy",
}
"""Errors of code that is not ours, which forgets there that memory is short.

CPython 3.11 does in two places. ``path_converter`` takes a failed ``PyMethod_New`` for
``__fspath__`` as a lack of it. ``take_ownership``, which keeps the frame of a function that ends
for a traceback, clears the error in flight where ``_PyFrame_New_NoTrack`` fails. The call
``python`` has nothing of ours in it and shows both. What returns neither a value nor an error
is one of these, or NumPy's.
"""

_WARM_RUNS: Final = 2
_OURS: Final = f"{os.sep}sslm{os.sep}"


def main() -> None:
    """Make the cases of a plan: a JSON list of objects, one for each call and kind."""
    files, folder = Path(sys.argv[1]), Path(sys.argv[2])
    shim = Shim()
    gc.disable()
    calls: dict[str, _Cases] = {}
    for one in json.loads(sys.argv[3]):
        part = Part(**one)
        if part.call not in calls:
            calls[part.call] = _Cases(shim, files, folder, part.call)
        calls[part.call].make(part)


class _Cases:
    """The cases of one call, which is made some times without a fault first."""

    def __init__(self, shim: Shim, files: Path, folder: Path, call: str) -> None:
        self._shim = shim
        own = folder / call
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(parents=True)
        self._call: Call = CALLS[call](own, files)
        self._expected = ""
        for _ in range(_WARM_RUNS):
            self._call.prepare()
            self._expected = self._call.told(self._call.run())
        gc.collect()
        gc.freeze()

    def make(self, part: Part) -> None:
        """Make the cases of a part, counting what may fail first."""
        kind = part.kind
        self._call.prepare()
        self._shim.arm(kind, NEVER)
        self._call.run()
        count = self._shim.disarm()
        _tell(call=part.call, kind=kind, count=count)
        wanted = range(part.start, count, part.stride_of(count))
        for n in wanted[: part.cases]:
            _tell(call=part.call, kind=kind, n=n)
            faulthandler.dump_traceback_later(STANDING_S, exit=True)
            outcome, where = self._one(part, n)
            faulthandler.cancel_dump_traceback_later()
            _tell(outcome=outcome, where=where)

    def _one(self, part: Part, n: int) -> tuple[str, str]:
        self._call.prepare()
        outcome, where = self._with_fault(part, n)
        stack = self._shim.stack() if outcome.startswith(("bad", "in ")) else []
        gc.collect()
        wrong = self._call.wrong()
        if wrong is not None:
            return f"bad: after {outcome}, {wrong}", where
        try:
            found = self._call.told(self._call.run())
        except BaseException as error:
            return f"bad: after {outcome}, again: {_named(error)}", _where(error.__traceback__)
        left = self._call.left()
        if left is not None:
            return f"bad: after {outcome}, again: {left}", where
        if found != self._expected:
            return f"bad: after {outcome}, again another result: {found[:200]}", where
        return outcome, " < ".join([where, *stack[2:14]])

    def _with_fault(self, part: Part, n: int) -> tuple[str, str]:
        try:
            self._shim.arm(part.kind, n, length=part.length)
            try:
                found = self._call.run()
            finally:
                self._shim.disarm()
        except MemoryError as error:
            return "MemoryError", _where(error.__traceback__)
        except SslmError as error:
            is_named = error.status not in (Status.OK, Status.INTERNAL)
            named = f"{error.cause} {int(error.status)}"
            return (named if is_named else f"bad: {named}"), _where(error.__traceback__)
        except BaseException as error:
            named = _named(error)
            for pattern, owner in _OF_OTHERS.items():
                if re.match(pattern, named):
                    return f"in {owner}: {named}", _where(error.__traceback__)
            return f"bad: {named}", _where(error.__traceback__)
        told = self._call.told(found)
        if told != self._expected:
            return f"bad: wrong result: {told[:200]}", ""
        return ("right" if self._shim.failed else "not reached"), ""


def _named(error: BaseException) -> str:
    named = f"{type(error).__name__}: {error}"
    for cause in (error.__cause__, error.__context__):
        if cause is not None:
            return f"{named} (from {type(cause).__name__}: {cause})"
    return named


def _where(trace: TracebackType | None) -> str:
    """Return where an error came from: our innermost line, and the innermost one of all."""
    found = traceback.extract_tb(trace)
    ours = [one for one in found if _OURS in one.filename] or found[-1:]
    lines = [
        f"{one.filename.rpartition(_OURS)[2]}:{one.lineno}" for one in (*ours[-1:], *found[-1:])
    ]
    return " / ".join(dict.fromkeys(lines))


def _tell(**facts: Any) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main()
