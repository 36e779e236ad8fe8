"""What docs/choosing.md shows works as it is printed."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sslm.answering.request import AnswerOptions
from sslm.engine.model import Model
from sslm.sampling.options import ChoosingOptions
from tests.converted import talking_artifact

DOCUMENT = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"(?:^    .*\n)+", DOCUMENT, re.MULTILINE)


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(), context_tokens=64) as opened:
        yield opened


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split("(")[0].strip())
def test_an_example_runs(model: Model, example: str) -> None:
    names: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    source = "".join(line.removeprefix("    ") for line in example.splitlines(keepends=True))
    exec(compile(source, "docs/choosing.md", "exec"), names)
    if "token" in names:
        assert len(names["token"].top) == 3


def test_every_option_has_its_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", DOCUMENT, re.MULTILINE)
    assert rows == list(ChoosingOptions.__annotations__)
    assert set(rows) < set(AnswerOptions.__annotations__)
