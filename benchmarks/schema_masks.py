"""What masks cost at a vocabulary of 151,936 ids, beside other engines, by turns in one run.

    python benchmarks/schema_masks.py [--json] [--peer-python PYTHON] [--only NAME]... [--rounds 3]
        [--answers 6] [--tokens 120] [--vocabulary V.gguf] [--no-outlines]

Everybody compiles the schemas. Then answers at random that satisfy them, in the tokens of the
tokenizer's own split, go through all engines by turns, one schema after another. A token costs what
it takes to take it in and to mask what may follow, from Python, by the clock. Of its rounds each
place counts with the shortest (what an engine takes again and again), and with the first (what it
takes when it comes to a place for the first time). --peer-python has xgrammar, llguidance and
outlines-core; without it only ours are measured. docs/performance.md says how to make one.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.data import shared_data

from benchmarks.schema_cases import Wanderer, cases
from benchmarks.versus.workers import Engine, Worker, WorkerError, started
from sslm.answer_schemas.vocabulary import schema_vocabulary, split_continuation
from sslm.cli.screen.output import table_lines
from sslm.convert.vocabulary import vocabulary_from_gguf
from sslm.errors.base import SslmError
from sslm.formats.gguf.file import read_gguf
from sslm.schema.schema_compiler import compile_schema
from sslm.schema.tokens.bound_schema import ANY_COUNT, START, BoundSchema
from sslm.schema.tokens.step_table import StepTable
from sslm.schema.tokens.tables import build_token_tables
from sslm.schema.tokens.trie import TokenTrie
from sslm.text.tokenizer import Tokenizer

VOCAB_SIZE: Final = 151_936
SEED: Final = 20
OURS: Final = "ours"
FITTING: Final = "ours, fitting a budget"
PEERS: Final = ("xgrammar", "llguidance")
COMPILERS: Final = (*PEERS, "outlines-core")
SHARES: Final = (("median", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0))


@dataclass
class Case:
    """What was found of one schema.

    Args:
        name: Of the schema.
        source: As JSON.
        schema: Ours, if it compiles.
        answers: Token ids.
        compiling_s: CPU seconds by engine, and by part of ours.
        refusals: What engines said that refuse the schema or answers to it.
        rounds: By engine: for each round, the nanoseconds of all places.
    """

    name: str
    source: str
    schema: BoundSchema | None = None
    answers: list[list[int]] = field(default_factory=list)
    compiling_s: dict[str, float] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    rounds: dict[str, list[list[int]]] = field(default_factory=dict)

    def times(self, engine: str, *, is_first: bool) -> list[int]:
        """Return what each place took an engine: in the first round, or in its shortest."""
        rounds = self.rounds.get(engine, [])
        if not rounds or is_first:
            return list(rounds[0]) if rounds else []
        return [min(times) for times in zip(*rounds, strict=True)]


def note(text: str) -> None:
    """Tell a person how far it is."""
    print(text, file=sys.stderr, flush=True)


def quantiles(times: list[int]) -> dict[str, float]:
    """Return microseconds of a median, of quantiles near the end, and of the end."""
    ordered = sorted(times)
    last = len(ordered) - 1
    return {name: ordered[round(share * last)] / 1000 for name, share in SHARES}


class Vocabulary:
    """A tokenizer with its content, padded to a number of ids."""

    def __init__(self, path: Path) -> None:
        with read_gguf(path) as file:
            self.tokenizer = Tokenizer(vocabulary_from_gguf(file.metadata))
        began_s = time.process_time()
        tokens = schema_vocabulary(self.tokenizer).trie.tokens
        self.reading_s = time.process_time() - began_s
        self.trie = TokenTrie(tokens, VOCAB_SIZE)
        self.split = partial(split_continuation, self.tokenizer)
        end_id = self.tokenizer.vocabulary.eos_token_id
        assert end_id is not None, "answers of every engine end"
        self.end_id = end_id

    def write(self, path: Path) -> None:
        """Write what peers read."""
        tokens = [self.trie.tokens.get(index) for index in range(VOCAB_SIZE)]
        texts = [None if token is None else token.hex() for token in tokens]
        path.write_text(json.dumps({"tokens": texts, "end_id": self.end_id}))


def compile_ours(case: Case, vocabulary: Vocabulary) -> None:
    """Compile a schema part by part, with the CPU seconds of each."""
    clock = time.process_time
    moments = [clock()]
    try:
        automaton = compile_schema(json.loads(case.source)).automaton
        moments.append(clock())
        table = StepTable(automaton)
        tables = build_token_tables(table, vocabulary.trie, vocabulary.split)
        moments.append(clock())
        case.schema = BoundSchema(
            tables, vocabulary.trie, digest=bytes(32), end_ids=(vocabulary.end_id,)
        )
    except SslmError as error:
        case.refusals[OURS] = str(error)
    moments.append(clock())
    names = ("automaton", "tables", "binding")
    for name, first, last in zip(names, moments[:-1], moments[1:], strict=False):
        case.compiling_s[f"{OURS}, {name}"] = last - first
    case.compiling_s[OURS] = moments[-1] - moments[0]


def make_answers(case: Case, vocabulary: Vocabulary, count: int, token_count: int) -> None:
    """Add answers at random, in the tokens of the tokenizer's own split."""
    assert case.schema is not None
    wanderer = Wanderer(case.schema, VOCAB_SIZE, SEED)
    for _ in range(count):
        ids = wanderer.answer(token_count)
        text = b"".join(vocabulary.trie.tokens[one] for one in ids).decode()
        case.answers.append(vocabulary.tokenizer.encode_continuation(text))


def walk_ours(schema: BoundSchema, token_ids: list[int], fitting: int | None) -> list[int]:
    """Return how many nanoseconds each token took, the first number being the first mask's."""
    scratch = memoryview(bytearray(schema.scratch_size_bytes))
    clock, step, mask = time.perf_counter_ns, schema.step, schema.mask_address
    state, remaining = START, ANY_COUNT if fitting is None else fitting
    began_ns = clock()
    mask(state, remaining, scratch)
    times = [clock() - began_ns]
    for token_id in token_ids:
        began_ns = clock()
        target = step(state, token_id)
        assert target is not None, "answers satisfy the schema"
        state = target
        if fitting is not None:
            remaining -= 1
        # Without a token left nothing is asked for.
        if remaining:
            mask(state, remaining, scratch)
        times.append(clock() - began_ns)
    return times


def measure(case: Case, peers: list[Worker], round_count: int) -> None:
    """Let everybody walk through the answers of a schema, by turns."""
    schema = case.schema
    assert schema is not None
    walks: dict[str, Callable[[list[int]], list[int]]] = {
        OURS: lambda ids: walk_ours(schema, ids, None),
        # Exactly as many tokens as the answer has: the end of every answer is near the limit.
        FITTING: lambda ids: walk_ours(schema, ids, max(len(ids), schema.shortest)),
    }
    for worker in peers:
        if worker.engine.name not in case.refusals:
            walks[worker.engine.name] = partial(walk_theirs, case, worker)
    for at in range(round_count):
        for name in list(walks) if at % 2 == 0 else list(walks)[::-1]:
            if name in case.refusals:
                continue
            times = [one for ids in case.answers for one in walks[name](ids)]
            case.rounds.setdefault(name, []).append(times)


def walk_theirs(case: Case, worker: Worker, token_ids: list[int]) -> list[int]:
    """Return a peer's nanoseconds; notes a token that it refuses, and then has no times."""
    answer = worker.ask("walk", token_ids=token_ids)
    if "ns" in answer:
        times: list[int] = answer["ns"]
        return times
    case.refusals[worker.engine.name] = f"token {answer['refused_at']} of an answer"
    return []


def compile_theirs(case: Case, worker: Worker) -> None:
    """Let a peer compile a schema."""
    try:
        answer = worker.ask("compile", schema=case.source)
    except WorkerError as error:
        answer = {"refused": str(error)}
    if "refused" in answer:
        case.refusals[worker.engine.name] = answer["refused"]
    else:
        case.compiling_s[worker.engine.name] = answer["cpu_s"]


def run_case(
    case: Case, vocabulary: Vocabulary, workers: list[Worker], options: argparse.Namespace
) -> None:
    """Measure all of one schema."""
    note(f"{case.name}: compiling")
    compile_ours(case, vocabulary)
    for worker in workers:
        compile_theirs(case, worker)
    if case.schema is None:
        return
    make_answers(case, vocabulary, options.answers, options.tokens)
    note(f"{case.name}: {sum(map(len, case.answers))} tokens")
    measure(case, [one for one in workers if one.engine.name in PEERS], options.rounds)
    for name in case.refusals:
        case.rounds.pop(name, None)


def pooled(all_cases: list[Case], engine: str, among: set[str], *, is_first: bool) -> list[int]:
    """Return what all places of some schemas took an engine."""
    return [
        one
        for case in all_cases
        if case.name in among
        for one in case.times(engine, is_first=is_first)
    ]


def facts(
    all_cases: list[Case], vocabulary: Vocabulary, described: dict[str, Any]
) -> dict[str, Any]:
    """Return everything as JSON has it."""
    names = (OURS, FITTING, *PEERS)
    everything = {case.name for case in all_cases}
    shared: dict[str, Any] = {}
    for peer in PEERS:
        both = {case.name for case in all_cases if case.rounds.get(peer)}
        if not both:
            continue
        ours, theirs = (
            quantiles(pooled(all_cases, name, both, is_first=False)) for name in (OURS, peer)
        )
        compiled = [
            case
            for case in all_cases
            if OURS in case.compiling_s and peer in case.compiling_s and not case.refusals.get(OURS)
        ]
        shared[peer] = {
            "schemas": len(both),
            "ours_us": ours,
            "theirs_us": theirs,
            "theirs_over_ours": {name: theirs[name] / ours[name] for name in ours},
            "compiling_ours_over_theirs": median(
                case.compiling_s[OURS] / case.compiling_s[peer] for case in compiled
            ),
        }
    return {
        "vocab_size": VOCAB_SIZE,
        "reading_vocabulary_s": vocabulary.reading_s,
        "engines": described,
        "masks_us": {
            name: {
                "again": quantiles(times),
                "first": quantiles(pooled(all_cases, name, everything, is_first=True)),
                "tokens": len(times),
            }
            for name in names
            if (times := pooled(all_cases, name, everything, is_first=False))
        },
        "beside": shared,
        "schemas": [
            {
                "name": case.name,
                "states": case.schema.state_count if case.schema else None,
                "tokens": sum(map(len, case.answers)),
                "compiling_s": case.compiling_s,
                "refusals": case.refusals,
                "masks_us": {
                    name: quantiles(case.times(name, is_first=False)) for name in case.rounds
                },
                "first_us": {
                    name: quantiles(case.times(name, is_first=True)) for name in case.rounds
                },
            }
            for case in all_cases
        ],
    }


def show(found: dict[str, Any]) -> None:
    """Print the tables."""
    rows = [
        [name, when, str(masks["tokens"]), *(f"{masks[when][key]:.2f}" for key, _ in SHARES)]
        for name, masks in found["masks_us"].items()
        for when in ("again", "first")
    ]
    head = ("µs a token", "places met", "tokens", *(key for key, _ in SHARES))
    print("\n".join(table_lines(head, rows)))
    for peer, beside in found["beside"].items():
        ratios = ", ".join(f"{key} {one:.1f}" for key, one in beside["theirs_over_ours"].items())
        print(f"\n{peer} / ours on {beside['schemas']} schemas: {ratios}")
    print()
    parts = [f"{OURS}, {part}" for part in ("automaton", "tables", "binding")]
    rows = [
        [
            case["name"],
            *(milliseconds(case, name) for name in (*parts, *COMPILERS)),
            *(
                f"{case['masks_us'][name]['median']:.2f} / {case['masks_us'][name]['p999']:.1f}"
                if name in case["masks_us"]
                else "-"
                for name in (OURS, FITTING, *PEERS)
            ),
        ]
        for case in found["schemas"]
    ]
    head = (
        "ms of compiling",
        *parts,
        *COMPILERS,
        *(f"{name}, µs" for name in (OURS, "fitting", *PEERS)),
    )
    print("\n".join(table_lines(head, rows)))
    for case in found["schemas"]:
        for name, why in case["refusals"].items():
            print(f"\n{name} refuses {case['name']}: {why}")


def milliseconds(case: dict[str, Any], name: str) -> str:
    """Return what compiling took an engine."""
    seconds = case["compiling_s"].get(name)
    if seconds is None:
        return "refused" if name in case["refusals"] else "-"
    return f"{1000 * seconds:.1f}"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer-python", metavar="PYTHON")
    parser.add_argument("--vocabulary", type=Path, metavar="V.gguf")
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--answers", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=120, help="of an answer, at most")
    parser.add_argument("--no-outlines", action="store_true", help="whose indices take long")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def main() -> int:
    """Parse, measure, print."""
    options = parse()
    path = options.vocabulary or shared_data("vocab/ggml-vocab-qwen2.gguf")
    note("reading the vocabulary")
    vocabulary = Vocabulary(path)
    all_cases = [
        Case(name, json.dumps(schema))
        for name, schema in cases().items()
        if not options.only or name in options.only
    ]
    names = PEERS if options.no_outlines else COMPILERS
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        listed = Path(folder) / "vocabulary.json"
        vocabulary.write(listed)
        workers, described = [], {}
        for name in names if options.peer_python else ():
            engine = Engine(
                name=name,
                script="serve_schemas.py",
                model=listed,
                python=options.peer_python,
                more=(name,),
            )
            worker = stack.enter_context(started(engine, 1))
            try:
                described[name] = worker.ask("describe")
                workers.append(worker)
            except WorkerError as error:
                note(str(error))
        for case in all_cases:
            run_case(case, vocabulary, workers, options)
    found = facts(all_cases, vocabulary, described)
    if options.json:
        print(json.dumps(found))
    else:
        show(found)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        note("interrupted")
        sys.exit(130)
