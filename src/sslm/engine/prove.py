"""One prompt computed in many ways, which must all give the same tokens with the same digest."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

from sslm import limits
from sslm.artifact import Artifact
from sslm.engine.options import checked_int
from sslm.engine.results import NANOSECONDS_PER_MS
from sslm.engine.runner import ALL_UNITS, Runner, open_backend, run_greedy
from sslm.errors.runtime import ContextLengthError, EmptyPromptError
from sslm.native_library import available_tiers
from sslm.program.parallel_for import ParallelFor
from sslm.program.plan import CHUNK_ROWS_MAX
from sslm.runtime.sequence_options import SequenceOptions
from sslm.text.detokenizer import Detokenizer
from sslm.text.tokenizer import Tokenizer

DEFAULT_MAX_TOKENS: Final = 24
REFERENCE_TOKENS: Final = 4
"""Tokens of the way on the reference backend, which is slow: it is written to be obvious."""

SHORT_CHUNK_TOKENS: Final = 7
NEIGHBOUR_CHUNK_TOKENS: Final = 3
HOOK_TASKS: Final = 3

Progress = Callable[[int, int], None]
"""Told how many ways are done, and how many there are."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How to compute the answer; the fields not explained in ``Way`` are those of a run.

    Args:
        parallel_for: What shares the work, or None.
        max_tokens: Fewer than the others where it is slow, or None.
        budget_units: Units of one slice: layers and blocks of the head.
        chunk_tokens: Most rows of one prefill chunk.
        has_neighbour: Whether another sequence is advanced in the same runs.
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


def prove(
    artifact: Artifact,
    tokenizer: Tokenizer,
    prompt_ids: Sequence[int],
    *,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    on_progress: Progress = lambda done, total: None,
) -> ProofReport:
    """Continue a prompt greedily on every CPU tier of this machine, and in several ways.

    The ways: each tier, two threads, tasks that a host's function runs, one layer a call, prefill
    in chunks of seven tokens, beside another sequence in the same runs, and the first tokens on the
    reference backend. An end token does not end the answer here, so that every way computes the
    same number of tokens.

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
        raise ContextLengthError(len(prompt) + max_tokens, limit)
    plans = _plans()
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


def _plans() -> list[_Plan]:
    tiers = available_tiers()
    return [
        _Plan(name="best tier"),
        # The slowest tier shares its work, so that it takes no longer than the others.
        *(
            _Plan(name=f"tier {tier}", tier=tier, threads=2 if tier == "scalar" else 1)
            for tier in reversed(tiers[:-1])
        ),
        _Plan(name="two threads", threads=2),
        _Plan(name=f"{HOOK_TASKS} tasks of a host", parallel_for=_hook()),
        _Plan(name="one layer a call", budget_units=1),
        _Plan(name=f"prefill by {SHORT_CHUNK_TOKENS}", chunk_tokens=SHORT_CHUNK_TOKENS),
        _Plan(name="beside a neighbour", has_neighbour=True),
        _Plan(name="reference", backend="reference", max_tokens=REFERENCE_TOKENS),
    ]


def _hook() -> ParallelFor:
    """Return a hook that runs tasks one after the other, the last one first."""

    def run(task: Callable[[int], None], task_count: int) -> None:
        for index in reversed(range(task_count)):
            task(index)

    return ParallelFor(run, max_tasks=HOOK_TASKS, scope="all")


def _run(
    artifact: Artifact, plan: _Plan, prompt: list[int], max_tokens: int, first: Way | None
) -> Way:
    """Compute the answer in one way and compare it with the first."""
    count = min(max_tokens, plan.max_tokens or max_tokens)
    neighbour_ids = _neighbour_ids(prompt, count) if plan.has_neighbour else []
    context_tokens = max(len(prompt) + count - 1, len(neighbour_ids))
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
        token_ids, digests = _answer(runner, plan, prompt, count, neighbour_ids)
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


def _answer(
    runner: Runner, plan: _Plan, prompt: list[int], count: int, neighbour_ids: list[int]
) -> tuple[list[int], list[str]]:
    """Return the answer's ids, with the digest after each of them."""
    options = SequenceOptions(
        context_tokens=len(prompt) + count - 1, chunk_tokens=plan.chunk_tokens
    )
    # With every position scored, the neighbour's chunks go through the same segments.
    neighbour_options = SequenceOptions(
        context_tokens=max(len(neighbour_ids), 1),
        chunk_tokens=NEIGHBOUR_CHUNK_TOKENS,
        has_all_logits=plan.has_neighbour,
    )
    answer: list[int] = []
    digests: list[str] = []
    with runner.sequence(options) as sequence, runner.sequence(neighbour_options) as neighbour:
        neighbour.push(neighbour_ids)

        def keep(chunk: object) -> None:
            del chunk
            if sequence.selected is not None:
                answer.append(sequence.selected)
                digests.append(sequence.answer_digest(answer).hex())

        run_greedy(
            runner,
            sequence,
            prompt,
            max_tokens=count,
            budget_units=plan.budget_units,
            neighbours=(neighbour,),
            on_chunk=keep,
        )
    return answer, digests


def _neighbour_ids(prompt: list[int], count: int) -> list[int]:
    """Return another prompt, long enough to be in every run."""
    chunk_count = -(-len(prompt) // CHUNK_ROWS_MAX) + count
    return list(islice(cycle(prompt[::-1]), NEIGHBOUR_CHUNK_TOKENS * chunk_count))


def _first_difference(first: Way, token_ids: list[int], digests: list[str]) -> int | None:
    pairs = zip(first.token_ids, first.digests, strict=True)
    for index, (found, expected) in enumerate(
        zip(zip(token_ids, digests, strict=True), pairs, strict=False)
    ):
        if found != expected:
            return index
    return None


def _text(artifact: Artifact, tokenizer: Tokenizer, token_ids: Sequence[int]) -> str:
    """Return the text that ``generate`` would give for an answer of these ids."""
    detokenizer = Detokenizer(tokenizer, is_continuation=True)
    parts = []
    for token_id in token_ids:
        if token_id in artifact.vocabulary.end_token_ids:
            break
        parts.append(detokenizer.push(token_id))
    return "".join(parts) + detokenizer.finish()
