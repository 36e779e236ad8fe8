"""The ways in which one prompt is computed to prove that they agree."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

from sslm.native_library import available_tiers
from sslm.opening.runner import ALL_UNITS, Runner, run_greedy
from sslm.program.parallel_for import ParallelFor
from sslm.program.plan import CHUNK_ROWS_MAX
from sslm.runtime.saves.saving import restore_into, save
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.sequence import Sequence

REFERENCE_TOKENS: Final = 4
"""Tokens of the way on the reference backend, which is slow: it is written to be obvious."""

SHORT_CHUNK_TOKENS: Final = 7
NEIGHBOUR_CHUNK_TOKENS: Final = 3
HOOK_TASKS: Final = 3
SAVED_AFTER_UNITS: Final = 11
"""Units between two saves: few tokens take a multiple of it, so that saves are anywhere in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofPlan:
    """How to compute the answer; the fields not explained in ``Way`` are those of a run.

    Args:
        parallel_for: What shares the work, or None.
        max_tokens: Fewer than the others where it is slow, or None.
        budget_units: Units of one slice: layers and blocks of the head.
        chunk_tokens: Most rows of one prefill chunk.
        has_neighbour: Whether another sequence is advanced in the same runs.
        has_prefix: Whether all of the prompt but its last token is a prefix that is adopted.
        is_saved: Whether the sequence is saved and restored after each slice.
    """

    name: str
    backend: str = "native"
    tier: str = "auto"
    threads: int = 1
    parallel_for: ParallelFor | None = None
    max_tokens: int | None = None
    budget_units: int = ALL_UNITS
    chunk_tokens: int = CHUNK_ROWS_MAX
    has_neighbour: bool = False
    has_prefix: bool = False
    is_saved: bool = False


def proof_plans() -> list[ProofPlan]:
    """Return the ways of this machine."""
    tiers = available_tiers()
    return [
        ProofPlan(name="best tier"),
        # The slowest tier shares its work, so that it takes no longer than the others.
        *(
            ProofPlan(name=f"tier {tier}", tier=tier, threads=2 if tier == "scalar" else 1)
            for tier in reversed(tiers[:-1])
        ),
        ProofPlan(name="two threads", threads=2),
        ProofPlan(name=f"{HOOK_TASKS} tasks of a host", parallel_for=_hook()),
        ProofPlan(name="one layer a call", budget_units=1),
        ProofPlan(name=f"prefill by {SHORT_CHUNK_TOKENS}", chunk_tokens=SHORT_CHUNK_TOKENS),
        ProofPlan(name="beside a neighbour", has_neighbour=True),
        ProofPlan(name="on a prefix", has_prefix=True),
        ProofPlan(name="saved, restored", budget_units=SAVED_AFTER_UNITS, is_saved=True),
        ProofPlan(name="reference", backend="reference", max_tokens=REFERENCE_TOKENS),
    ]


def _hook() -> ParallelFor:
    """Return a hook that runs tasks one after the other, the last one first."""

    def run(task: Callable[[int], None], task_count: int) -> None:
        for index in reversed(range(task_count)):
            task(index)

    return ParallelFor(run, max_tasks=HOOK_TASKS, scope="all")


def neighbour_ids(prompt: list[int], count: int) -> list[int]:
    """Return another prompt, long enough to be in every run."""
    chunk_count = -(-len(prompt) // CHUNK_ROWS_MAX) + count
    return list(islice(cycle(prompt[::-1]), NEIGHBOUR_CHUNK_TOKENS * chunk_count))


def compute(
    runner: Runner, plan: ProofPlan, prompt: list[int], count: int, neighbours: list[int]
) -> tuple[list[int], list[str]]:
    """Return the answer's ids, with the digest after each of them.

    Args:
        runner: Of the plan's backend.
        plan: How to go about it.
        prompt: At least one id.
        count: Tokens of the answer.
        neighbours: Ids of the sequence beside it, or none.
    """
    options = SequenceOptions(
        context_tokens=len(prompt) + count - 1,
        chunk_tokens=plan.chunk_tokens,
        reserved_tokens=0 if plan.has_prefix else None,
    )
    # With every position scored, the neighbour's chunks go through the same segments.
    neighbour_options = SequenceOptions(
        context_tokens=max(len(neighbours), 1),
        chunk_tokens=NEIGHBOUR_CHUNK_TOKENS,
        has_all_logits=plan.has_neighbour,
    )
    answer: list[int] = []
    digests: list[str] = []
    with runner.sequence(options) as sequence, runner.sequence(neighbour_options) as neighbour:
        neighbour.push(neighbours)
        shared = len(prompt) - 1 if plan.has_prefix else 0
        if plan.has_prefix:
            _adopt(runner, sequence, prompt[:shared])

        def keep(chunk: object) -> None:
            del chunk
            if sequence.selected is not None:
                answer.append(sequence.selected)
                digests.append(sequence.answer_digest(answer).hex())

        run_greedy(
            runner,
            sequence,
            prompt[shared:],
            max_tokens=count,
            budget_units=plan.budget_units,
            neighbours=(neighbour,),
            on_chunk=keep,
            after_slice=(lambda: _restore(sequence)) if plan.is_saved else (lambda: None),
        )
    return answer, digests


def _adopt(runner: Runner, sequence: Sequence, token_ids: list[int]) -> None:
    """Compute a prefix in the sequence's pool, and let the sequence begin behind it."""
    options = SequenceOptions(context_tokens=max(len(token_ids), 1), reserved_tokens=0)
    pool = sequence.state.hold.pool
    with Prefix(Sequence(runner.program, pool, runner.model_id, options)) as prefix:
        prefix.prefill(token_ids)
        while prefix.sequence.has_work:
            runner.advance([prefix.sequence])
        prefix.freeze()
        prefix.adopt_into(sequence)


def _restore(sequence: Sequence) -> None:
    """Save a sequence where it stands, forget everything, and go on from the save."""
    blob = save(sequence)
    sequence.reset()
    restore_into(sequence, blob)
