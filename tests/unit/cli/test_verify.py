"""``sslm verify``: its report and its exit codes."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from sslm.artifact import ArtifactParts, TensorStream, TokenPair, read_artifact, write_artifact
from sslm.native_library import TIERS, available_tiers
from tests.converted import STORIES_SOURCE
from tests.tampering import nudge_weight
from tests.unit.cli.commands import Commands


def test_the_reference_verifies_what_it_recorded(sslm_command: Commands, stories: Path) -> None:
    facts = sslm_command.json("verify", stories, "--backend", "reference")
    assert (facts["ok"], facts["first_difference"]) == (True, None)
    assert (facts["backend"], facts["tier"]) == ("reference", "numpy")
    with read_artifact(stories) as artifact:
        assert artifact.golden is not None
        assert facts["run_count"] == len(artifact.golden.runs)
        assert facts["digest"] == artifact.golden.runs[0].digest.hex()
        assert facts["model_id"] == artifact.model_id.hex()


@pytest.mark.parametrize("tier", TIERS)
def test_every_tier_gives_one_digest(sslm_command: Commands, stories: Path, tier: str) -> None:
    if tier not in available_tiers():
        pytest.skip(f"this CPU has no {tier}")
    arguments = ("verify", stories, "--backend", "native", "--tier", tier, "--threads", "2")
    facts = sslm_command.json(*arguments)
    assert facts["ok"] is True
    assert (facts["backend"], facts["tier"], facts["threads"]) == ("native", tier, 2)
    with read_artifact(stories) as artifact:
        assert artifact.golden is not None
        assert facts["digest"] == artifact.golden.runs[0].digest.hex()


def test_a_person_reads_ok_first(sslm_command: Commands, stories: Path) -> None:
    assert sslm_command.text("verify", stories, "--no-progress").startswith("ok\n")


def test_a_changed_weight_is_exit_1_and_names_its_segment(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    changed = tmp_path / "changed.sslm"
    changed.write_bytes(nudge_weight(stories.read_bytes(), "layers.3.up_proj", row=17, column=5))
    facts = sslm_command.json("verify", changed, code=1)
    assert facts["ok"] is False
    assert "layer 3" in facts["first_difference"]
    text = sslm_command.text("verify", changed, code=1)
    assert text.startswith("DIFFERENT: ")
    assert "layer 3" in text


def test_the_file_is_the_one_asked_for(sslm_command: Commands, stories: Path) -> None:
    sha256 = hashlib.sha256(stories.read_bytes()).hexdigest()
    assert sslm_command.json("verify", stories, "--sha256", sha256.upper())["ok"] is True
    error = sslm_command.error("verify", stories, "--sha256", "0" * 64, code=3)
    assert error == "ModelHashMismatchError"


def test_the_model_may_come_from_the_environment(
    sslm_command: Commands, stories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLM_MODEL", str(stories))
    assert sslm_command.json("verify")["ok"] is True


def test_a_tier_is_refused_and_not_replaced(sslm_command: Commands, stories: Path) -> None:
    assert (
        sslm_command.error("verify", stories, "--tier", "numpy", code=4) == "TierUnavailableError"
    )


def test_a_gguf_file_is_no_artifact(sslm_command: Commands) -> None:
    assert sslm_command.error("verify", STORIES_SOURCE, code=3) == "NotAnArtifactError"


def test_a_wrong_pair_of_text_and_ids_is_exit_1_and_names_the_text(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    path = tmp_path / "pair.sslm"
    with read_artifact(stories) as artifact:
        assert artifact.golden is not None
        pair = TokenPair(text="Hi</s>\x1b[2J", token_ids=(1, 2))
        parts = ArtifactParts(
            config=artifact.config,
            fraction_bits=artifact.fraction_bits,
            vocabulary=artifact.vocabulary,
            provenance=artifact.provenance,
            golden=replace(artifact.golden, token_pairs=(*artifact.golden.token_pairs, pair)),
        )
        write_artifact(path, parts, TensorStream.of(artifact.tensors))
    difference = (
        r"the tokenizer makes other ids of 'Hi</s>\x1b[2J' than were recorded; convert again"
    )
    assert sslm_command.json("verify", path, code=1)["first_difference"] == difference
    assert sslm_command.text("verify", path, code=1).startswith(f"DIFFERENT: {difference}\n")


def test_there_must_be_golden_runs(sslm_command: Commands, stories: Path, tmp_path: Path) -> None:
    path = tmp_path / "bare.sslm"
    with read_artifact(stories) as artifact:
        parts = ArtifactParts(
            config=artifact.config,
            fraction_bits=artifact.fraction_bits,
            vocabulary=artifact.vocabulary,
            provenance=artifact.provenance,
        )
        write_artifact(path, parts, TensorStream.of(artifact.tensors))
    assert sslm_command.error("verify", path, code=3) == "NoGoldenRunsError"
