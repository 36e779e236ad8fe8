"""``sslm convert`` writes a verified artifact, or nothing."""

import hashlib
from pathlib import Path

import pytest

from sslm.artifact import read_artifact
from tests.file_sizes import file_size_limit
from tests.gguf_files import random_llama_gguf
from tests.special_files import KINDS, kind_of, make_special
from tests.unit.cli.commands import Commands, start


def tiny_source(folder: Path, **shape: object) -> Path:
    """A model that is converted in a moment."""
    sizes = {
        "seed": 3,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "intermediate_size": 20,
        "vocab_size": 270,
    }
    return random_llama_gguf(folder / "source.gguf", **(sizes | shape))  # type: ignore[arg-type]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_report_names_what_was_written(sslm_command: Commands, tmp_path: Path) -> None:
    source, out = tiny_source(tmp_path), tmp_path / "out.sslm"
    facts = sslm_command.json("convert", source, "-o", out)
    assert facts["path"] == str(out)
    assert facts["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert facts["size_bytes"] == out.stat().st_size
    assert facts["source_sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert isinstance(facts["elapsed_ms"], int)
    with read_artifact(out) as artifact:
        assert facts["model_id"] == artifact.model_id.hex()
    assert names(tmp_path) == {"source.gguf", "out.sslm"}


def test_the_report_for_a_person_has_the_same_facts(sslm_command: Commands, tmp_path: Path) -> None:
    out = tmp_path / "out.sslm"
    text = sslm_command.text("convert", tiny_source(tmp_path), "-o", out, "--no-progress")
    with read_artifact(out) as artifact:
        assert artifact.model_id.hex() in text
    assert hashlib.sha256(out.read_bytes()).hexdigest() in text


def test_progress_goes_to_stderr(
    sslm_command: Commands, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start("convert", tiny_source(tmp_path), "-o", tmp_path / "out.sslm", "--json", "-v")
    out, error = process.communicate(timeout=240)
    assert process.returncode == 0
    assert out.count("\n") == 1
    assert "INFO: quantize ...\n" in error
    assert "INFO: verify ...\n" in error


def test_an_existing_file_is_replaced_only_by_force(sslm_command: Commands, tmp_path: Path) -> None:
    source, out = tiny_source(tmp_path), tmp_path / "out.sslm"
    out.write_bytes(b"precious")
    assert sslm_command.error("convert", source, "-o", out, code=4) == "OutputExistsError"
    assert out.read_bytes() == b"precious"
    first = sslm_command.json("convert", source, "-o", out, "--force")
    second = sslm_command.json("convert", source, "-o", out, "--force")
    assert first["sha256"] == second["sha256"]


def test_a_folder_is_not_replaced(sslm_command: Commands, tmp_path: Path) -> None:
    arguments = ("convert", tiny_source(tmp_path), "-o", tmp_path, "--force")
    assert sslm_command.error(*arguments, code=4) == "OutputIsFolderError"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [(), ("--force",)])
def test_nothing_but_a_file_is_replaced(
    kind: str, options: tuple[str, ...], sslm_command: Commands, tmp_path: Path
) -> None:
    out = tmp_path / "out.sslm"
    make_special(kind, out)
    before = kind_of(out)
    facts = sslm_command.json("convert", tiny_source(tmp_path), "-o", out, *options, code=4)
    assert facts["error"]["type"] == "OutputNotFileError"
    assert "--force" not in facts["error"]["message"]
    assert kind_of(out) == before


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_the_source_is_not_replaced(
    options: tuple[str, ...], sslm_command: Commands, tmp_path: Path
) -> None:
    source = tiny_source(tmp_path)
    arguments = ("convert", source, "-o", source, *options)
    assert sslm_command.error(*arguments, code=4) == "OutputNotFileError"


def test_an_unknown_weight_format_is_refused(sslm_command: Commands, tmp_path: Path) -> None:
    arguments = ("convert", tiny_source(tmp_path), "-o", tmp_path / "out.sslm", "--weights", "int3")
    assert sslm_command.error(*arguments, code=2) == "OptionRangeError"
    assert names(tmp_path) == {"source.gguf"}


@pytest.mark.parametrize(
    ("content", "error"), [(None, "UnreadableFileError"), (b"no model", "GgufMagicError")]
)
def test_a_bad_source_leaves_nothing(
    sslm_command: Commands, tmp_path: Path, content: bytes | None, error: str
) -> None:
    source = tmp_path / "source.gguf"
    if content is not None:
        source.write_bytes(content)
    before = names(tmp_path)
    assert sslm_command.error("convert", source, "-o", tmp_path / "out.sslm", code=3) == error
    assert names(tmp_path) == before


def test_a_place_that_cannot_be_written_is_named(sslm_command: Commands, tmp_path: Path) -> None:
    source = tiny_source(tmp_path)
    out = source / "out.sslm"
    facts = sslm_command.json("convert", source, "-o", out, code=4)
    assert str(out) in facts["error"]["message"]
    assert names(tmp_path) == {"source.gguf"}


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    """A limit on the size of files fails as a full disk does, in the middle of a write."""
    source = tiny_source(tmp_path)
    out = tmp_path / "out" / "out.sslm"
    out.parent.mkdir()
    with file_size_limit(5000):
        process = start("convert", source, "-o", out, "--json")
    printed, noted = process.communicate(timeout=240)
    assert process.returncode == 5
    assert '"DiskFullError"' in printed
    assert "error: " in noted
    assert names(out.parent) == set()


INTERRUPTED = """
import logging, os, signal, sys

class Interrupting(logging.Handler):
    def emit(self, record):
        if record.getMessage() == "{stage} ...":
            print("in stage: {stage}", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGINT)

logging.getLogger("sslm").addHandler(Interrupting())
from sslm.cli import main
main()
"""
"""A command that gets a signal when a stage begins: whoever sends it may come too late."""


@pytest.mark.parametrize("stage", ["quantize", "write", "golden runs"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, stage: str) -> None:
    source = tiny_source(tmp_path, num_hidden_layers=12)
    out = tmp_path / "out" / "out.sslm"
    out.parent.mkdir()
    process = start("convert", source, "-o", out, "-v", program=INTERRUPTED.format(stage=stage))
    _, noted = process.communicate(timeout=240)
    assert process.returncode == 130
    assert f"in stage: {stage}\n" in noted
    assert noted.endswith("interrupted\n")
    assert "Traceback" not in noted
    assert names(out.parent) == set()
