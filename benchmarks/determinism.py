"""The same tokens, states and logits from every way to run a model; prints a table.

    python -m benchmarks.determinism [--quick] [--json] [--model PATH.sslm ...] [--flips N]

Every way runs the same prompts and digests every position after every segment, all logits, the
chosen ids and the saturation counters. Exit 1 if any way differs, or if a change of one weight code
of a sealed artifact goes unnoticed or is blamed on another segment.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.determinism_hooks import BATCH_SIZES, TASK_COUNTS, hook_choices, open_hook
from benchmarks.determinism_models import SHAPES, Subject, small_subjects, wide_subject
from benchmarks.tamper_detection import TamperRow, detect_changes
from sslm.artifact import Artifact, read_artifact
from sslm.native_library import available_tiers
from sslm.numerics.digests import head_digest
from sslm.opening.runner import ALL_UNITS, Runner, open_backend, run_greedy
from sslm.opening.tracing import segment_names
from sslm.program.spans import DIGEST_SIZE_BYTES
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.state import Chunk
from sslm.text.tokenizer import Tokenizer

CHUNKS = (64, 1, 2, 7)
"""64 rows are all of the shorter prompt at once."""
BUDGETS = (ALL_UNITS, 1, 7)
THREADS = (1, 2)
NEIGHBOUR_TOKENS = 40
NEIGHBOUR_CHUNK = 5
ROW_COUNT_MAX = 128
"""Rows of one run: those of a sequence and of its neighbours."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to run a model."""

    backend: str
    tier: str
    threads: int = 1
    chunk_tokens: int = 64
    budget_units: int = ALL_UNITS
    neighbours: int = 0
    is_traced: bool = True
    hook: tuple[str, int, str] | None = None

    def __str__(self) -> str:
        budget = "all" if self.budget_units == ALL_UNITS else self.budget_units
        parts = [
            f"{self.backend} {self.tier}",
            f"threads {self.threads}",
            f"chunk {self.chunk_tokens}",
            f"budget {budget}",
            *([f"beside {self.neighbours}"] if self.neighbours else []),
            *(["hook {}, tasks {}, scope {}".format(*self.hook)] if self.hook else []),
            *([] if self.is_traced else ["untraced"]),
        ]
        return ", ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a way came to; equal outcomes are equal bits.

    Args:
        token_ids: Of all answers.
        digests: Hex digests of the answers.
        saturations: Values clamped, by site.
        segments: For each prompt and segment the digest over all positions; empty if untraced.
    """

    token_ids: tuple[int, ...]
    digests: tuple[str, ...]
    saturations: tuple[tuple[str, int], ...]
    segments: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    model: str
    digest: str
    ways: int
    agreeing: int
    saturated: int
    seconds: float
    differing: tuple[str, ...]


def ways_for(subject: Subject, *, is_quick: bool) -> list[Way]:
    """Return every way to try, the reference's plainest first."""
    reference = Way(backend="reference", tier="auto")
    tiers = [Way(backend="native", tier=tier) for tier in available_tiers()]
    if subject.is_large:
        hooks = [
            replace(tier, hook=choice) for tier in tiers for choice in hook_choices(is_quick=True)
        ]
        return [reference, *(way for tier in tiers for way in _one_change_each(tier)), *hooks]
    if is_quick:
        return [way for base in (reference, *tiers) for way in _one_change_each(base)]
    products = [
        replace(
            base,
            threads=threads,
            chunk_tokens=chunk,
            budget_units=budget,
            neighbours=neighbours,
        )
        for base in tiers
        for threads, chunk, budget, neighbours in product(THREADS, CHUNKS, BUDGETS, (0, 1))
    ]
    untraced = [replace(base, is_traced=False) for base in tiers]
    return [*_one_change_each(reference), *products, *untraced]


def sharing_ways(*, is_quick: bool) -> list[Way]:
    """Return every way to share the work of a model: threads and hooks, in batches."""
    ways = [Way(backend="reference", tier="auto")]
    for tier in available_tiers():
        base = Way(backend="native", tier=tier)
        shared = [replace(base, threads=count) for count in TASK_COUNTS]
        shared += [replace(base, hook=choice) for choice in hook_choices(is_quick=is_quick)]
        ways += [replace(one, neighbours=size - 1) for one in shared for size in BATCH_SIZES]
    return ways


def _one_change_each(base: Way) -> list[Way]:
    threads = [] if base.backend == "reference" else [replace(base, threads=2)]
    return [
        base,
        *(replace(base, chunk_tokens=chunk) for chunk in CHUNKS[1:]),
        *(replace(base, budget_units=budget) for budget in BUDGETS[1:]),
        *threads,
        replace(base, neighbours=1),
        replace(base, is_traced=False),
    ]


def run_way(runner: Runner, subject: Subject, way: Way) -> Outcome:
    """Answer every prompt of a subject in one way."""
    parts = [_answer(runner, prompt, subject.max_tokens, way) for prompt in subject.prompts]
    return Outcome(
        token_ids=tuple(token_id for part in parts for token_id in part.token_ids),
        digests=tuple(digest for part in parts for digest in part.digests),
        saturations=tuple(pair for part in parts for pair in part.saturations),
        segments=tuple(digest for part in parts for digest in part.segments),
    )


def _answer(runner: Runner, prompt: tuple[int, ...], max_tokens: int, way: Way) -> Outcome:
    count = runner.program.first_head_index
    segments = [hashlib.sha256() for _ in range(count + 1)]

    def keep(chunk: Chunk) -> None:
        if way.is_traced:
            _digest_chunk(runner, chunk, segments)

    options = SequenceOptions(
        context_tokens=len(prompt) + max_tokens - 1,
        chunk_tokens=way.chunk_tokens,
        has_all_logits=way.is_traced,
        is_traced=way.is_traced,
    )
    beside = SequenceOptions(context_tokens=NEIGHBOUR_TOKENS, chunk_tokens=NEIGHBOUR_CHUNK)
    with ExitStack() as stack:
        sequence = stack.enter_context(runner.sequence(options))
        neighbours = [stack.enter_context(runner.sequence(beside)) for _ in range(way.neighbours)]
        for index, neighbour in enumerate(neighbours):
            neighbour.push(list(reversed(prompt))[index : index + NEIGHBOUR_TOKENS])
        token_ids = run_greedy(
            runner,
            sequence,
            list(prompt),
            max_tokens=max_tokens,
            budget_units=way.budget_units,
            neighbours=tuple(neighbours),
            on_chunk=keep,
        )
        return Outcome(
            token_ids=tuple(token_ids),
            digests=(sequence.answer_digest(token_ids).hex(),),
            saturations=tuple(sorted(sequence.saturations.items())),
            segments=tuple(one.digest() for one in segments) if way.is_traced else (),
        )


def _digest_chunk(runner: Runner, chunk: Chunk, segments: list["hashlib._Hash"]) -> None:
    span, program = chunk.span, runner.program
    assert span.trace is not None
    assert span.logits is not None
    stride = span.row_count * DIGEST_SIZE_BYTES
    for index, digest in enumerate(segments[:-1]):
        digest.update(span.trace.segments[index * stride : (index + 1) * stride])
    size = 8 * program.vocab_size
    for row in range(span.row_count):
        logits = span.logits[row * size : (row + 1) * size]
        position = span.first_position + row
        segments[-1].update(head_digest(program.arithmetic_version, position, logits))


def compare(subject: Subject, ways: Iterable[Way]) -> Row:
    """Run a subject in every way and compare each with the first."""
    started = time.perf_counter()
    expected: Outcome | None = None
    differing: list[str] = []
    count = 0
    with read_artifact(subject.path) as artifact, ExitStack() as stack:
        runners: dict[tuple[object, ...], Runner] = {}
        for way in ways:
            key = way.backend, way.tier, way.threads, way.hook
            if key not in runners:
                runners[key] = stack.enter_context(closing(_runner(artifact, subject, way)))
            found = run_way(runners[key], subject, way)
            expected = expected or found
            count += 1
            problem = _difference(runners[key], expected, found)
            if problem is not None:
                differing.append(f"{way}: {problem}")
    assert expected is not None
    joined = hashlib.sha256("".join(expected.digests).encode()).hexdigest()
    return Row(
        model=subject.name,
        digest=joined,
        ways=count,
        agreeing=count - len(differing),
        saturated=sum(amount for _, amount in expected.saturations),
        seconds=time.perf_counter() - started,
        differing=tuple(differing),
    )


def _runner(artifact: Artifact, subject: Subject, way: Way) -> Runner:
    longest = max(len(prompt) for prompt in subject.prompts) + subject.max_tokens
    hook = way.hook and open_hook(way.hook[0], max_tasks=way.hook[1], scope=way.hook[2])
    return Runner(
        artifact,
        open_backend(way.backend, tier=way.tier, threads=way.threads, parallel_for=hook),
        context_tokens=max(longest, NEIGHBOUR_TOKENS),
        row_count_max=ROW_COUNT_MAX,
    )


def _difference(runner: Runner, expected: Outcome, found: Outcome) -> str | None:
    names = segment_names(runner.program) * (len(expected.segments) or 1)
    for name, one, other in zip(names, expected.segments, found.segments, strict=False):
        if one != other:
            return f"{name} computes other values"
    for what in ("token_ids", "digests", "saturations"):
        if getattr(expected, what) != getattr(found, what):
            return f"other {what.replace('_', ' ')}"
    return None


def large_subject(path: Path) -> Subject:
    """Return a real model with two short prompts."""
    with read_artifact(path) as artifact:
        tokenizer = Tokenizer(artifact.vocabulary)
    texts = ("The capital of France is", "def fibonacci(n):\n    if n < 2:\n        return n")
    prompts = tuple(tuple(tokenizer.encode(text)) for text in texts)
    return Subject(name=path.stem, path=path, prompts=prompts, max_tokens=4, is_large=True)


def main() -> int:
    """Print the tables and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", type=Path, action="append", default=[], help="an artifact")
    parser.add_argument("--quick", action="store_true", help="fewer models and ways")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--flips", type=int, default=40, help="changed weights of each artifact")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        names = tuple(SHAPES)[:2] if arguments.quick else None
        subjects = [
            *small_subjects(Path(folder), names=names),
            *(large_subject(path) for path in arguments.model),
        ]
        tasks = [(subject, ways_for(subject, is_quick=arguments.quick)) for subject in subjects]
        tasks.append((wide_subject(Path(folder)), sharing_ways(is_quick=arguments.quick)))
        rows: list[Row] = []
        for subject, ways in tasks:
            rows.append(compare(subject, ways))
            if not arguments.json:
                _print_row(rows[-1], is_first=len(rows) == 1)
        tampered = detect_changes(Path(folder), arguments.model, flips=arguments.flips)
    ok = all(not row.differing for row in rows) and all(row.is_complete for row in tampered)
    if arguments.json:
        facts = [asdict(row) for row in rows], [asdict(row) for row in tampered]
        print(json.dumps({"ok": ok, "models": facts[0], "tampering": facts[1]}))
    else:
        _print_tampering(tampered)
        print("ok" if ok else "DIFFERENT")
    return 0 if ok else 1


def _print_row(row: Row, *, is_first: bool) -> None:
    if is_first:
        print(f"{'model':<30} {'digest':<16} {'same':>9} {'saturated':>9} {'seconds':>8}")
    same = f"{row.agreeing}/{row.ways}"
    print(f"{row.model:<30} {row.digest[:16]} {same:>9} {row.saturated:>9} {row.seconds:>8.1f}")
    for line in row.differing:
        print(f"    {line}")
    sys.stdout.flush()


def _print_tampering(rows: list[TamperRow]) -> None:
    print(f"\n{'one weight code changed':<30} {'places':>6} {'by values':>9} {'by digest':>9}")
    for row in rows:
        print(f"{row.model:<30} {row.places:>6} {row.by_values:>9} {row.by_weight_digest:>9}")
        for line in row.missed:
            print(f"    {line}")


if __name__ == "__main__":
    sys.exit(main())
