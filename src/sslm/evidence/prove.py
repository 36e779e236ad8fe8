"""One prompt computed in many ways, which must all give the same tokens with the same digest."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sslm import limits
from sslm.answering.results import NANOSECONDS_PER_MS
from sslm.arguments import checked_int
from sslm.artifact import Artifact
from sslm.errors.runtime import ContextLengthError, EmptyPromptError
from sslm.evidence.proof_plans import ProofPlan, compute, neighbour_ids, proof_plans
from sslm.opening.runner import Runner, open_backend
from sslm.program.plan import CHUNK_ROWS_MAX
from sslm.text.detokenizer import Detokenizer
from sslm.text.tokenizer import Tokenizer

DEFAULT_MAX_TOKENS: Final = 24

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


def _text(artifact: Artifact, tokenizer: Tokenizer, token_ids: Sequence[int]) -> str:
    """Return the text that ``generate`` would give for an answer of these ids."""
    detokenizer = Detokenizer(tokenizer, is_continuation=True)
    parts = []
    for token_id in token_ids:
        if token_id in tokenizer.end_token_ids:
            break
        parts.append(detokenizer.push(token_id))
    return "".join(parts) + detokenizer.finish()
