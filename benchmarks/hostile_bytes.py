"""Small models with every byte cut off and changed, on their whole trip; prints who refused what.

    python -m benchmarks.hostile_bytes [--step N] [--only WORD] [--part 1/20] [--json]

A GGUF file of each tokenizer kind is read with its configuration, tokenizer and weights, and some
are converted; an artifact is read, written again, run and verified, also when all its hashes were
computed anew and its golden runs recorded anew. Each case must end in a named error or in what the
file says, within 64 MiB and a second of processor time. Exit 1 if one does not.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.gguf_files import gguf_bytes
from tests.hostile.byte_sweep import (
    CALL_COUNT_MAX,
    MEMORY_GROWTH_BYTES_MAX,
    Case,
    Sweep,
    Trip,
    cuts,
    flips,
    section_cuts,
    sweep,
)
from tests.hostile.small_models import (
    byte_level_metadata,
    model_tensors,
    runnable_artifact,
    sentencepiece_metadata,
    vocab_size_of,
)
from tests.hostile.trips import artifact_trip, conversion_trip, gguf_trip
from tests.unit.artifact.tiny_artifact import reseal

CONVERSION_STEP = 29
"""Bytes from one converted case to the next: a conversion takes a tenth of a second."""
_HEADER_SIZE_BYTES = 64


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One kind of change to one file."""

    name: str
    sound: bytes
    cases: Iterable[Case]
    trip: Trip


def subjects(folder: Path, step: int) -> Iterator[Subject]:
    """Every file with every kind of change."""
    byte_level, sentencepiece = byte_level_metadata(), sentencepiece_metadata()
    tensors = model_tensors(vocab_size_of(byte_level))
    untied = model_tensors(vocab_size_of(sentencepiece), is_tied=False, has_factors=True)
    for name, sound in (
        ("GGUF, byte-level", gguf_bytes(byte_level, tensors)),
        ("GGUF, SentencePiece", gguf_bytes(sentencepiece, untied)),
    ):
        trip = gguf_trip(sound, folder)
        yield Subject(name=f"{name}, cut", sound=sound, cases=cuts(sound, step=step), trip=trip)
        yield Subject(
            name=f"{name}, flipped", sound=sound, cases=flips(sound, step=step), trip=trip
        )
        yield Subject(
            name=f"{name}, flipped, converted",
            sound=sound,
            cases=flips(sound, step=CONVERSION_STEP * step),
            trip=conversion_trip(folder),
        )
    artifact = runnable_artifact(folder)
    trip = artifact_trip(artifact, folder)
    for name, cases in (
        ("artifact, cut", cuts(artifact, step=step)),
        ("artifact, sections cut, sealed", section_cuts(artifact, step=step)),
        ("artifact, flipped", flips(artifact, step=step)),
        (
            "artifact, flipped, sealed",
            flips(artifact, step=step, first=_HEADER_SIZE_BYTES, seal=reseal),
        ),
    ):
        yield Subject(name=name, sound=artifact, cases=cases, trip=trip)


def print_sweep(name: str, found: Sweep) -> None:
    """Print what became of one kind of change."""
    refused = sum(found.refusals.values())
    print(
        f"\n{name}: {found.cases} cases, {refused} refused, {found.loaded} loaded, "
        f"{len(found.failures)} failed; at most {found.growth_bytes / (1 << 20):.1f} MiB "
        f"and {found.calls} calls, {found.seconds:.2f} s a case"
    )
    for refusal, count in found.refusals.most_common():
        print(f"{count:8}  {refusal.error:32} {refusal.validator}")
    for failure in found.failures[:20]:
        print(f"  failed: {failure}")


def as_json(name: str, found: Sweep) -> dict[str, object]:
    """Return what became of one kind of change as JSON values."""
    return {
        "change": name,
        "cases": found.cases,
        "loaded": found.loaded,
        "refused": [
            {"validator": one.validator, "error": one.error, "cases": count}
            for one, count in found.refusals.most_common()
        ],
        "failures": found.failures,
        "growth_bytes": found.growth_bytes,
        "growth_bytes_max": MEMORY_GROWTH_BYTES_MAX,
        "seconds": found.seconds,
        "calls": found.calls,
        "calls_max": CALL_COUNT_MAX,
    }


def part(text: str) -> tuple[int, int]:
    """Read the option that names a part, such as ``1/20``: the first of every 20 cases."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part such as 1/20")
    return int(number), int(count)


def sweep_all(description: str, subjects_of: Callable[[Path, int], Iterable[Subject]]) -> int:
    """Run every kind of change that the command line asks for; return the exit status.

    Args:
        description: Of the command, for its help.
        subjects_of: Takes a folder for files and the bytes from one case to the next.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--step", type=int, default=1, help="bytes from one case to the next")
    parser.add_argument("--only", default="", help="changes whose name has this word")
    parser.add_argument("--part", type=part, default=(1, 1), help="a part of the cases, as 1/20")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    results: list[tuple[str, Sweep]] = []
    with tempfile.TemporaryDirectory() as folder:
        for subject in subjects_of(Path(folder), arguments.step):
            if arguments.only not in subject.name:
                continue
            number, count = arguments.part
            cases = islice(subject.cases, number - 1, None, count)
            found = sweep(cases, subject.trip, sound=subject.sound)
            results.append((subject.name, found))
            if not arguments.json:
                print_sweep(*results[-1])
    total = Sweep()
    for _, found in results:
        total.add(found)
    if arguments.json:
        print(json.dumps([as_json(name, found) for name, found in results], indent=1))
    else:
        print_sweep("all", total)
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(sweep_all(str(__doc__), subjects))
