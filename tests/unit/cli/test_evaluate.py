"""``sslm eval``: its report and what it refuses."""

import math
from decimal import Decimal
from pathlib import Path

import pytest

from sslm.engine.model import Model
from tests.converted import STORIES_SOURCE
from tests.data import shared_data
from tests.unit.cli.commands import Commands
from tests.unit.cli.test_convert import tiny_source

TEXT = shared_data("text/alice29.txt")


def test_the_report_has_its_keys(sslm_command: Commands, stories: Path) -> None:
    facts = sslm_command.json(
        "eval", stories, "--source", STORIES_SOURCE, "--text", TEXT,
        "--limit-tokens", "300", "--context", "128", "--stride", "64",
    )  # fmt: skip
    assert facts["tokens"] == 300
    assert facts["perplexity"] == pytest.approx(facts["source_perplexity"], rel=0.1)
    assert 0 < facts["kl"] < 0.03
    assert facts["top1_agreement"] > 0.9
    assert facts["windows"] > 3
    assert facts["standard_error"] > 0
    assert facts["clustered_standard_error"] > 0


def test_backends_agree_to_the_last_bit(sslm_command: Commands, stories: Path) -> None:
    """The floats are computed from logits that are the same integers everywhere."""
    arguments = (
        "eval",
        stories,
        "--source",
        STORIES_SOURCE,
        "--text",
        TEXT,
        "--limit-tokens",
        "90",
    )
    reference = sslm_command.json(*arguments, "--backend", "reference")
    assert sslm_command.json(*arguments, "--tier", "scalar", "--threads", "1") == reference
    text = sslm_command.text(*arguments, "--no-progress")
    assert f"perplexity         {reference['perplexity']:.4f}\n" in text


def test_another_source_is_refused_unless_allowed(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.gguf"
    content = bytearray(STORIES_SOURCE.read_bytes())
    # The lowest bit of the last weight.
    content[-4] ^= 1
    other.write_bytes(content)
    arguments = ("eval", stories, "--source", other, "--text", TEXT, "--limit-tokens", "20")
    assert sslm_command.error(*arguments, code=4) == "SourceFileMismatchError"
    assert sslm_command.json(*arguments, "--any-source")["tokens"] == 20
    other = tiny_source(tmp_path)
    arguments = ("eval", stories, "--source", other, "--text", TEXT, "--limit-tokens", "20")
    error = sslm_command.error(*arguments, "--any-source", code=4)
    assert error == "SourceMismatchError"


def test_the_default_window_adapts_to_a_short_context(
    sslm_command: Commands, tmp_path: Path
) -> None:
    source, out = tiny_source(tmp_path, max_position_embeddings=64), tmp_path / "out.sslm"
    sslm_command.json("convert", source, "-o", out)
    arguments = ("eval", out, "--source", source, "--text", TEXT, "--limit-tokens", "150")
    adapted = sslm_command.json(*arguments)
    assert adapted["windows"] == 3
    assert adapted == sslm_command.json(*arguments, "--context", "64")
    error = sslm_command.json(*arguments, "--context", "65", code=2)["error"]
    assert error["message"] == "--context is 65, expected an integer from 1 to 64"
    error = sslm_command.json(*arguments, "--limit-tokens", "1", code=2)["error"]
    assert error["message"].endswith("it is '1', expected an integer, at least 2")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--context", "100000"), "OptionRangeError"),
        (("--context", "64", "--stride", "65"), "EvaluationWindowError"),
        (("--stride", "0"), "EvaluationWindowError"),
    ],
)
def test_windows_are_checked(
    sslm_command: Commands, stories: Path, options: tuple[str, ...], error: str
) -> None:
    arguments = ("eval", stories, "--source", STORIES_SOURCE, "--text", TEXT, *options)
    failed = sslm_command.json(*arguments, code=2)["error"]
    assert failed["type"] == error
    assert "context_tokens" not in failed["message"]


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (None, (3, "UnreadableFileError")),
        (b"\xff", (3, "BadUtf8Error")),
        (b"", (4, "TextTooShortError")),
        (b"a" * (16 << 20) + b"a", (4, "TextTooLongError")),
    ],
    ids=["missing", "latin-1", "empty", "too long"],
)
def test_the_text_is_checked(
    sslm_command: Commands,
    stories: Path,
    tmp_path: Path,
    content: bytes | None,
    refusal: tuple[int, str],
) -> None:
    text = tmp_path / "text.txt"
    if content is not None:
        text.write_bytes(content)
    arguments = ("eval", stories, "--source", STORIES_SOURCE, "--text", text)
    code, error = refusal
    assert sslm_command.error(*arguments, code=code) == error


def test_source_and_text_must_be_given(sslm_command: Commands, stories: Path) -> None:
    sslm_command.text("eval", stories, code=2)


def test_the_exact_perplexity_is_that_of_the_log_probabilities(
    sslm_command: Commands, stories: Path
) -> None:
    """Windows overlap, so that some tokens of each are only read."""
    arguments = (
        *("eval", stories, "--source", STORIES_SOURCE, "--text", TEXT, "--limit-tokens", "90"),
        *("--context", "40", "--stride", "25"),
    )
    facts = sslm_command.json(*arguments)
    with Model(stories) as model:
        vocabulary = model.artifact.vocabulary
        bos = vocabulary.bos_token_id
        first = [bos] if vocabulary.add_bos and bos is not None else []
        ids = model.tokenizer.encode(TEXT.read_bytes().decode("utf-8"), add_bos=False)[:90]
        total, scored_end = 0, 0
        for start in range(0, 90, 25 - len(first)):
            end = min(start + 40 - len(first), 90)
            window = [*first, *ids[start:end]]
            told = model.generate(window, max_tokens=1, prompt_logprobs=0).prompt_logprobs or []
            scored = told[max(1, len(first) + scored_end - start) :]
            total += sum(one.q20 for one in scored if one is not None)
            scored_end = end
            if end == 90:
                break
    assert facts["log_likelihood_q20"] == total
    exact = Decimal(facts["exact_perplexity"])
    assert float(exact) == pytest.approx(math.exp(-total / 2**20 / facts["tokens"]), abs=6e-7)
    assert float(exact) == pytest.approx(facts["perplexity"], rel=1e-5)
    assert f"exact perplexity   {exact} (log-likelihood {total} / 2^20)\n" in sslm_command.text(
        *arguments
    )
