"""Proofs: every way gives the same, and a way that does not is named."""

from pathlib import Path

import pytest

from sslm.artifact import Artifact, read_artifact
from sslm.engine.model import Model
from sslm.errors.runtime import (
    ContextLengthError,
    EmptyPromptError,
    OptionRangeError,
    TokenIdRangeError,
)
from sslm.evidence import prove as prove_module
from sslm.evidence.prove import REFERENCE_TOKENS, ProofReport, prove
from sslm.native_library import available_tiers
from sslm.opening.runner import Runner
from sslm.program.plan import Backend
from sslm.text.tokenizer import Tokenizer
from tests.converted import stories_artifact
from tests.tampering import nudge_weight

PROMPT = "Once upon a time, in a house by the sea"


def _prove(prompt_ids: list[int] | None = None, max_tokens: int = 12) -> ProofReport:
    with read_artifact(stories_artifact()) as artifact:
        tokenizer = Tokenizer(artifact.vocabulary)
        ids = tokenizer.encode(PROMPT) if prompt_ids is None else prompt_ids
        return prove(artifact, tokenizer, ids, max_tokens=max_tokens)


def test_every_way_gives_one_digest() -> None:
    proof = _prove()
    assert proof.ok
    # What the model's own interface says, on the reference alone.
    with Model(stories_artifact(), backend="reference") as model:
        answer = model.generate(PROMPT, max_tokens=12)
        short = model.generate(PROMPT, max_tokens=REFERENCE_TOKENS)
    assert (proof.text, list(proof.token_ids)) == (answer.text, answer.token_ids)
    assert proof.digest == answer.digest
    for way in proof.ways:
        is_short = way.backend == "reference"
        assert way.digest == (short if is_short else answer).digest
        assert way.tokens == (REFERENCE_TOKENS if is_short else 12)
        assert way.first_difference is None


def test_the_ways_cover_tiers_threads_slices_chunks_neighbours_prefixes_and_saves() -> None:
    ways = _prove(max_tokens=2).ways
    assert {way.tier for way in ways if way.backend == "native"} == set(available_tiers())
    assert {1, 2} <= {way.threads for way in ways}
    names = {way.name for way in ways}
    assert {"one layer a call", "prefill by 7", "beside a neighbour", "reference"} <= names
    assert {"3 tasks of a host", "on a prefix", "saved, restored"} <= names
    assert len(names) == len(ways)


@pytest.mark.parametrize("length", [1, 7, 64, 65, 130])
def test_prompts_of_any_length_are_proven(length: int) -> None:
    assert _prove([5 + index % 300 for index in range(length)], max_tokens=3).ok


def test_one_token_is_an_answer() -> None:
    proof = _prove(max_tokens=1)
    assert proof.ok
    assert {way.digest for way in proof.ways} == {proof.digest}


def test_a_way_that_computes_something_else_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The least change of one weight, seen by the reference only."""
    path = tmp_path / "changed.sslm"
    data = stories_artifact().read_bytes()
    path.write_bytes(nudge_weight(data, "layers.2.o_proj", row=3, column=5))
    with read_artifact(path) as changed:

        def runner(artifact: Artifact, backend: Backend, **options: int) -> Runner:
            seen = changed if backend.name == "reference" else artifact
            made = Runner(seen, backend, **options)
            made.model_id = artifact.model_id
            return made

        monkeypatch.setattr(prove_module, "Runner", runner)
        proof = _prove()
    assert not proof.ok
    different = {
        way.name: way.first_difference for way in proof.ways if way.first_difference is not None
    }
    assert different == {"reference": 0}


def test_progress_counts_the_ways() -> None:
    reports: list[tuple[int, int]] = []
    with read_artifact(stories_artifact()) as artifact:
        tokenizer = Tokenizer(artifact.vocabulary)
        proof = prove(
            artifact,
            tokenizer,
            tokenizer.encode(PROMPT),
            max_tokens=1,
            on_progress=lambda done, total: reports.append((done, total)),
        )
    count = len(proof.ways)
    assert reports == [(index + 1, count) for index in range(count)]


def test_what_cannot_be_computed_is_refused() -> None:
    with pytest.raises(EmptyPromptError):
        _prove([])
    for max_tokens in (0, 1 << 40):
        with pytest.raises(OptionRangeError, match="expected an integer from 1 to 1048576"):
            _prove([5], max_tokens=max_tokens)
    with pytest.raises(ContextLengthError):
        _prove([5], max_tokens=1 << 20)
    with pytest.raises(TokenIdRangeError):
        _prove([1 << 20])
