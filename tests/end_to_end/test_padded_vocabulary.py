"""Models that have rows for more ids than their vocabulary has tokens."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sslm.artifact import Artifact, read_artifact
from sslm.convert.artifact_evaluation import evaluate_artifact
from sslm.convert.conversion import convert_gguf
from sslm.convert.source import GgufModelSource
from sslm.engine.model import Model
from sslm.errors.model import SourceTensorShapeError
from sslm.errors.runtime import (
    OptionRangeError,
    PaddingTokenIdError,
    TokenIdRangeError,
)
from sslm.errors.status import Status
from sslm.errors.text import TokenizerIdError
from sslm.native_library import available_tiers
from sslm.opening.runner import Runner, open_backend
from sslm.opening.tracing import run_traced
from sslm.program.spans import NOT_ALLOWED
from sslm.runtime.sequences.options import SequenceOptions
from sslm.text.detokenizer import Detokenizer
from tests.conftest import TIERS
from tests.gguf_files import random_llama_gguf

TOKEN_COUNT, VOCAB_SIZE = 270, 2001
"""Seven of eight rows are padding, so that one of them mostly has the largest logit; and the last
token lies in the middle of a panel, of a word of a mask and of a block of the head."""

PROMPT = [2, 100, 50, 269, *range(3, 90)]
"""Longer than one chunk."""

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}


def source_of(path: Path, rows: int, *, tied: bool = False) -> Path:
    weights = np.random.default_rng(3).uniform(-1, 1, (2, VOCAB_SIZE, 24)).astype(np.float32)
    tensors = {"token_embd.weight": ("F32", weights[0, :rows])}
    if not tied:
        tensors["output.weight"] = ("F32", weights[1, :rows])
    return random_llama_gguf(
        path, seed=4, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        num_key_value_heads=1, head_dim=8, intermediate_size=20, vocab_size=TOKEN_COUNT,
        tied=tied, extra_tensors=tensors,
    )  # fmt: skip


@pytest.fixture(scope="module", params=["tied", "untied"])
def paths(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A padded model, and the same one without padding."""
    folder, is_tied = tmp_path_factory.mktemp("padded"), request.param == "tied"
    found = []
    for name, rows in (("padded", VOCAB_SIZE), ("plain", TOKEN_COUNT)):
        found.append(folder / f"{name}.sslm")
        convert_gguf(source_of(folder / f"{name}.gguf", rows, tied=is_tied), found[-1])
    return found


@pytest.fixture
def padded(paths: list[Path]) -> Iterator[Artifact]:
    with read_artifact(paths[0]) as opened:
        yield opened


@pytest.fixture
def plain(paths: list[Path]) -> Iterator[Artifact]:
    with read_artifact(paths[1]) as opened:
        yield opened


def runner_of(artifact: Artifact, way: str) -> Runner:
    if way not in ("reference", *available_tiers()):
        pytest.skip(f"this CPU has no {way}")
    tier = "auto" if way == "reference" else way
    backend = open_backend("reference" if way == "reference" else "native", tier=tier, threads=2)
    return Runner(artifact, backend, context_tokens=120)


def logits_of(runner: Runner, prompt: list[int]) -> np.ndarray[Any, Any]:
    """All rows of a prompt, int64 [tokens, vocab_size]."""
    rows = []
    with runner.sequence(SequenceOptions(context_tokens=120, has_all_logits=True)) as sequence:
        sequence.push(prompt)
        while sequence.has_work:
            for _, chunk in runner.advance([sequence]):
                assert chunk.span.logits is not None
                count = chunk.span.row_count * runner.program.vocab_size
                row = np.frombuffer(chunk.span.logits, np.int64, count=count)
                rows.append(row.reshape(chunk.span.row_count, -1).copy())
    return np.concatenate(rows)


def test_it_opens_as_what_it_is(padded: Artifact, plain: Artifact) -> None:
    assert (padded.config.vocab_size, padded.padding_count) == (
        VOCAB_SIZE,
        VOCAB_SIZE - TOKEN_COUNT,
    )
    assert (plain.config.vocab_size, plain.padding_count) == (TOKEN_COUNT, 0)
    assert padded.vocabulary == plain.vocabulary


@pytest.mark.parametrize("way", TIERS)
def test_ids_without_a_token_have_no_logit(padded: Artifact, plain: Artifact, way: str) -> None:
    with closing(runner_of(padded, way)) as one, closing(runner_of(plain, "reference")) as other:
        found, expected = logits_of(one, PROMPT), logits_of(other, PROMPT)
    assert found.shape == (len(PROMPT), VOCAB_SIZE)
    assert (found[:, TOKEN_COUNT:] == NOT_ALLOWED).all()
    np.testing.assert_array_equal(found[:, :TOKEN_COUNT], expected)


@pytest.mark.parametrize("way", TIERS)
def test_every_backend_gives_the_same_digests(padded: Artifact, way: str) -> None:
    found = []
    for one in (way, "reference"):
        with closing(runner_of(padded, one)) as runner:
            found.append(run_traced(runner, PROMPT, max_tokens=12))
    assert found[0] == found[1]
    assert max(found[0].token_ids) < TOKEN_COUNT


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 5.0, "seed": 7},
        {"temperature": 2.0, "seed": 8, "top_k": 4, "top_p": 0.9},
        {"logit_bias": {269: 50.0, 1: -100.0}, "repetition_penalty": 1.3},
        {"damping": 0.5},
        {"logprobs": 20, "prompt_logprobs": 5},
        {"schema": SCHEMA},
    ],
    ids=lambda options: "-".join(options) or "greedy",
)
def test_it_answers_as_the_model_without_padding(
    paths: list[Path], backend: str, options: dict[str, Any]
) -> None:
    answers = []
    for path in paths:
        with Model(path, backend=backend) as model:
            answers.append(model.generate(PROMPT, max_tokens=24, **options))
    assert answers[0].token_ids == answers[1].token_ids
    assert answers[0].logprobs == answers[1].logprobs
    assert answers[0].text == answers[1].text
    assert all(token_id < TOKEN_COUNT for token_id in answers[0].token_ids)


@pytest.mark.parametrize("token_id", [TOKEN_COUNT, VOCAB_SIZE - 1])
def test_an_id_without_a_token_is_refused_by_a_number_of_its_own(
    paths: list[Path], token_id: int
) -> None:
    with Model(paths[0], backend="native") as model:
        with pytest.raises(PaddingTokenIdError) as caught:
            model.generate([5, token_id], max_tokens=1)
        assert caught.value.status is Status.TOKEN_ID_PADDING
        assert caught.value.args == (token_id, 1, TOKEN_COUNT - 1, VOCAB_SIZE)
        assert str(caught.value).endswith("its vocabulary ends at id 269; such a row is padding")
        for decode in (model.tokenizer.decode, model.tokenizer.decode_bytes):
            with pytest.raises(PaddingTokenIdError) as caught:
                decode([5, token_id])
            assert caught.value.args == (token_id, 1, TOKEN_COUNT - 1, VOCAB_SIZE)
        with pytest.raises(PaddingTokenIdError):
            Detokenizer(model.tokenizer).push(token_id)
        with pytest.raises(PaddingTokenIdError):
            model.tokenizer.token_bytes(token_id)
        for option in ("logit_bias", "stop_token_ids"):
            value: Any = {token_id: 1.0} if option == "logit_bias" else [token_id]
            with pytest.raises(OptionRangeError):
                model.generate([5], max_tokens=1, **{option: value})


def test_an_id_beyond_all_rows_is_none(paths: list[Path]) -> None:
    with Model(paths[0], backend="native") as model:
        with pytest.raises(TokenIdRangeError) as caught:
            model.generate([VOCAB_SIZE], max_tokens=1)
        assert type(caught.value) is TokenIdRangeError
        with pytest.raises(TokenizerIdError):
            model.tokenizer.decode([VOCAB_SIZE])


def test_a_score_leaves_the_padding_out(paths: list[Path]) -> None:
    found = []
    for path in paths:
        with (
            read_artifact(path) as artifact,
            GgufModelSource.open(path.with_suffix(".gguf")) as source,
            closing(runner_of(artifact, "reference")) as runner,
        ):
            text = "some words to be scored"
            found.append(evaluate_artifact(artifact, runner, source, text, context=32, stride=32))
    padded, plain = found
    assert padded.log_likelihood_q20 == plain.log_likelihood_q20
    # The source's matrices differ in their rows, for which BLAS may sum floats in another order.
    floats = ("source_perplexity", "kl", "mean_difference", "standard_error")
    assert replace(padded, **dict.fromkeys(floats, 0)) == replace(plain, **dict.fromkeys(floats, 0))
    for name in floats:
        assert getattr(padded, name) == pytest.approx(getattr(plain, name), rel=1e-6, abs=1e-6)


def test_fewer_rows_than_tokens_are_refused(tmp_path: Path) -> None:
    path = source_of(tmp_path / "a.gguf", TOKEN_COUNT - 1)
    with pytest.raises(SourceTensorShapeError) as caught:
        GgufModelSource.open(path)
    assert caught.value.args == ("token_embd.weight", (TOKEN_COUNT - 1, 24), (TOKEN_COUNT, 24))
