"""An artifact as a model that can be evaluated: its exact logits in natural units."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from sslm.artifact import Artifact
from sslm.backends.reference import kernels
from sslm.backends.reference.panels import int32_values
from sslm.convert.evaluate import Evaluation, Float64Array, Int64Array, evaluate
from sslm.convert.float_reference import FloatReference
from sslm.convert.source import GgufModelSource
from sslm.engine.runner import Runner
from sslm.errors.commands import SourceFileMismatchError
from sslm.errors.model import SourceMismatchError
from sslm.errors.reading import UnreadableFileError
from sslm.numerics.block_float import bfp16
from sslm.program.ops import Logits, RmsNorm
from sslm.program.program import Program, SegmentKind
from sslm.runtime.chunk import Chunk
from sslm.runtime.sequence import Sequence
from sslm.runtime.sequence_options import SequenceOptions
from sslm.text.tokenizer import Tokenizer


class ArtifactLogits:
    """The integer model in the form that :func:`sslm.convert.evaluate.evaluate` takes.

    Logits are integers at an exponent that is the same within a row and that no greedy choice
    needs, so plans do not report it. It follows from the row's residual, which the sequence still
    holds after the head, by the final norm of the reference backend (docs/arithmetic.md, 3.2, 3.3
    and 3.10).

    Args:
        artifact: The model.
        runner: Of the artifact.
    """

    def __init__(self, artifact: Artifact, runner: Runner) -> None:
        self._runner = runner
        self._norm, self._logits = _head_ops(runner.program)
        self._gain = int32_values(artifact.tensors[self._norm.gain]).astype(np.int64)

    def logits_blocks(self, token_ids: Int64Array, rows_per_block: int) -> Iterator[Float64Array]:
        """Yield the logits after every token of one window that starts from nothing.

        Args:
            token_ids: Ids of the window, at least one.
            rows_per_block: Rows of each block but the last, 1 … 64.

        Yields:
            float64 [rows, vocab_size].
        """
        options = SequenceOptions(
            context_tokens=len(token_ids), chunk_tokens=rows_per_block, has_all_logits=True
        )
        with self._runner.sequence(options) as sequence:
            sequence.push(token_ids.tolist())
            while sequence.has_work:
                for _, chunk in self._runner.advance([sequence]):
                    yield self._natural(sequence, chunk)

    def _natural(self, sequence: Sequence, chunk: Chunk) -> Float64Array:
        rows = chunk.span.row_count
        if chunk.span.logits is None:
            raise AssertionError("the sequence was made with all logits")
        width = self._logits.out.width
        logits = np.frombuffer(chunk.span.logits, dtype=np.int64, count=rows * width)
        shifts = self._row_exponents(sequence, rows) - self._logits.matrix.exponent
        return np.ldexp(logits.reshape(rows, width).astype(np.float64), shifts[:, None])

    def _row_exponents(self, sequence: Sequence, rows: int) -> Int64Array:
        """Return the exponents of the codes that the head multiplied, int64 [rows]."""
        norm = self._norm
        width = norm.source.width
        residual = np.frombuffer(sequence.memory.residual, dtype=np.int32, count=rows * width)
        normed, _ = kernels.rmsnorm(
            residual.reshape(rows, width).astype(np.int64),
            self._gain,
            gain_exponent=norm.gain_exponent,
            epsilon=norm.epsilon,
            fraction_bits=norm.source.fraction_bits,
            out_fraction_bits=norm.out.fraction_bits,
        )
        return bfp16(normed)[1]


def _head_ops(program: Program) -> tuple[RmsNorm, Logits]:
    """Return the final norm and the logits op of the first head segment."""
    segment = program.segments[program.first_head_index]
    norms = [op for op in segment.ops if isinstance(op, RmsNorm)]
    logits = [op for op in segment.ops if isinstance(op, Logits)]
    if segment.kind is not SegmentKind.HEAD or not norms or not logits:
        raise AssertionError("a head segment normalises the residual and scores it")
    return norms[0], logits[0]


def require_source(artifact: Artifact, path: str | os.PathLike[str]) -> None:
    """Raise unless a file is, by its SHA-256, the one that an artifact was converted from.

    Raises:
        SourceFileMismatchError: If it is another file.
        UnreadableFileError: If the system refuses to read it.
    """
    try:
        with Path(path).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise UnreadableFileError(os.fspath(path), error.strerror or str(error)) from error
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
    on_progress: Callable[[int, int], None] = lambda done, total: None,
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
    tokenizer = Tokenizer(artifact.vocabulary)
    token_ids = tokenizer.encode(text, add_bos=False, add_eos=False)[:token_limit]
    return evaluate(
        token_ids,
        source=FloatReference(source).logits_blocks,
        artifact=ArtifactLogits(artifact, runner).logits_blocks,
        context=context,
        stride=stride,
        bos_token_id=artifact.vocabulary.bos_token_id if artifact.vocabulary.add_bos else None,
        on_progress=on_progress,
    )
