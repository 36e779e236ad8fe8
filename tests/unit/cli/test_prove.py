"""``sslm prove``: the table, the JSON and the exit code."""

import dataclasses
from pathlib import Path

import pytest

from sslm.evidence import prove as prove_module
from sslm.evidence.prove import ProofReport
from tests.unit.cli.commands import Commands

PROMPT = "Once upon a time"


def test_a_person_sees_the_text_once_and_one_digest(sslm_command: Commands, stories: Path) -> None:
    lines = sslm_command.text("prove", PROMPT, "-m", stories, "--max-tokens", "8").splitlines()
    assert lines[0] == "Once upon a time, there was a little girl"
    head = next(index for index, line in enumerate(lines) if line.startswith("way "))
    rows = lines[head + 1 : lines.index("", head)]
    assert len(rows) >= 6
    short, whole = {row.split()[-2] for row in rows[:-1]}, {row.split()[-1] for row in rows[:-1]}
    assert (len(short), len(whole)) == (1, 1)
    # The reference computes only the first tokens.
    assert {rows[-1].split()[-1]} == short
    assert lines[-1].startswith(
        f"{len(rows)} ways agree wherever they went. One digest: {whole.pop()}"
    )


def test_json_tells_every_way(sslm_command: Commands, stories: Path) -> None:
    facts = sslm_command.json("prove", PROMPT, "--model", stories, "--max-tokens", "5")
    assert facts["ok"] is True
    assert len(facts["token_ids"]) == 5
    assert facts["text"].startswith(", there was")
    native = {way["digest"] for way in facts["ways"] if way["backend"] == "native"}
    assert native == {facts["digest"]}
    assert all(way["first_difference"] is None for way in facts["ways"])
    generated = sslm_command.json("generate", PROMPT, "--model", stories, "--max-tokens", "5")
    for name in ("text", "token_ids", "digest", "model_id"):
        assert facts[name] == generated[name]


def test_a_difference_is_exit_code_1(
    sslm_command: Commands, stories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = prove_module.prove

    def differing(*arguments: object, **options: object) -> ProofReport:
        proof = real(*arguments, **options)  # type: ignore[arg-type]
        last = dataclasses.replace(proof.ways[-1], first_difference=2)
        return dataclasses.replace(proof, ways=(*proof.ways[:-1], last))

    monkeypatch.setattr(prove_module, "prove", differing)
    assert sslm_command.json("prove", PROMPT, "-m", stories, code=1)["ok"] is False
    out = sslm_command.text("prove", PROMPT, "-m", stories, code=1)
    assert "DIFFERENT: reference, from token 3 on" in out
    assert "one digest" not in out


def test_bad_requests_are_refused(sslm_command: Commands, stories: Path) -> None:
    arguments = ("prove", PROMPT, "-m", stories, "--max-tokens", "0")
    assert sslm_command.error(*arguments, code=2) == "OptionRangeError"
    # The fixture's cache is empty, and fetching is switched off.
    assert sslm_command.error("prove", PROMPT, code=6) == "OfflineError"
    assert sslm_command.error("prove", PROMPT, "-m", "nobody", code=4) == "UnknownModelError"


def test_help_has_an_example(sslm_command: Commands) -> None:
    assert "Example: sslm prove" in sslm_command.text("prove", "--help")
