"""Recording golden runs on the reference backend."""

from contextlib import suppress
from typing import Final

from sslm.artifact import Artifact, Golden, GoldenRun, TokenPair
from sslm.backends.reference import ReferenceBackend
from sslm.convert.calibration_text import (
    GOLDEN_CHAT,
    GOLDEN_CHAT_CONTROLS,
    GOLDEN_PROMPTS,
    TOKEN_PAIR_TEXTS,
)
from sslm.errors.text import TextNotEncodableError
from sslm.opening.runner import Runner
from sslm.opening.tracing import run_traced, weight_digests
from sslm.progress import Progress
from sslm.text.tokenizer import Tokenizer

ANSWER_TOKENS: Final = 8
PROMPT_TOKENS_MAX: Final = 48


def record_golden(artifact: Artifact, on_progress: Progress) -> Golden:
    """Run the golden prompts of an artifact on the reference backend.

    Args:
        artifact: Without golden runs of its own; its ``model_id`` is final.
        on_progress: Called with runs done and in all.
    """
    tokenizer = artifact.tokenizer()
    prompts = _prompts(artifact, tokenizer)
    context_tokens = PROMPT_TOKENS_MAX + ANSWER_TOKENS
    runner = Runner(artifact, ReferenceBackend(), context_tokens=context_tokens)
    runs = []
    for text, ids, answer_tokens in prompts:
        run = run_traced(runner, ids, max_tokens=answer_tokens)
        runs.append(
            GoldenRun(
                text=text,
                prompt_token_ids=tuple(ids),
                token_ids=tuple(run.token_ids),
                digest=run.digest,
                segment_digests=run.segment_digests,
            )
        )
        on_progress(len(runs), len(prompts))
    return Golden(
        runs=tuple(runs),
        weight_digests=weight_digests(runner.program, artifact.tensors),
        token_pairs=tuple(_token_pairs(tokenizer)),
    )


def _prompts(artifact: Artifact, tokenizer: Tokenizer) -> list[tuple[str | None, list[int], int]]:
    """Return text, ids and answer length of every golden run."""
    limit = min(PROMPT_TOKENS_MAX, artifact.config.max_position_embeddings - ANSWER_TOKENS)
    prompts: list[tuple[str | None, list[int], int]] = []
    for text in GOLDEN_PROMPTS:
        # A vocabulary without byte tokens cannot spell everything.
        with suppress(TextNotEncodableError):
            ids = tokenizer.encode(text)[: max(limit, 1)]
            prompts.append((text, ids, ANSWER_TOKENS if limit >= 1 else 1))
    if artifact.chat_template is not None:
        ids = _chat_ids(tokenizer)
        if ids:
            prompts.append((None, ids[: max(limit, 1)], 1))
    # Without any of them, the first token will do: what is replayed is the arithmetic.
    return prompts or [(None, [0], ANSWER_TOKENS if limit >= 1 else 1)]


def _chat_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of the golden conversation, empty if the vocabulary has no ids for it.

    The model's template is not rendered: a conversion runs nothing that a file brings.
    """
    if not tokenizer.control_ids.keys() >= GOLDEN_CHAT_CONTROLS:
        return []
    with suppress(TextNotEncodableError):
        return tokenizer.encode_with_controls(GOLDEN_CHAT)
    return []


def _token_pairs(tokenizer: Tokenizer) -> list[TokenPair]:
    pairs = []
    for text in TOKEN_PAIR_TEXTS:
        with suppress(TextNotEncodableError):
            pairs.append(TokenPair(text=text, token_ids=tuple(tokenizer.encode(text))))
    return pairs
