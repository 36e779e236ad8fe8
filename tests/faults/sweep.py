"""Making cases in processes that a fault may end, and telling what came of each."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from sslm.convert.conversion import convert_gguf
from tests.converted import stories_artifact, talking_artifact
from tests.gguf_files import random_llama_gguf

EXCUSED: Final = ("tokenizers", "_pydantic_core")
"""Dependencies that end the process where memory is short; their libraries' names begin so."""

_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The cases of one call and one kind of fault.

    Args:
        call: Its name in ``CALLS``.
        kind: One of ``KINDS``.
        start: The first n.
        stride: From one n to the next; 0 spreads *cases* evenly over all.
        cases: The most.
        length: How many calls fail in a row.
    """

    call: str
    kind: str
    start: int = 0
    stride: int = 0
    cases: int = 1 << 30
    length: int = 1

    def stride_of(self, count: int) -> int:
        """Return from one n to the next, where there are so many."""
        return self.stride or max(1, -(-count // self.cases))


@dataclass(slots=True, kw_only=True)
class Case:
    """One call with one fault in it."""

    call: str
    kind: str
    n: int
    count: int
    outcome: str
    where: str
    aborted_in: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether it is not as it should be."""
        return self.outcome.startswith("bad")

    @property
    def is_excused(self) -> bool:
        """Whether code that is not ours spoiled it."""
        return bool(self.aborted_in) or self.outcome.startswith("in ")

    def facts(self) -> dict[str, Any]:
        """Return all of it, for JSON."""
        return asdict(self)


def prepared(folder: Path) -> Path:
    """Make the files that all calls share; return the folder."""
    folder.mkdir(parents=True)
    for path in (stories_artifact(), talking_artifact()):
        shutil.copy(path, folder / path.name)
    tiny = random_llama_gguf(
        folder / "tiny.gguf",
        seed=1,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=16,
        vocab_size=275,
    )
    convert_gguf(tiny, folder / "bytes.sslm")
    return folder


def sweep(parts: Sequence[Part], library: Path, files: Path, folder: Path) -> list[Case]:
    """Make the cases of parts, in a new process after each that a fault ended."""
    cases: list[Case] = []
    left = list(parts)
    while left:
        made, is_whole = _process(left, library, files, folder)
        cases += made
        if is_whole:
            break
        left = _left(left, made)
    return cases


def _process(
    parts: Sequence[Part], library: Path, files: Path, folder: Path
) -> tuple[list[Case], bool]:
    """Return the cases that one process came to, and whether that was all of them."""
    environment = os.environ | {
        "LD_PRELOAD": str(library),
        "PYTHONMALLOC": "malloc",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": str(_ROOT),
    }
    words = [str(files), str(folder), json.dumps([asdict(part) for part in parts])]
    with tempfile.TemporaryFile() as complaints:
        with subprocess.Popen(
            [sys.executable, "-m", "tests.faults.worker", *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=complaints,
            cwd=_ROOT,
        ) as process:
            made = _read(process)
        code = process.returncode
        complaints.seek(0)
        text = complaints.read().decode(errors="replace")
    if code == 0:
        return made, True
    if not made or made[-1].outcome:
        raise RuntimeError(f"the process ended with {code} between two cases:\n{text[-4000:]}")
    _explain(made[-1], code, text)
    return made, False


def _read(process: "subprocess.Popen[bytes]") -> list[Case]:
    made: list[Case] = []
    count = 0
    assert process.stdout is not None
    for line in process.stdout:
        facts = json.loads(line)
        if "count" in facts:
            count = facts["count"]
        elif "n" in facts:
            made.append(Case(count=count, outcome="", where="", **facts))
        else:
            made[-1].outcome, made[-1].where = facts["outcome"], facts["where"]
    return made


def _explain(case: Case, code: int, text: str) -> None:
    """Say of a case that ended its process how, and in whose code."""
    if "Timeout (" in text:
        case.outcome, case.where = "bad: stood still", text[-3000:]
        return
    ended = signal.Signals(-code).name if code < 0 else f"exit {code}"
    fault, _, crash = text.partition("=crash=")
    stack = fault.partition("=fault=")[2].split()
    frames = [*stack, *crash.partition("=end=")[0].split()]
    found = next((name for frame in stack for name in EXCUSED if frame.startswith(name)), "")
    case.where = " < ".join(frames[:24])
    case.aborted_in = found
    case.outcome = f"{ended} in {found}" if found else f"bad: {ended}\n{text[:300]}"


def _left(parts: Sequence[Part], made: Sequence[Case]) -> list[Part]:
    """Return what is to be done behind the last case that was made."""
    last = made[-1]
    index = next(
        index
        for index, part in enumerate(parts)
        if (part.call, part.kind) == (last.call, last.kind)
    )
    part = parts[index]
    count = sum((case.call, case.kind) == (last.call, last.kind) for case in made)
    stride = part.stride_of(last.count)
    rest = replace(part, start=last.n + stride, stride=stride, cases=part.cases - count)
    return [*([rest] if rest.cases > 0 else []), *parts[index + 1 :]]
