"""Replaying golden runs: what passes, and what is named when something differs."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from sslm.artifact import Artifact, Golden, GoldenRun, TokenPair, read_artifact
from sslm.evidence.verification import VerifyReport, verify
from sslm.opening.runner import Runner, open_backend
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import PreTokenizer, TokenizerKind, TokenType, Vocabulary
from tests.converted import stories_artifact


@pytest.fixture(scope="module")
def artifact() -> Iterator[Artifact]:
    with read_artifact(stories_artifact()) as opened:
        yield opened


@pytest.fixture(scope="module")
def golden(artifact: Artifact) -> Golden:
    assert artifact.golden is not None
    return artifact.golden


def report(
    artifact: Artifact, on_progress: Callable[[int, int], None] | None = None
) -> VerifyReport:
    backend = open_backend("native", tier="auto", threads=1)
    with closing(Runner(artifact, backend, context_tokens=64)) as runner:
        return verify(
            artifact,
            runner,
            Tokenizer(artifact.vocabulary),
            threads=1,
            on_progress=on_progress or (lambda done, total: None),
        )


def with_run(artifact: Artifact, golden: Golden, index: int, run: GoldenRun) -> Artifact:
    runs = (*golden.runs[:index], run, *golden.runs[index + 1 :])
    return replace(artifact, golden=replace(golden, runs=runs))


def other_ids(shown: str) -> str:
    return f"the tokenizer makes other ids of {shown} than were recorded; convert again"


def flipped(digests: tuple[bytes, ...], index: int) -> tuple[bytes, ...]:
    return (*digests[:index], bytes(32), *digests[index + 1 :])


def test_an_untouched_artifact_verifies(artifact: Artifact, golden: Golden) -> None:
    seen: list[tuple[int, int]] = []
    found = report(artifact, lambda done, total: seen.append((done, total)))
    assert (found.ok, found.first_difference) == (True, None)
    assert found.digest == golden.runs[0].digest.hex()
    assert (found.backend, found.threads, found.run_count) == ("native", 1, len(golden.runs))
    assert seen == [(index + 1, len(golden.runs)) for index in range(len(golden.runs))]


@pytest.mark.parametrize(
    ("index", "name"), [(0, "embed"), (1, "layer 0"), (5, "layer 4"), (6, "head")]
)
def test_the_first_segment_that_differs_is_named(
    artifact: Artifact, golden: Golden, index: int, name: str
) -> None:
    run = golden.runs[1]
    digests = flipped(flipped(run.segment_digests, 6), index)
    found = report(with_run(artifact, golden, 1, replace(run, segment_digests=digests)))
    assert found.ok is False
    assert found.first_difference == (
        f"golden run 1: {name} computes other values than were recorded"
    )


def test_other_tokens_of_the_same_logits_are_named(artifact: Artifact, golden: Golden) -> None:
    run = golden.runs[0]
    other = replace(run, token_ids=(*run.token_ids[:-1], run.token_ids[-1] ^ 1))
    found = report(with_run(artifact, golden, 0, other))
    assert found.first_difference == (
        "golden run 0: other token ids are selected from the same logits"
    )


def test_another_digest_of_the_same_tokens_is_named(artifact: Artifact, golden: Golden) -> None:
    other = replace(golden.runs[0], digest=bytes(32))
    found = report(with_run(artifact, golden, 0, other))
    assert found.ok is False
    assert "another digest" in (found.first_difference or "")


@pytest.mark.parametrize(("index", "name"), [(0, "embed"), (3, "layer 2"), (6, "head")])
def test_weights_that_move_no_golden_run_are_named(
    artifact: Artifact, golden: Golden, index: int, name: str
) -> None:
    digests = flipped(golden.weight_digests, index)
    changed = replace(artifact, golden=replace(golden, weight_digests=digests))
    found = report(changed)
    assert found.first_difference == f"{name} has other weights than the golden runs were made with"


def test_pairs_of_every_kind_of_text_verify(artifact: Artifact, golden: Golden) -> None:
    """Control tokens spelled out, nothing, lone marks, and each byte token by itself."""
    tokenizer = Tokenizer(artifact.vocabulary)
    characters = [chr(code) for code in (*range(128), 0x301, 0x308, 0x200B, 0xFEFF, 0x1F600)]
    texts = ["", "<s>", "</s><unk>", "a</s>b", "<0x0A>", "e\u0301\u0323", "\u0301", *characters]
    pairs = tuple(
        TokenPair(text=text, token_ids=tuple(tokenizer.encode(text, add_bos=None)))
        for text in texts
    )
    assert {1, 2}.isdisjoint(pairs[3].token_ids[1:])
    found = report(replace(artifact, golden=replace(golden, token_pairs=pairs)))
    assert (found.ok, found.first_difference) == (True, None)


@pytest.mark.parametrize(
    ("text", "ids"),
    [("", (3,)), ("", ()), ("</s>", (1, 2)), ("\u0301", (1, 207, 132)), ("a" * 999, (1,))],
)
def test_a_pair_of_other_ids_is_named_by_its_text(
    artifact: Artifact, golden: Golden, text: str, ids: tuple[int, ...]
) -> None:
    pairs = (*golden.token_pairs, TokenPair(text=text, token_ids=ids))
    found = report(replace(artifact, golden=replace(golden, token_pairs=pairs)))
    assert found.ok is False
    shown = repr(text[:200]) + (" … (999 characters)" if len(text) > 200 else "")
    assert found.first_difference == other_ids(shown)


def test_a_pair_that_cannot_be_spelled_is_a_difference(artifact: Artifact, golden: Golden) -> None:
    tokens = ("a", *(f"b{'b' * index}" for index in range(artifact.config.vocab_size - 1)))
    vocabulary = Vocabulary(
        kind=TokenizerKind.BYTE_BPE,
        pre_tokenizer=PreTokenizer.GPT_2,
        tokens=tokens,
        token_types=bytes([TokenType.NORMAL]) * len(tokens),
    )
    pair = TokenPair(text="\x00", token_ids=(0,))
    runs = tuple(replace(run, text=None) for run in golden.runs)
    found = report(
        replace(
            artifact,
            vocabulary=vocabulary,
            golden=replace(golden, runs=runs, token_pairs=(pair,)),
        )
    )
    assert found.first_difference == other_ids(r"'\x00'")


def test_another_tokenizer_is_named(artifact: Artifact, golden: Golden) -> None:
    pairs = (TokenPair(text="Lily", token_ids=(1, 2, 3)),)
    found = report(replace(artifact, golden=replace(golden, token_pairs=pairs)))
    assert found.first_difference == other_ids("'Lily'")
