"""What the README shows works as it is printed."""

import re
import signal
import tomllib
from pathlib import Path

import pytest

from sslm import limits
from sslm.catalog.known_models import DEFAULT_NAME, KNOWN_MODELS
from sslm.cli import exit_codes
from sslm.convert.conversion import convert_gguf
from tests.gguf_files import random_llama_gguf

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
VERIFICATION = ROOT / "docs" / "verification.md"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message.role + ': ' + message.content }}\n{% endfor %}"
)


@pytest.fixture
def model_path(tmp_path: Path) -> Path:
    source = tmp_path / "m.gguf"
    random_llama_gguf(
        source,
        seed=1,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        intermediate_size=48,
        vocab_size=300,
        tied=True,
        biases=False,
        extra_metadata={"tokenizer.chat_template": CHAT_TEMPLATE},
    )
    convert_gguf(source, tmp_path / "m.sslm")
    return tmp_path / "m.sslm"


def test_the_python_example_runs(
    model_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model of a few thousand random weights stands in for the default one."""
    monkeypatch.chdir(model_path.parent)
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert example.count('"smollm2-135m"') == 1
    exec(compile(example.replace('"smollm2-135m"', repr(str(model_path))), "README", "exec"), {})
    assert capsys.readouterr().out.rstrip().endswith("True")


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", README.read_text())
    assert len(links) > 3
    for link in links:
        assert (README.parent / link).exists(), link


def test_every_command_is_named() -> None:
    from sslm.cli.app import app

    text = README.read_text()
    for command in app.registered_commands:
        assert command.name is not None
        assert re.search(rf"\b{command.name}\b", text), command.name


def _prose() -> str:
    """Return the README without its blocks of code, on one line."""
    return " ".join(re.sub(r"```.*?```", "", README.read_text(), flags=re.DOTALL).split())


def _claims() -> dict[str, str]:
    section = VERIFICATION.read_text().partition("## What the README says")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", section, re.MULTILINE)
    return {words: check for words, check in rows if not words.startswith("words of")}


def test_every_claim_has_a_check_or_a_date() -> None:
    text = " ".join(README.read_text().split())
    claims = _claims()
    assert [words for words in claims if words not in text] == []
    assert len(claims) > 30
    for words, check in claims.items():
        tests = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", check)
        dated = re.search(r"\b20\d\d-\d\d-\d\d, commit [0-9a-f]{7}\b", check)
        assert tests or dated or ".ci/run" in check or check.endswith("no claim"), words
        for path, name in tests:
            assert f"def {name or 'test_'}" in (ROOT / path).read_text(encoding="utf-8"), check


def test_every_number_is_among_the_claims() -> None:
    prose = re.sub(r"\[[^]]*\]\([^)]*\)|\(docs/[^)]*\)", "", _prose())
    for words in sorted(_claims(), key=len, reverse=True):
        prose = prose.replace(re.sub(r"\[[^]]*\]\([^)]*\)", "", words), "")
    prose = re.sub(r"`[^`]*`", "", prose)
    assert re.findall(r"(?<![\w./-])\d[\d,.^]*", prose) == []


def test_numbers_are_those_of_the_sources() -> None:
    prose = _prose()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"
    assert "Needs Python 3.11 or newer" in prose
    wheel = KNOWN_MODELS[DEFAULT_NAME].wheel.size_bytes
    assert f"({round(wheel / 1e6)} MB, Apache-2.0)" in prose
    assert (limits.CONTEXT_TOKENS_MAX, limits.VOCAB_SIZE_MAX) == (2**20, 2**20)
    widest = (limits.LAYER_COUNT_MAX, limits.HIDDEN_SIZE_MAX, limits.HEAD_DIM_MAX)
    assert "{} layers, rows of {:,}, heads of {}:".format(*widest) in prose
    ways = {
        exit_codes.DIFFERENT: "verified and different",
        exit_codes.USAGE: "usage",
        exit_codes.BAD_INPUT_FILE: "bad file",
        exit_codes.REQUEST_REFUSED: "request refused",
        exit_codes.OUT_OF_BUDGET: "out of disk, memory or time",
        exit_codes.NETWORK: "network or offline",
        exit_codes.INTERNAL: "a defect of ours",
    }
    assert " · ".join(f"{code} {words}" for code, words in ways.items()) in prose
    ended = [exit_codes.SIGNALLED + number for number in (signal.SIGINT, signal.SIGTERM, 1)]
    assert "{}, {} and {} ended by Ctrl-C, SIGTERM and SIGHUP".format(*ended) in prose
