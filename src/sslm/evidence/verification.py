"""Replaying an artifact's golden runs: does this machine compute this file right?"""

from dataclasses import dataclass
from typing import Final

from sslm.artifact import Artifact, GoldenRun
from sslm.errors.base import ArtifactError, SchemaError
from sslm.errors.text import TextNotEncodableError, TokenizerFailedError
from sslm.opening.runner import Runner
from sslm.opening.tracing import TracedRun, run_traced, segment_names, weight_digests
from sslm.progress import Progress, untold
from sslm.text.tokenizer import Tokenizer

_TEXT_SHOWN_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What a verification found.

    Args:
        ok: Whether everything is as it was recorded.
        digest: Hex digest of the first golden run's answer, as this machine computes it.
        first_difference: What differs first, in words that name the segment; None if nothing.
        tier: The CPU tier that ran.
        backend: The backend that ran.
        threads: How many threads ran.
        run_count: Golden runs replayed.
    """

    ok: bool
    digest: str
    first_difference: str | None
    backend: str
    tier: str
    threads: int
    run_count: int


def verify(
    artifact: Artifact,
    runner: Runner,
    tokenizer: Tokenizer,
    *,
    threads: int,
    on_progress: Progress = untold,
) -> VerifyReport:
    """Replay every golden run and compare token ids, digests, weights, tokenizer and schemas.

    Args:
        artifact: With golden runs.
        runner: Of the artifact.
        tokenizer: Of the artifact.
        threads: For the report.
        on_progress: Called with golden runs done and in all.
    """
    golden = artifact.golden
    if golden is None:
        raise AssertionError("the caller refuses artifacts without golden runs")
    first_difference: str | None = None
    other_digest: str | None = None
    digest = ""
    for index, recorded in enumerate(golden.runs):
        run = run_traced(
            runner,
            recorded.prompt_token_ids,
            max_tokens=len(recorded.token_ids),
            forced=recorded.token_ids,
        )
        digest = digest or run.digest.hex()
        first_difference = first_difference or _value_difference(runner, index, recorded, run)
        other_digest = other_digest or _digest_difference(index, recorded, run)
        on_progress(index + 1, len(golden.runs))
    # Whatever is changed changes the model_id, and with it every digest: what names a place is
    # looked for first.
    first_difference = (
        first_difference
        or _weight_difference(artifact, runner)
        or _tokenizer_difference(artifact, tokenizer)
        or other_digest
        or _schema_difference(artifact, tokenizer)
    )
    return VerifyReport(
        ok=first_difference is None,
        digest=digest,
        first_difference=first_difference,
        backend=runner.backend_name,
        tier=runner.tier,
        threads=threads,
        run_count=len(golden.runs),
    )


def _value_difference(
    runner: Runner, index: int, recorded: GoldenRun, run: TracedRun
) -> str | None:
    names = segment_names(runner.program)
    pairs = zip(names, recorded.segment_digests, run.segment_digests, strict=True)
    for name, expected, found in pairs:
        if expected != found:
            return f"golden run {index}: {name} computes other values than were recorded"
    if list(recorded.token_ids) != run.token_ids:
        return f"golden run {index}: other token ids are selected from the same logits"
    return None


def _digest_difference(index: int, recorded: GoldenRun, run: TracedRun) -> str | None:
    if recorded.digest != run.digest:
        return f"golden run {index}: same tokens and states, another digest: another model_id"
    return None


def _weight_difference(artifact: Artifact, runner: Runner) -> str | None:
    if artifact.golden is None:
        return None
    found = weight_digests(runner.program, artifact.tensors)
    names = segment_names(runner.program)
    for name, expected, digest in zip(names, artifact.golden.weight_digests, found, strict=True):
        if expected != digest:
            return f"{name} has other weights than the golden runs were made with"
    return None


def _schema_difference(artifact: Artifact, tokenizer: Tokenizer) -> str | None:
    """Work out again what each compiled schema allows."""
    for name in artifact.schemas:
        from sslm.answer_schemas.schema import Schema

        try:
            Schema(artifact.schemas[name]).cross_check(tokenizer)
        except (ArtifactError, SchemaError) as error:
            return f"schema {name}: {error}"
    return None


def _tokenizer_difference(artifact: Artifact, tokenizer: Tokenizer) -> str | None:
    if artifact.golden is None:
        return None
    for run in artifact.golden.runs:
        ids = list(run.prompt_token_ids)
        # A prompt may have been cut to its first ids.
        if run.text is not None and _ids_or_none(tokenizer, run.text, len(ids)) != ids:
            return _other_ids(run.text)
    for pair in artifact.golden.token_pairs:
        if _ids_or_none(tokenizer, pair.text, None) != list(pair.token_ids):
            return _other_ids(pair.text)
    return None


def _ids_or_none(tokenizer: Tokenizer, text: str, count: int | None) -> list[int] | None:
    """Return the first *count* ids of a text, or None if the vocabulary cannot spell it."""
    try:
        return tokenizer.encode(text)[:count]
    except (TextNotEncodableError, TokenizerFailedError):
        return None


def _other_ids(text: str) -> str:
    is_long = len(text) > _TEXT_SHOWN_CHARS_MAX
    shown = repr(text[:_TEXT_SHOWN_CHARS_MAX]) + (f" … ({len(text)} characters)" if is_long else "")
    return f"the tokenizer makes other ids of {shown} than were recorded; convert again"
