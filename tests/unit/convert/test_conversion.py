"""From a GGUF file to an artifact: the same bytes, verified, or nothing at all."""

import errno
import hashlib
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sslm.artifact import read_artifact
from sslm.backends.native import NativeBackend
from sslm.convert import conversion
from sslm.convert.calibration_text import CALIBRATION_TEXTS, GOLDEN_PROMPTS
from sslm.convert.conversion import convert_gguf
from sslm.engine.model import Model
from sslm.errors.artifact import DiskFullError, StorageFailedError, UnwritableFileError
from sslm.errors.base import SslmError
from sslm.errors.commands import OutputExistsError, OutputNotFileError
from sslm.errors.convert import ConversionDiffersError
from sslm.errors.model import SourceTensorMissingError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.status import Status
from sslm.formats.gguf.file import read_gguf
from sslm.formats.gguf.tensors import dequantize
from sslm.opening.runner import Runner, open_backend
from sslm.program.program import Program
from sslm.program.tensors import Tensors
from sslm.runtime.sequences.options import SequenceOptions
from sslm.text.tokenizer import Tokenizer
from sslm.version import VERSION
from tests.causes import Kind, raises
from tests.gguf_files import random_llama_gguf
from tests.special_files import KINDS, make_special

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


def source_in(folder: Path, name: str = "source.gguf", **changes: Any) -> Path:
    shape = {
        "seed": 4,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "intermediate_size": 20,
        "vocab_size": 270,
        "tied": False,
    }
    return random_llama_gguf(folder / name, **(shape | changes))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_name_of_the_source_changes_no_byte(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    other = tmp_path / "other \udcff.gguf"
    other.write_bytes(source.read_bytes())
    reports = [convert_gguf(path, tmp_path / "out.sslm") for path in (source, other)]
    assert reports[0] == reports[1]


def test_a_bias_that_is_left_out_is_one_of_zeros(tmp_path: Path) -> None:
    biases = {
        f"blk.{layer}.attn_{one}.bias": ("F32", np.linspace(-1, 1, width, dtype=np.float32))
        for layer in range(2)
        for one, width in (("q", 24), ("k", 8))
    }
    zeros = {f"blk.{layer}.attn_v.bias": ("F32", np.zeros(8, np.float32)) for layer in range(2)}
    sources = [
        source_in(tmp_path, f"{index}.gguf", extra_tensors=tensors)
        for index, tensors in enumerate((biases, biases | zeros, {}))
    ]
    found = [convert_gguf(source, tmp_path / "out.sslm").model_id for source in sources]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("size", [3e38, -3e38, 1e10])
@pytest.mark.parametrize(
    "name",
    [
        "token_embd.weight",
        "output_norm.weight",
        *(
            f"blk.1.{one}"
            for one in (
                "attn_norm.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight",
                "attn_output.weight", "ffn_norm.weight", "ffn_gate.weight", "ffn_up.weight",
                "ffn_down.weight", "attn_q.bias", "attn_k.bias", "attn_v.bias",
            )
        ),
    ],
)  # fmt: skip
def test_a_weight_that_is_too_large_is_named(tmp_path: Path, name: str, size: float) -> None:
    sound = source_in(tmp_path, biases=True, tied=True)
    with read_gguf(sound) as file:
        spoiled = dequantize(file.tensors[name])
    index = tuple(at // 2 for at in spoiled.shape)
    spoiled[index] = size
    tensors = {name: ("F32", spoiled)}
    path = source_in(tmp_path, "b.gguf", biases=True, tied=True, extra_tensors=tensors)
    seen: list[str] = []
    if (name, size) == ("output_norm.weight", 1e10):
        convert_gguf(path, tmp_path / "out.sslm")  # Nothing comes after it but the choice.
        return
    with raises(Status.GGUF_WEIGHT_TOO_LARGE) as caught:
        convert_gguf(path, tmp_path / "out.sslm", on_progress=lambda what, *_: seen.append(what))
    assert caught.value.args == (name, index, float(np.float32(size)))
    if abs(size) > 1e30 and not name.endswith(".bias"):
        assert "quantize" not in seen  # Before anything that takes long.


def test_the_report_is_about_the_file(tmp_path: Path) -> None:
    source, out = source_in(tmp_path), tmp_path / "out.sslm"
    report = convert_gguf(source, out)
    assert report.path == str(out)
    assert report.file_sha256 == hashlib.sha256(out.read_bytes()).hexdigest()
    assert report.file_size_bytes == out.stat().st_size
    assert report.source_sha256 == hashlib.sha256(source.read_bytes()).hexdigest()
    with read_artifact(out) as artifact:
        assert artifact.model_id.hex() == report.model_id
        assert artifact.provenance.source_sha256.hex() == report.source_sha256
        assert artifact.provenance.converter_version == VERSION
        assert artifact.provenance.options == {"weights": "int8"}
    assert names(tmp_path) == ["out.sslm", "source.gguf"]


def test_the_same_source_gives_the_same_bytes(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    reports = [convert_gguf(source, tmp_path / name) for name in ("one.sslm", "two.sslm")]
    assert (tmp_path / "one.sslm").read_bytes() == (tmp_path / "two.sslm").read_bytes()
    assert reports[0].file_sha256 == reports[1].file_sha256


@pytest.mark.parametrize("changes", [{"seed": 5}, {"rms_norm_eps": 1e-6}, {"biases": True}])
def test_another_model_has_another_identity(tmp_path: Path, changes: dict[str, Any]) -> None:
    one = convert_gguf(source_in(tmp_path), tmp_path / "1.sslm")
    two = convert_gguf(source_in(tmp_path, "other.gguf", **changes), tmp_path / "2.sslm")
    assert one.model_id != two.model_id


def test_golden_runs_are_what_the_reference_answers(tmp_path: Path) -> None:
    out = tmp_path / "out.sslm"
    convert_gguf(source_in(tmp_path), out)
    with Model(out, backend="reference") as model:
        golden = model.artifact.golden
        assert golden is not None
        assert tuple(run.text for run in golden.runs) == GOLDEN_PROMPTS
        for run in golden.runs:
            assert run.prompt_token_ids == tuple(model.tokenizer.encode(run.text or ""))[:48]
            answer = run_exactly(model, list(run.prompt_token_ids), len(run.token_ids))
            assert answer == (list(run.token_ids), run.digest)
        assert golden.token_pairs
        for pair in golden.token_pairs:
            assert pair.token_ids == tuple(model.tokenizer.encode(pair.text))
        assert model.verify().ok


def run_exactly(model: Model, prompt: list[int], count: int) -> tuple[list[int], bytes]:
    """Continue a prompt, whatever the tokens are, one at a time."""
    backend = open_backend("reference", tier="auto", threads=1)
    with closing(Runner(model.artifact, backend, context_tokens=len(prompt) + count)) as runner:
        options = SequenceOptions(context_tokens=len(prompt) + count, chunk_tokens=5)
        with runner.sequence(options) as sequence:
            answer: list[int] = []
            pending = prompt
            while len(answer) < count:
                sequence.push(pending)
                while sequence.pending_count:
                    runner.advance([sequence])
                assert sequence.selected is not None
                pending = [sequence.selected]
                answer += pending
            return answer, sequence.answer_digest(answer)


def test_a_model_that_chats_gets_a_golden_conversation(tmp_path: Path) -> None:
    metadata = {"tokenizer.chat_template": TEMPLATE}
    out = tmp_path / "out.sslm"
    convert_gguf(source_in(tmp_path, extra_metadata=metadata), out)
    with read_artifact(out) as artifact:
        assert artifact.chat_template == TEMPLATE
        assert artifact.golden is not None
        assert [run.text for run in artifact.golden.runs] == [*GOLDEN_PROMPTS, None]


def test_a_short_context_shortens_the_golden_runs(tmp_path: Path) -> None:
    out = tmp_path / "out.sslm"
    convert_gguf(source_in(tmp_path, max_position_embeddings=12), out)
    with read_artifact(out) as artifact:
        assert artifact.golden is not None
        for run in artifact.golden.runs:
            assert len(run.prompt_token_ids) + len(run.token_ids) <= 12


def test_the_calibration_text_saturates_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out.sslm"
    convert_gguf(source_in(tmp_path, biases=True), out)
    with read_artifact(out) as artifact:
        backend = open_backend("reference", tier="auto", threads=1)
        tokenizer = Tokenizer(artifact.vocabulary)
        with closing(Runner(artifact, backend, context_tokens=64)) as runner:
            for text in CALIBRATION_TEXTS:
                with runner.sequence(SequenceOptions(context_tokens=64)) as sequence:
                    sequence.push(tokenizer.encode(text)[:64])
                    while sequence.pending_count:
                        runner.advance([sequence])
                    assert set(sequence.saturations.values()) == {0}


def test_progress_is_told_of_each_kind_of_work(tmp_path: Path) -> None:
    seen: dict[str, list[tuple[int, int]]] = {}
    convert_gguf(
        source_in(tmp_path),
        tmp_path / "out.sslm",
        on_progress=lambda what, done, total: seen.setdefault(what, []).append((done, total)),
    )
    assert {"hash source", "quantize", "calibrate", "write", "golden runs", "verify"} <= set(seen)
    for steps in seen.values():
        assert [done for done, _ in steps] == sorted(done for done, _ in steps)
        assert all(0 <= done <= total for done, total in steps)
    for kind in ("hash source", "quantize", "write", "golden runs", "verify"):
        done, total = seen[kind][-1]
        assert done == total


def test_unknown_weights_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(OptionRangeError, match="int8"):
        convert_gguf(tmp_path / "missing.gguf", tmp_path / "out.sslm", weights="int2")


# Failures leave nothing, and an older file as it was.


class WrongBackend(NativeBackend):
    """A machine that computes something else: its final norm has another model's gains."""

    def compile(self, program: Program, tensors: Tensors, **options: Any) -> Any:
        """Bind to one wrong tensor."""
        wrong = {**tensors, "final_norm": tensors["layers.0.input_layernorm"]}
        return super().compile(program, wrong, **options)


def expect_failure(source: Path, out: Path, error: Kind) -> SslmError:
    """Convert over an older file, which must survive; return the error."""
    out.write_bytes(b"older")
    before = names(out.parent)
    with raises(error) as caught:
        convert_gguf(source, out)
    assert names(out.parent) == before
    assert out.read_bytes() == b"older"
    found: SslmError = caught.value
    return found


def test_an_artifact_that_fails_verification_gets_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "NativeBackend", WrongBackend)
    error = expect_failure(source_in(tmp_path), tmp_path / "out.sslm", ConversionDiffersError)
    assert "head computes other values" in str(error)


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOSPC, DiskFullError),
        (errno.EDQUOT, DiskFullError),
        (errno.EIO, StorageFailedError),
    ],
)
def test_a_disk_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: Kind
) -> None:
    def fail(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    source = source_in(tmp_path)
    monkeypatch.setattr(os, "fsync", fail)
    expect_failure(source, tmp_path / "out.sslm", error)


def test_an_interrupt_at_any_kind_of_work_leaves_nothing(tmp_path: Path) -> None:
    source, out = source_in(tmp_path), tmp_path / "out.sslm"
    kinds: list[str] = []
    convert_gguf(source, out, on_progress=lambda what, done, total: kinds.append(what))
    out.unlink()
    for kind in dict.fromkeys(kinds):

        def interrupt(what: str, done: int, total: int, kind: str = kind) -> None:
            if what == kind:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            convert_gguf(source, out, on_progress=interrupt)
        assert names(tmp_path) == ["source.gguf"]


def test_an_incomplete_source_is_refused(tmp_path: Path) -> None:
    metadata = {"llama.block_count": 3}
    source = source_in(tmp_path, extra_metadata=metadata)
    expect_failure(source, tmp_path / "out.sslm", SourceTensorMissingError)


def test_the_folder_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UnwritableFileError, match="missing"):
        convert_gguf(source_in(tmp_path), tmp_path / "missing" / "out.sslm")
    assert names(tmp_path) == ["source.gguf"]


def test_only_a_file_is_replaced_and_never_the_source(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    before = source.read_bytes()
    # Never a real device: were it replaced, the whole machine would do without it.
    specials = {tmp_path / f"{kind}.sslm": kind for kind in KINDS}
    for path, kind in specials.items():
        make_special(kind, path)
    there = names(tmp_path)
    for out in (source, *specials):
        with pytest.raises(OutputNotFileError):
            convert_gguf(source, out)
    with pytest.raises(UnwritableFileError):
        convert_gguf(source, tmp_path / ("x" * 300 + ".sslm"))
    assert source.read_bytes() == before
    assert names(tmp_path) == there


def test_a_file_that_comes_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    source, out = source_in(tmp_path), tmp_path / "out.sslm"

    def write_there(what: str, done: int, total: int) -> None:
        out.write_bytes(b"precious")

    with pytest.raises(OutputExistsError):
        convert_gguf(source, out, is_replaced=False, on_progress=write_there)
    assert out.read_bytes() == b"precious"
    out.unlink()
    report = convert_gguf(source, out, is_replaced=False)
    assert hashlib.sha256(out.read_bytes()).hexdigest() == report.file_sha256
    assert sorted(tmp_path.iterdir()) == [out, source]
