"""One record replayed on every backend, tier, threads and slicing, and spoiled in every token.

    python -m benchmarks.replays MODEL.sslm [--tier NAME] [--only KIND] [--no-reference]

The records are made with two threads on the best tier, or on one that is named. Each way must
replay them identically, and each token that is changed must be found at that token. Exit 1 if one
is not.
"""

import argparse
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sslm
from sslm.native_library import available_tiers

_KINDS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"temperature": "0.8", "top_p": "0.95", "top_k": 40, "seed": 7},
    "damped": {"damping": "0.9"},
}


@dataclass(frozen=True)
class Way:
    """A way to replay."""

    backend: str
    tier: str = "auto"
    threads: int = 1
    slice_units: int | None = None

    def __str__(self) -> str:
        tier = self.backend if self.backend == "reference" else self.tier
        slices = "whole" if self.slice_units is None else f"{self.slice_units} unit a call"
        return f"{tier:12} {self.threads} threads, {slices}"


def ways(*, has_reference: bool) -> Iterator[Way]:
    """Every tier with one and two threads, plain and sliced by one layer, and the reference."""
    for tier in available_tiers():
        for threads in (1, 2):
            for slice_units in (None, 1):
                yield Way("native", tier, threads, slice_units)
    if has_reference:
        yield Way("reference")


def replays(path: Path, model: sslm.Model, way: Way) -> bool:
    """Replay in one way; print and return whether it is identical."""
    started = time.perf_counter()
    report = sslm.replay(
        path,
        model,
        backend=way.backend,
        tier=way.tier,
        threads=way.threads,
        slice_units=way.slice_units,
    )
    verdict = "identical" if report.identical else f"DIFFERENT: {report.first_difference}"
    print(f"  {way!s:45} {time.perf_counter() - started:6.1f} s  {verdict}")
    return report.identical


def missed_tokens(path: Path, model: sslm.Model) -> int:
    """Change each token in turn; print how many were found there, and return how many not."""
    record = sslm.read_record(path)
    count = len(record.token_ids)
    found = 0
    for index in range(count):
        ids = array("i", record.token_ids)
        ids[index] ^= 1
        spoiled = replace(record, saved=replace(record.saved, token_ids=ids))
        difference = sslm.replay(spoiled, model, threads=2).first_difference
        found += difference is not None and difference.token_index == index
    print(f"  one token changed: {found} of {count} found at that token")
    return count - found


def main() -> int:
    """Print a line for each way, and one for the spoiled tokens."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--tier", default="auto", help="what the records are made on")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--prompt", default="The capital of France is")
    parser.add_argument("--only", choices=sorted(_KINDS), help="one kind of record")
    parser.add_argument("--no-reference", action="store_true", help="leave the slow one out")
    arguments = parser.parse_args()
    failures = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        sslm.load(arguments.model, tier=arguments.tier, threads=2) as model,
    ):
        for kind, options in _KINDS.items():
            if arguments.only not in (None, kind):
                continue
            path = Path(folder) / f"{kind}.sslmr"
            answer = model.generate(
                arguments.prompt, max_tokens=arguments.tokens, record=path, **options
            )
            print(
                f"{kind}: {len(answer.token_ids)} tokens, recorded on {model.tier} with "
                f"{model.threads} threads, digest {answer.digest[:16]}, {path.stat().st_size} bytes"
            )
            for way in ways(has_reference=not arguments.no_reference):
                failures += not replays(path, model, way)
            failures += missed_tokens(path, model)
    print("all as they must be" if not failures else f"{failures} are not as they must be")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
