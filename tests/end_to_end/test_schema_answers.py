"""Answers of a trained model that follow schemas, in every way to choose tokens.

``python -m benchmarks.schema_answers`` asks a larger model, and more.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from benchmarks.schema_answers import (
    WAYS,
    defects,
    generated,
    measured_answers,
    measured_cost,
    measured_malformed,
    measured_reference,
)
from benchmarks.schema_model import Answer, Asked, SchemaModel
from benchmarks.schema_questions import Question, questions

from sslm.schema.regular.spacing import Spacing
from tests.converted import talking_artifact

NAMES = ("verdict", "pydantic_score")


def silent(text: str) -> None:
    """Take what is said of the progress."""


def asked_here() -> list[Question]:
    return [question for question in questions() if question.name in NAMES]


@pytest.fixture(scope="module")
def model() -> Iterator[SchemaModel]:
    with SchemaModel(talking_artifact(), backend="native") as opened:
        yield opened


@pytest.mark.parametrize("spacing", ["compact", "spaced", "flexible"])
def test_answers_are_valid_and_the_same_in_spans_and_token_by_token(spacing: Spacing) -> None:
    count, path = len(NAMES) * len(WAYS), talking_artifact(ends_with_a_line=True)
    found = measured_answers(path, asked_here(), count, silent, spacing=spacing)
    assert found["wrong"] == []
    assert found["answers"] == count
    assert [row["answers"] for row in found["rows"]] == [len(WAYS)] * len(NAMES)
    assert 0 < found["jumped"] <= found["forced"] < found["tokens"]


def test_both_backends_answer_alike() -> None:
    found = measured_reference(talking_artifact(), asked_here()[:1], silent)
    assert found == {"answers": 4, "wrong": []}


def test_malformed_schemas_leave_good_requests_alone() -> None:
    good = [question for question in questions() if question.name == "verdict"]
    found = measured_malformed(talking_artifact(), good, 40, silent)
    assert found["wrong"] == []
    assert found["compared"] == 1
    assert found["refused"] >= 20
    assert found["refused"] + found["answered"] == 40


def test_steps_with_and_without_a_schema_are_timed_in_pairs() -> None:
    found = measured_cost(
        talking_artifact(), [one for one in questions() if one.name == "zod_record"], 4, silent
    )
    for row in found["rows"]:
        assert row["steps"] >= 4
        assert row["with_us"] > 0 < row["without_us"]


def test_defects_are_seen(model: SchemaModel) -> None:
    (question,) = (one for one in asked_here() if one.name == "verdict")
    form, prompt = model.form(question.schema), model.prompt_ids(question.text)
    asked = Asked(options={}, max_tokens=form.bound.shortest + 4)
    (expected,) = model.token_by_token(prompt, form, [asked])
    found = generated(model, prompt, form, asked)
    assert list(defects(question, asked, found, expected)) == []
    other = Answer(ids=expected.ids, digest="00" * 32)
    for strange, than, what in (
        (replace(found, text=found.text.replace("answer", "reply")), expected, "valid"),
        (replace(found, text=found.text[:-1]), expected, "valid"),
        (replace(found, parser=lambda text: {}), expected, "says"),
        (replace(found, finish_reason="length"), expected, "length"),
        (replace(found, token_ids=[*found.token_ids, *[0] * 99]), expected, "tokens of"),
        (found, other, "token by token"),
    ):
        assert what in " ".join(defects(question, asked, strange, than))
