"""Signals at every moment of every command: each must end cleanly, and leave nothing half-written.

    python -m benchmarks.interrupts --source FILE.gguf [--delays 40] [--until-ms 2000] [--only NAME]

Each command runs once undisturbed, then once for every delay and signal, half of them with a
second signal 30 ms later. Whatever is wrong is printed; the exit code is 1 then.
"""

import argparse
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.signalled import MODULE, SCRIPT, Case, complaints, is_before_start, run

from sslm.convert.conversion import convert_gguf

TEXT = "Once upon a time there was a little girl who liked to play with her friends in the park."


def cases(source: Path, model: Path, folder: Path) -> list[Case]:
    """Return commands that cover what takes time.

    Args:
        source: A small GGUF model.
        model: The artifact made from it.
        folder: Where other inputs go.
    """
    text = folder / "text.txt"
    text.write_text(f"{TEXT}\n" * 40, encoding="utf-8")
    common = ("-m", model, "-t", "2")
    return [
        Case(
            name="generate",
            arguments=lambda place: ("generate", TEXT, *common, "--max-tokens", "400"),
        ),
        Case(
            name="generate --json",
            arguments=lambda place: ("generate", "-", *common, "--max-tokens", "40", "--json"),
            stdin=f"{TEXT}\n".encode() * 10,
        ),
        Case(
            name="generate --sha256",
            arguments=lambda place: ("generate", TEXT, *common, "--sha256", _sha256(model)),
        ),
        Case(name="verify", arguments=lambda place: ("verify", model)),
        Case(
            name="convert",
            arguments=lambda place: ("convert", source, "-o", place / "out/new.sslm", "--json"),
        ),
        Case(name="pull", arguments=lambda place: ("pull", source, "--json")),
        Case(name="prove", arguments=lambda place: ("prove", TEXT, "-m", model, "--json")),
        Case(
            name="eval",
            arguments=lambda place: ("eval", model, "--source", source, "--text", text, "--json"),
        ),
        Case(name="tokenize", arguments=lambda place: ("tokenize", TEXT, "-m", model)),
        Case(name="inspect", arguments=lambda place: ("inspect", model)),
        Case(name="doctor", arguments=lambda place: ("doctor",)),
        Case(name="help", arguments=lambda place: ("--help",)),
    ]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sweep(
    chosen: Sequence[Case],
    folder: Path,
    delays_s: Sequence[float],
    *,
    programs: Sequence[Sequence[str]] = (MODULE, SCRIPT),
    numbers: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
) -> Iterator[tuple[str, str, list[str]]]:
    """Signal every command at every delay; yield its name, how it ended, and what was wrong."""
    runs = count()
    for case in chosen:
        whole = run(case, folder / str(next(runs)))
        if whole.code:
            yield case.name, "failed undisturbed", [whole.error]
            continue
        for index, delay_s in enumerate(delays_s):
            number = numbers[index % len(numbers)]
            found = run(
                case,
                folder / str(next(runs)),
                program=programs[index % len(programs)],
                number=number,
                delay_s=delay_s,
                is_twice=index % 2 == 1,
            )
            wrong = complaints(whole, found, number)
            is_early = found.code != 0 and found.code != 128 + number and is_before_start(found)
            ended = "before our start" if is_early else str(found.code)
            yield case.name, ended, [f"{delay_s:.3f} s, {number.name}: {one}" for one in wrong]


def main() -> int:
    """Run the sweep; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--delays", type=int, default=40)
    parser.add_argument("--until-ms", type=int, default=2000)
    parser.add_argument("--only")
    options = parser.parse_args()
    delays_s = [options.until_ms * i / options.delays / 1000 for i in range(options.delays)]
    tally: dict[str, Counter[str]] = {}
    failures = 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sslm-interrupts-") as name:
        model = Path(name) / "model.sslm"
        convert_gguf(options.source, model)
        every = cases(options.source, model, Path(name))
        chosen = [case for case in every if options.only in (None, case.name)]
        for case_name, ended, wrong in sweep(chosen, Path(name) / "runs", delays_s):
            tally.setdefault(case_name, Counter())[ended] += 1
            failures += bool(wrong)
            for one in wrong:
                print(f"{case_name}: {one}", file=sys.stderr)
    for case_name, endings in tally.items():
        print(f"{case_name:<20} {json.dumps(dict(sorted(endings.items())))}")
    total = sum(sum(endings.values()) for endings in tally.values())
    print(f"{total} signals, {failures} wrong, {time.monotonic() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    os.environ.setdefault("SSLM_OFFLINE", "1")
    sys.exit(main())
