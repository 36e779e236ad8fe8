"""``sslm inspect`` shows a model file without running it."""

import hashlib
from pathlib import Path

import pytest

from sslm.artifact import TensorStream, read_artifact, write_artifact
from tests.converted import STORIES_SOURCE, stories_int4_artifact
from tests.data import shared_data
from tests.gguf_files import gguf_bytes
from tests.unit.artifact.tiny_artifact import PARTS, int4_tensor, panel_tensor, tiny_tensors
from tests.unit.cli.commands import Commands


def test_an_artifact_is_described(sslm_command: Commands, stories: Path) -> None:
    facts = sslm_command.json("inspect", stories)
    assert facts["format"] == "sslm"
    assert facts["sha256"] == hashlib.sha256(stories.read_bytes()).hexdigest()
    assert facts["size_bytes"] == stories.stat().st_size
    # It is too small for one.
    assert not facts["huge_page_bytes"]
    assert facts["arithmetic_version"] == 1
    assert facts["config"]["num_hidden_layers"] == 5
    assert facts["config"]["rope_theta"] == "10000"
    assert len(facts["fraction_bits"]["layers"]) == 5
    assert facts["golden"]["runs"] >= 2
    source = hashlib.sha256(STORIES_SOURCE.read_bytes()).hexdigest()
    assert facts["provenance"]["source_sha256"] == source
    with read_artifact(stories) as artifact:
        assert facts["model_id"] == artifact.model_id.hex()
        assert [tensor["name"] for tensor in facts["tensors"]] == list(artifact.tensors)
    embed = next(tensor for tensor in facts["tensors"] if tensor["name"] == "embed")
    assert embed == {
        "name": "embed",
        "encoding": "panel_int8",
        "shape": [512, 64],
        "size_bytes": 512 * 64,
    }


def test_the_width_of_each_kind_of_matrix_is_told(sslm_command: Commands, tmp_path: Path) -> None:
    projections = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    facts = sslm_command.json("inspect", stories_int4_artifact())
    vocabulary = dict.fromkeys(("embed", "lm_head"), "int8")
    assert facts["weights"] == vocabulary | dict.fromkeys(projections, "int4")
    tensors = {
        "layers.0.q_proj": int4_tensor("layers.0.q_proj", 2, 3),
        "layers.1.q_proj": panel_tensor("layers.1.q_proj", 2, 3),
    }
    write_artifact(tmp_path / "mixed.sslm", PARTS, TensorStream.of(tensors))
    assert sslm_command.json("inspect", tmp_path / "mixed.sslm")["weights"] == {
        "q_proj": "int4, int8"
    }


def test_an_artifact_is_described_to_a_person(sslm_command: Commands, stories: Path) -> None:
    lines = sslm_command.text("inspect", stories).splitlines()
    assert "  num_hidden_layers        5" in lines
    assert any(line.split() == ["embed", "panel_int8", "512", "x", "64", "32768"] for line in lines)


def test_the_schemas_of_an_artifact_are_listed(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    assert sslm_command.json("inspect", stories)["schemas"] == []
    lamp, path = tmp_path / "lamp.json", tmp_path / "with.sslm"
    lamp.write_text('{"enum": ["on", "off"]}')
    sslm_command.text("schema", "add", stories, lamp, "-o", path)
    (listed,) = sslm_command.json("schema", "list", path)["schemas"]
    expected = {"name": "lamp", "size_bytes": listed["size_bytes"]}
    assert sslm_command.json("inspect", path)["schemas"] == [expected]
    lines = [line.split() for line in sslm_command.text("inspect", path).splitlines()]
    assert ["lamp", str(listed["size_bytes"])] in lines


def test_nothing_of_a_file_reaches_the_terminal_as_it_is(
    sslm_command: Commands, tmp_path: Path
) -> None:
    """The template cannot even be compiled, and the provenance would clear the screen."""
    provenance = PARTS.provenance
    hostile = type(provenance)(
        source_sha256=provenance.source_sha256,
        converter_version="\x1b[2J\x9b2J",
        options={"\x1b[31m": "x"},
    )
    parts = type(PARTS)(
        config=PARTS.config,
        fraction_bits=PARTS.fraction_bits,
        vocabulary=PARTS.vocabulary,
        provenance=hostile,
        chat_template="{% endfor %}",
    )
    path = tmp_path / "hostile.sslm"
    write_artifact(path, parts, TensorStream.of(tiny_tensors()))
    out = sslm_command.text("inspect", path)
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert "\\x1b[2J\\x9b2J" in out


def test_a_gguf_file_that_can_be_converted(sslm_command: Commands) -> None:
    facts = sslm_command.json("inspect", STORIES_SOURCE)
    assert (facts["format"], facts["version"]) == ("gguf", 3)
    assert (facts["convertible"], facts["problem"]) == (True, None)
    assert facts["metadata"]["llama.block_count"] == 5
    assert facts["metadata"]["tokenizer.ggml.tokens"] == "an array of 512 string"
    assert facts["tensor_types"] == {"F32": 48}
    assert "convertible         yes\n" in sslm_command.text("inspect", STORIES_SOURCE)


def test_a_gguf_file_that_cannot_be_converted_says_why(sslm_command: Commands) -> None:
    facts = sslm_command.json("inspect", shared_data("vocab/ggml-vocab-qwen2.gguf"))
    assert facts["convertible"] is False
    assert facts["problem"] == "architecture 'qwen2' is not supported; supported are: llama"
    assert facts["problem_status"] == 210


def test_numbers_that_json_cannot_spell(sslm_command: Commands, tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    path.write_bytes(gguf_bytes({"odd.number": float("nan"), "odd.text": "x" * 200}, {}))
    metadata = sslm_command.json("inspect", path)["metadata"]
    assert metadata["odd.number"] == "nan"
    assert metadata["odd.text"] == "x" * 80 + " … (200 characters)"


@pytest.mark.parametrize("content", [None, b"", b"GG", b"SSLM", b"GGUF", b"PK\3\4" * 100])
def test_what_is_no_model_is_refused(
    sslm_command: Commands, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "file.sslm"
    if content is not None:
        path.write_bytes(content)
    sslm_command.error("inspect", path, code=3)


def test_an_unknown_name_is_refused(sslm_command: Commands) -> None:
    assert sslm_command.error("inspect", "no-such-model", code=4) == "UnknownModelError"


@pytest.mark.parametrize("name", ["smollm2-135m", "hf:org/repo"])
def test_what_is_not_fetched_yet_is_said_to_be_so(name: str, sslm_command: Commands) -> None:
    for arguments in (("inspect", name), ("tokenize", "x", "-m", name)):
        if arguments[0] == "inspect" or name.startswith("hf:"):
            facts = sslm_command.json(*arguments, code=4)["error"]
            assert facts["type"] == "NotPulledError"
            assert f"`sslm pull {name}`" in facts["message"]


@pytest.mark.parametrize("content", [b"", b"no model", b"GGUF", b"GGUF" + bytes(60), b"SSLM"])
def test_what_is_wrong_with_a_file_is_told_with_its_name(
    content: bytes, sslm_command: Commands, tmp_path: Path
) -> None:
    for name, commands in {
        "damaged.sslm": (["inspect"], ["verify"], ["pull"], ["tokenize", "x", "-m"]),
        "damaged.gguf": (["inspect"], ["pull"], ["convert", "-o", tmp_path / "out.sslm"]),
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        for command in commands:
            facts = sslm_command.json(*command, path, code=3)["error"]
            assert facts["message"].count(str(path)) == 1, command
