"""From a GGUF file to a verified artifact."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sslm.artifact import (
    Artifact,
    ArtifactParts,
    Provenance,
    TensorStream,
    read_artifact,
    write_artifact,
)
from sslm.artifact.atomic_file import give_name, require_no_input, require_replaceable
from sslm.artifact.work_folder import work_folder
from sslm.artifact.write_errors import named_write_errors
from sslm.backends.native import NativeBackend
from sslm.convert.balance import balance_for, no_balance
from sslm.convert.calibrate import calibrate, rough_bits
from sslm.convert.calibration_ids import calibration_ids, int4_calibration_ids
from sslm.convert.correlations import Correlations, Int4Correlations
from sslm.convert.golden_runs import record_golden
from sslm.convert.inputs import watch_inputs
from sslm.convert.integer_weights import IntegerWeights, read_integer_weights
from sslm.convert.source import GgufModelSource
from sslm.convert.vocabulary import chat_template_from_gguf, vocabulary_from_gguf
from sslm.convert.weight_formats import WeightFormats
from sslm.errors.convert import CalibrationError, ConversionDiffersError
from sslm.errors.gguf import GgufError
from sslm.errors.program import AccumulatorBoundError
from sslm.errors.status import Status
from sslm.evidence.verification import verify
from sslm.hashes import Sha256
from sslm.model.fraction_bits import FractionBits
from sslm.opening.runner import Runner
from sslm.progress import StageProgress, untold_stage
from sslm.text.tokenizer import Tokenizer
from sslm.version import VERSION

_READ_SIZE_BYTES: Final = 1 << 20

_BLAMED_WEIGHT: Final = 4096.0
"""If a conversion's numbers do not fit, a weight from here on is why. Those of trained models
are below a few hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionReport:
    """What a conversion wrote.

    Args:
        path: The artifact.
        model_id: Hex name of everything that can change a token.
        file_sha256: What ``sha256sum`` prints for it.
        file_size_bytes: Its size.
        source_sha256: Of the file it was made from.
    """

    path: str
    model_id: str
    file_sha256: str
    file_size_bytes: int
    source_sha256: str


def convert_gguf(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    weights: str = "int8",
    head_weights: str = "int8",
    is_replaced: bool = True,
    on_progress: StageProgress = untold_stage,
) -> ConversionReport:
    """Convert a GGUF model; the same source and version give the same bytes on every machine.

    The artifact is read back through the loader and verified on the native backend before it gets
    its name. After an error or an interrupt nothing is left behind; what a killed process leaves is
    removed by the next conversion to the same place.

    Args:
        source: A GGUF file of a supported architecture.
        out: Where the artifact goes; its folder must be there.
        weights: Format of the weights of the layers: ``int8`` or ``int4``.
        head_weights: The same for the embedding and the output projection.
        is_replaced: Whether *out* may be another file's when the artifact is complete.
        on_progress: Called often.

    Raises:
        ArtifactError: If the source is not one we accept; one class per cause.
        GgufError: If a weight is too large for the arithmetic.
        CalibrationError, AccumulatorBoundError: If its numbers do not suit it for another reason.
        ConversionDiffersError: If this machine does not compute what the reference computed.
        DiskFullError, UnwritableFileError: If the artifact cannot be written.
        OutputExistsError: If *out* is taken by then, and may not be.
        ArgumentError: If *out* is no regular file, or the source itself.
    """
    formats = WeightFormats(weights, head_weights)
    path = Path(out)
    _check_output(path, Path(source))
    # The folder first: a place that cannot be written is found before a minute of work. It lies
    # beside the file, so that the last step is a rename.
    with work_folder(path.parent, prefix=f".{path.name}.", purpose=path) as folder:
        parts, tensors = _convert(Path(source), formats, on_progress)
        written = _write_verified(folder, parts, tensors, on_progress)
        report = _report(path, written, parts.provenance.source_sha256)
        with named_write_errors(path):
            give_name(written, path, is_replaced=is_replaced)
    return report


def _check_output(path: Path, source: Path) -> None:
    """Raise unless *path* is free, or a regular file other than the source."""
    if require_replaceable(path):
        require_no_input(path, {"the source": source})


def _convert(
    source: Path, formats: WeightFormats, on_progress: StageProgress
) -> tuple[ArtifactParts, TensorStream]:
    """Return all of the artifact but its golden runs."""
    with GgufModelSource.open(source) as model:
        formats.check_columns(model.config, model.name_in_file)
        # Of what was opened: another file may have taken the name since.
        digest = _sha256(model.file.content, on_progress)
        vocabulary = vocabulary_from_gguf(model.file.metadata)
        chat_template = chat_template_from_gguf(model.file.metadata)
        tokenizer = Tokenizer(vocabulary, chat_template)
        quantized, bits = _quantize_or_blame(model, tokenizer, formats, on_progress)
        parts = ArtifactParts(
            config=model.config,
            fraction_bits=bits,
            vocabulary=vocabulary,
            chat_template=chat_template,
            provenance=Provenance(
                source_sha256=digest,
                converter_version=VERSION,
                options=formats.options(),
            ),
        )
        return parts, TensorStream.of(quantized.tensors(bits))


def _quantize_or_blame(
    model: GgufModelSource, tokenizer: Tokenizer, formats: WeightFormats, on_progress: StageProgress
) -> tuple[IntegerWeights, FractionBits]:
    """Do as :func:`_quantize` does; if numbers do not fit, name the weight that is too large."""
    try:
        return _quantize(model, tokenizer, formats, on_progress)
    except (AccumulatorBoundError, CalibrationError) as error:
        name, index, found = model.largest_weight()
        if abs(found) >= _BLAMED_WEIGHT:
            raise GgufError(
                Status.GGUF_WEIGHT_TOO_LARGE, name=name, index=index, found=found
            ) from error
        raise


def _quantize(
    model: GgufModelSource, tokenizer: Tokenizer, formats: WeightFormats, on_progress: StageProgress
) -> tuple[IntegerWeights, FractionBits]:
    """Round the weights twice: as they are, to see their inputs, and then against those."""
    texts = calibration_ids(tokenizer, model.config)
    more_texts = int4_calibration_ids(tokenizer, model.config) if formats.is_any_int4 else []

    plain = read_integer_weights(model, lambda done, total: on_progress("read", done, total))
    on_progress("run", 0, 2)
    bits = rough_bits(plain, texts)
    on_progress("run", 1, 2)
    inputs = watch_inputs(plain, bits, [*texts, *more_texts])
    on_progress("run", 2, 2)
    head = "embed" if model.config.tie_word_embeddings else "lm_head"
    # Codes of four bits gain more from undoing each other's errors than balance leaves them.
    is_balanced = formats.layers == "int8"
    balance = balance_for(model.config, inputs) if is_balanced else no_balance(model.config)
    of_int8 = Correlations(inputs, balance, head)
    of_int4 = Int4Correlations(inputs, balance, head)
    weights = read_integer_weights(
        model,
        lambda done, total: on_progress("quantize", done, total),
        balance.apply,
        lambda name: (of_int4 if formats.is_int4(name) else of_int8).of(name),
        rope=plain.rope,
        formats=formats,
    )
    return weights, calibrate(
        weights, texts, lambda done, total: on_progress("calibrate", done, total), bits
    )


def _write_verified(
    folder: Path, parts: ArtifactParts, tensors: TensorStream, on_progress: StageProgress
) -> Path:
    """Write the artifact with its golden runs and replay them from the file."""
    draft, final = folder / "draft.sslm", folder / "final.sslm"
    on_progress("write", 0, 2)
    write_artifact(draft, parts, tensors)
    with read_artifact(draft) as artifact:
        golden = record_golden(
            artifact, lambda done, total: on_progress("golden runs", done, total)
        )
    on_progress("write", 1, 2)
    write_artifact(
        final,
        ArtifactParts(
            config=parts.config,
            fraction_bits=parts.fraction_bits,
            vocabulary=parts.vocabulary,
            chat_template=parts.chat_template,
            provenance=parts.provenance,
            golden=golden,
        ),
        tensors,
    )
    on_progress("write", 2, 2)
    with read_artifact(final) as artifact:
        _verify(artifact, on_progress)
    return final


def _verify(artifact: Artifact, on_progress: StageProgress) -> None:
    backend = NativeBackend()
    golden = artifact.golden
    if golden is None:
        raise AssertionError("the artifact was written with golden runs")
    longest = max(len(run.prompt_token_ids) + len(run.token_ids) for run in golden.runs)
    runner = Runner(artifact, backend, context_tokens=longest)
    try:
        report = verify(
            artifact,
            runner,
            artifact.tokenizer(),
            threads=1,
            on_progress=lambda done, total: on_progress("verify", done, total),
        )
    finally:
        runner.close()
    if report.first_difference is not None:
        raise ConversionDiffersError(report.tier, report.first_difference)


def _report(path: Path, written: Path, source_sha256: bytes) -> ConversionReport:
    with read_artifact(written) as artifact:
        return ConversionReport(
            path=str(path),
            model_id=artifact.model_id.hex(),
            file_sha256=artifact.file_sha256().hex(),
            file_size_bytes=artifact.file_size_bytes,
            source_sha256=source_sha256.hex(),
        )


def _sha256(content: memoryview, on_progress: StageProgress) -> bytes:
    digest = Sha256()
    for start in range(0, content.nbytes, _READ_SIZE_BYTES):
        block = content[start : start + _READ_SIZE_BYTES]
        digest.update(block)
        on_progress("hash source", start + block.nbytes, content.nbytes)
    return digest.digest()
