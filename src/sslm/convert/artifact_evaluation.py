"""An artifact as a model that can be evaluated: its exact logits in natural units."""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from sslm.answering.logprobs import PromptLogprobs
from sslm.artifact import Artifact
from sslm.convert.evaluate import (
    Evaluation,
    Float64Array,
    Int64Array,
    LogitsArray,
    evaluate,
)
from sslm.convert.source import GgufModelSource
from sslm.errors.commands import SourceFileMismatchError
from sslm.errors.model import SourceMismatchError
from sslm.errors.reading import unreadable
from sslm.hashes import sha256_of
from sslm.opening.runner import Runner
from sslm.progress import Progress, untold
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.state import Chunk
from sslm.threads import open_file

_PIECE_SIZE_BYTES: Final = 1 << 20


class ArtifactLogits:
    """The integer model in the form that :func:`sslm.convert.evaluate.evaluate` takes.

    Beside the floats that are compared with those of the source, it adds up exact log-probabilities
    of the tokens that are scored (docs/arithmetic.md, 5.10).

    Args:
        artifact: The model.
        runner: Of the artifact.

    Attributes:
        log_likelihood_q20: Sum over all windows of which :meth:`end_window` was told.
    """

    def __init__(self, artifact: Artifact, runner: Runner) -> None:
        self._runner = runner
        self._vocab_size = artifact.config.vocab_size
        self._token_count = runner.program.token_count
        self._window: PromptLogprobs | None = None
        self.log_likelihood_q20 = 0

    def logits_blocks(self, token_ids: Int64Array, rows_per_block: int) -> Iterator[Float64Array]:
        """Yield the logits after every token of one window that starts from nothing.

        Args:
            token_ids: Ids of the window, at least one.
            rows_per_block: Rows of each block but the last, 1 … 64.

        Yields:
            float64 [rows, ids that have a token].
        """
        ids = token_ids.tolist()
        self._window = PromptLogprobs(self._runner, ids, 0)
        options = SequenceOptions(
            context_tokens=len(ids),
            chunk_tokens=rows_per_block,
            has_all_logits=True,
            chooses=True,
        )
        with self._runner.sequence(options) as sequence:
            sequence.push(ids)
            while sequence.has_work:
                for _, chunk in self._runner.advance([sequence]):
                    self._window.take(chunk)
                    yield self._natural(chunk)

    def end_window(self, first_scored: int) -> None:
        """Add the log-probabilities of the last window's tokens from *first_scored* on."""
        if self._window is not None:
            found = self._window.found[first_scored:]
            self.log_likelihood_q20 += sum(one.q20 for one in found if one is not None)

    def _natural(self, chunk: Chunk) -> Float64Array:
        rows = chunk.span.row_count
        if chunk.span.logits is None or chunk.span.logit_exponents is None:
            raise AssertionError("the sequence was made with all logits and room for scores")
        count = rows * self._vocab_size
        logits = np.frombuffer(chunk.span.logits, dtype=np.int64, count=count)
        exponents = np.frombuffer(chunk.span.logit_exponents, dtype=np.int32, count=rows)
        known = logits.reshape(rows, -1)[:, : self._token_count]
        return np.ldexp(known.astype(np.float64), exponents[:, None])


def require_source(artifact: Artifact, path: str | os.PathLike[str]) -> None:
    """Raise unless a file is, by its SHA-256, the one that an artifact was converted from.

    Raises:
        SourceFileMismatchError: If it is another file.
        UnreadableFileError: If the system refuses to read it.
    """
    try:
        with open_file(Path(path), "rb") as file:
            found = sha256_of(iter(partial(file.read, _PIECE_SIZE_BYTES), b""))
    except OSError as error:
        raise unreadable(path, error) from error
    expected = artifact.provenance.source_sha256
    if found != expected:
        raise SourceFileMismatchError(os.fspath(path), found.hex(), expected.hex())


def evaluate_artifact(
    artifact: Artifact,
    runner: Runner,
    source: GgufModelSource,
    text: str,
    *,
    context: int = 512,
    stride: int = 512,
    token_limit: int | None = None,
    on_progress: Progress = untold,
) -> Evaluation:
    """Score a text under an artifact and under the float32 weights of a source.

    Args:
        artifact: The integer model, whose tokenizer cuts the text.
        runner: Of the artifact, for sequences of *context* tokens.
        source: What it was converted from.
        text: As :meth:`sslm.text.tokenizer.Tokenizer.encode` takes it.
        context: Longest window in tokens.
        stride: Distance between the beginnings of two windows, in tokens.
        token_limit: How many tokens of the text are read, or None for all.
        on_progress: Called with the positions scored so far and in all.

    Raises:
        SourceMismatchError: If the two models have different vocabularies.
        SslmError: What :func:`sslm.convert.evaluate.evaluate` raises, and what a text raises that
            the tokenizer refuses.
    """
    if artifact.config.vocab_size != source.config.vocab_size:
        raise SourceMismatchError(
            "vocab_size", artifact.config.vocab_size, source.config.vocab_size
        )
    tokenizer = artifact.tokenizer()
    token_ids = tokenizer.encode(text, add_bos=False, add_eos=False)[:token_limit]
    model = ArtifactLogits(artifact, runner)
    reference, token_count = source.family.float_pass(source), len(artifact.vocabulary.tokens)

    def source_blocks(ids: Int64Array, rows_per_block: int) -> Iterator[LogitsArray]:
        # Rows that pad the vocabulary have weights, and so the source gives them logits.
        return (block[:, :token_count] for block in reference.logits_blocks(ids, rows_per_block))

    found = evaluate(
        token_ids,
        source=source_blocks,
        artifact=model.logits_blocks,
        context=context,
        stride=stride,
        bos_token_id=artifact.vocabulary.bos_token_id if artifact.vocabulary.add_bos else None,
        on_progress=on_progress,
        on_window=model.end_window,
    )
    return replace(found, log_likelihood_q20=model.log_likelihood_q20)
