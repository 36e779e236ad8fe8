"""Asking all engines the same questions, by turns, so that a noisy minute hits all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.versus.workers import Worker, WorkerError

INT8: Final = "sslm int8"
INT4: Final = "sslm int4"
Q8_0: Final = "llama.cpp Q8_0"
Q4_0: Final = "llama.cpp Q4_0"
OPENVINO: Final = "OpenVINO Q8_0"
"""Families of engines: a name may go on with the number of a build."""

PREFILL: Final = "prefill"
DECODE: Final = "decode"
DEEP: Final = "decode deep"
BATCH: Final = "decode batch"


@dataclass(frozen=True, kw_only=True)
class Question:
    """Something to measure.

    Args:
        name: One of this module.
        do: What the worker is asked.
        arguments: With it.
        families: Who is asked.
    """

    name: str
    do: str
    arguments: dict[str, int]
    families: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """Tokens of one answer, of all sequences together."""
        return self.arguments["tokens"] * self.arguments.get("batch", 1)


@dataclass(kw_only=True)
class Samples:
    """All answers.

    Args:
        answers: By threads, question and engine.
        ceilings: By threads and engine: bytes per second, taken right after that engine's turn.
        described: By threads and engine: versions, load times, and peaks of memory.
        problems: What went wrong with whom.
    """

    answers: dict[tuple[int, str, str], list[dict[str, Any]]] = field(default_factory=dict)
    ceilings: dict[tuple[int, str], list[float]] = field(default_factory=dict)
    described: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def questions(*, is_quick: bool) -> tuple[Question, ...]:
    """Return what is asked in every round."""
    tokens = 32 if is_quick else 128
    short = {"tokens": tokens, "depth": 16, "batch": 1}
    return (
        Question(
            name=PREFILL,
            do="prefill",
            arguments={"tokens": 512},
            families=(INT8, Q8_0, OPENVINO, INT4, Q4_0),
        ),
        Question(name=DECODE, do="decode", arguments=short, families=(INT8, Q8_0, INT4, Q4_0)),
        Question(
            name=DEEP,
            do="decode",
            arguments=short | {"tokens": tokens // 2, "depth": 2000 - tokens // 4},
            families=(INT8, Q8_0, INT4, Q4_0),
        ),
        Question(
            name=BATCH,
            do="decode",
            arguments=short | {"tokens": tokens // 2, "batch": 4},
            families=(INT8, Q8_0, INT4, Q4_0),
        ),
    )


def belongs(worker: Worker, families: Sequence[str]) -> bool:
    """Tell whether a worker is of one of these families."""
    return any(worker.engine.name.startswith(family) for family in families)


def warm_up(workers: Sequence[Worker], samples: Samples, asked: Sequence[Question]) -> list[Worker]:
    """Let every worker answer every question once; return those that could."""
    usable = []
    for worker in workers:
        try:
            described = worker.ask("describe")
            own = [question for question in asked if belongs(worker, question.families)]
            for question in own[:2]:
                worker.ask(question.do, **question.arguments)
            # Before the deep sequences, which not every engine is asked for.
            described |= worker.ask("memory")
            for question in own[2:]:
                worker.ask(question.do, **question.arguments)
        except WorkerError as error:
            samples.problems.append(str(error))
            worker.close()
            continue
        samples.described[worker.threads, worker.engine.name] = described
        usable.append(worker)
    return usable


def run_round(
    workers: list[Worker], samples: Samples, asked: Sequence[Question], *, is_backwards: bool
) -> None:
    """Ask every question of every worker once; who ends instead of answering is left out later.

    The read ceiling is sampled right after every answer of one of our own engines.

    Args:
        workers: Those that are left.
        samples: Gets the answers.
        asked: The questions.
        is_backwards: Every other round, lest somebody always meets what the same other one left in
            the caches.
    """
    turns = [(question, worker) for question in asked for worker in workers]
    for question, worker in reversed(turns) if is_backwards else turns:
        if worker not in workers or not belongs(worker, question.families):
            continue
        own = (worker.threads, worker.engine.name)
        try:
            answer = worker.ask(question.do, **question.arguments)
            if belongs(worker, (INT8, INT4)):
                read = worker.ask("ceiling")
                samples.ceilings.setdefault(own, []).append(max(read["mapped"], read["huge"]))
        except WorkerError as error:
            samples.problems.append(str(error))
            workers.remove(worker)
            continue
        key = (worker.threads, question.name, worker.engine.name)
        samples.answers.setdefault(key, []).append(answer | {"tokens": question.tokens})


def ask_ops(workers: Sequence[Worker], samples: Samples, *, is_quick: bool) -> None:
    """Let our own engines tell where their time goes."""
    for worker in workers:
        if not belongs(worker, (INT8, INT4)):
            continue
        described = samples.described[worker.threads, worker.engine.name]
        prefill = [worker.ask("ops_of_prefill", tokens=512) for _ in range(1 if is_quick else 3)]
        decode = [worker.ask("ops_of_decode", tokens=32, depth=16) for _ in range(3)]
        for name, answers in (("prefill_op_ns", prefill), ("decode_op_ns", decode)):
            kinds = answers[0]["op_ns"]
            described[name] = {
                kind: sorted(one["op_ns"][kind] for one in answers)[len(answers) // 2]
                for kind in kinds
            }
