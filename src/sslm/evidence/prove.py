"""One prompt computed in many ways, which must all give the same tokens with the same digest."""

import time
from collections.abc import Callable
from collections.abc import Sequence as TokenIds
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

from sslm import limits
from sslm.answering.results import NANOSECONDS_PER_MS
from sslm.arguments import checked_int
from sslm.artifact import Artifact
from sslm.errors.runtime import ContextLengthError, EmptyPromptError
from sslm.native_library import available_tiers
from sslm.opening.runner import ALL_UNITS, Runner, open_backend, run_greedy
from sslm.program.parallel_for import ParallelFor
from sslm.program.spans import CHUNK_ROWS_MAX
from sslm.progress import Progress, untold
from sslm.runtime.saves.saving import restore_into, save
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.sequence import Sequence
from sslm.text.detokenizer import Detokenizer
from sslm.text.tokenizer import Tokenizer

REFERENCE_TOKENS: Final = 4
"""Tokens of the way on the reference backend, which is slow: it is written to be obvious."""

SHORT_CHUNK_TOKENS: Final = 7
NEIGHBOUR_CHUNK_TOKENS: Final = 3
HOOK_TASKS: Final = 3
SAVED_AFTER_UNITS: Final = 11
"""Units between two saves: few tokens take a multiple of it, so that saves are anywhere in them."""
DEFAULT_MAX_TOKENS: Final = 24


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to compute the answer, with what it gave.

    Args:
        name: What is special about it.
        backend: What it ran on.
        tier: The CPU tier in use.
        threads: How many threads computed.
        token_ids: The answer.
        digests: Hex digest of the answer after each of its tokens: the last one is the whole
            answer's.
        ms: Wall time of prompt and answer, in whole milliseconds.
        first_difference: Index of the first token at which this way differs from the first way,
            in the token or in its digest; None if it does not.
    """

    name: str
    backend: str
    tier: str
    threads: int
    token_ids: tuple[int, ...]
    digests: tuple[str, ...]
    ms: int
    first_difference: int | None

    @property
    def tokens(self) -> int:
        """How many tokens it computed."""
        return len(self.token_ids)

    @property
    def digest(self) -> str:
        """Hex digest of all that it computed."""
        return self.digests[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofReport:
    """What every way gave.

    Args:
        ways: In the order in which they ran; the others are compared with the first.
        token_ids: The answer of the first way.
        text: The answer's text, up to an end token.
        digest: Hex digest of the answer.
    """

    ways: tuple[Way, ...]
    token_ids: tuple[int, ...]
    text: str
    digest: str

    @property
    def ok(self) -> bool:
        """Whether no way differs from the first."""
        return all(way.first_difference is None for way in self.ways)


def prove(
    artifact: Artifact,
    tokenizer: Tokenizer,
    prompt_ids: TokenIds[int],
    *,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    on_progress: Progress = untold,
) -> ProofReport:
    """Continue a prompt greedily on every CPU tier of this machine, and in several ways.

    The ways: each tier, two threads, tasks that a host's function runs, one layer a call, prefill
    in chunks of seven tokens, beside another sequence in the same runs, on top of a shared prefix,
    saved and restored in the middle of tokens, and the first tokens on the reference backend. An
    end token does not end the answer here, so that every way computes the same number of tokens.

    Args:
        artifact: The model.
        tokenizer: Of the artifact.
        prompt_ids: At least one id.
        max_tokens: Tokens of the answer, at least 1.
        on_progress: Called after each way.

    Raises:
        EmptyPromptError: If there is no prompt.
        OptionRangeError: If *max_tokens* is out of range.
        ContextLengthError: If prompt and answer do not fit the model's context.
        TokenIdRangeError: If a prompt id is not in the vocabulary.
        SslmError: If a backend cannot be opened.
    """
    prompt = list(prompt_ids)
    if not prompt:
        raise EmptyPromptError
    max_tokens = checked_int("max_tokens", max_tokens, lowest=1, highest=limits.CONTEXT_TOKENS_MAX)
    limit = artifact.config.max_position_embeddings
    if len(prompt) + max_tokens > limit:
        raise ContextLengthError(len(prompt) + max_tokens, limit, limit)
    plans = proof_plans()
    first = _run(artifact, plans[0], prompt, max_tokens, None)
    ways = [first]
    on_progress(1, len(plans))
    for plan in plans[1:]:
        ways.append(_run(artifact, plan, prompt, max_tokens, first))
        on_progress(len(ways), len(plans))
    return ProofReport(
        ways=tuple(ways),
        token_ids=first.token_ids,
        text=_text(artifact, tokenizer, first.token_ids),
        digest=first.digest,
    )


def _run(
    artifact: Artifact, plan: ProofPlan, prompt: list[int], max_tokens: int, first: Way | None
) -> Way:
    """Compute the answer in one way and compare it with the first."""
    count = min(max_tokens, plan.max_tokens or max_tokens)
    neighbour = neighbour_ids(prompt, count) if plan.has_neighbour else []
    context_tokens = max(len(prompt) + count - 1, len(neighbour))
    runner = Runner(
        artifact,
        open_backend(
            plan.backend, tier=plan.tier, threads=plan.threads, parallel_for=plan.parallel_for
        ),
        context_tokens=context_tokens,
        row_count_max=2 * CHUNK_ROWS_MAX,
    )
    try:
        started_ns = time.perf_counter_ns()
        token_ids, digests = compute(runner, plan, prompt, count, neighbour)
        elapsed_ns = time.perf_counter_ns() - started_ns
    finally:
        runner.close()
    return Way(
        name=plan.name,
        backend=runner.backend_name,
        tier=runner.tier,
        threads=plan.threads,
        token_ids=tuple(token_ids),
        digests=tuple(digests),
        ms=elapsed_ns // NANOSECONDS_PER_MS,
        first_difference=_first_difference(first, token_ids, digests) if first else None,
    )


def _first_difference(first: Way, token_ids: list[int], digests: list[str]) -> int | None:
    pairs = zip(first.token_ids, first.digests, strict=True)
    for index, (found, expected) in enumerate(
        zip(zip(token_ids, digests, strict=True), pairs, strict=False)
    ):
        if found != expected:
            return index
    return None


def _text(artifact: Artifact, tokenizer: Tokenizer, token_ids: TokenIds[int]) -> str:
    """Return the text that ``generate`` would give for an answer of these ids."""
    detokenizer = Detokenizer(tokenizer, is_continuation=True)
    parts = []
    for token_id in token_ids:
        if token_id in tokenizer.end_token_ids:
            break
        parts.append(detokenizer.push(token_id))
    return "".join(parts) + detokenizer.finish()
