"""One corpus through every face: the calls, their twins for coroutines, and the commands."""

import pytest
from benchmarks import faces
from benchmarks.faces import FACES, Answer, compare
from benchmarks.faces_corpus import CONTEXT_TOKENS, REQUEST_COUNT, Asked, corpus

from sslm.engine.model import Model
from tests.converted import talking_artifact


def test_every_face_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faces, "PROCESSES", 2)
    rows = {row.face: row for row in compare(talking_artifact(ends_with_a_line=True))}
    assert list(rows) == list(FACES)
    assert {face: row.differing for face, row in rows.items() if row.differing} == {}
    counts = [row.count for row in rows.values()]
    # Commands take no ids; generate_many no chats, and draws by seeds of its own; few requests get
    # a process of their own.
    assert counts[:4] == [REQUEST_COUNT] * 4
    assert counts[4:7] == [REQUEST_COUNT - 10, REQUEST_COUNT - 6, REQUEST_COUNT - 12]
    assert counts[7] >= faces.PROCESSES
    assert counts[8:] == [REQUEST_COUNT, 6, REQUEST_COUNT - 6, REQUEST_COUNT - 6]


def test_the_corpus_has_every_kind_of_ending() -> None:
    with Model(talking_artifact(ends_with_a_line=True), context_tokens=CONTEXT_TOKENS) as model:
        requests = corpus(model)
        answers = faces.by_call(model, requests)
        assert answers == faces.by_call(model, requests)
        ends = set(model.artifact.vocabulary.end_token_ids)
    endings = [answer.ending for answer in answers if answer and answer.ending]
    assert sum(reason == "stop" and stop in ends for reason, stop in endings) >= 1
    assert sum(reason == "stop" and isinstance(stop, str) for reason, stop in endings) >= 5
    assert sum(reason == "length" for reason, _ in endings) >= 30
    assert len({one.name for one in requests}) == REQUEST_COUNT


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(model: Model, requests: list[Asked]) -> list[Answer | None]:
        answers = faces.by_call(model, requests)
        first = answers[3]
        assert first is not None
        return [*answers[:3], Answer(first.text + "\n", first.digest), *answers[4:]]

    monkeypatch.setattr(faces, "FACES", {"right": faces.by_call, "wrong": wrong})
    right, other = compare(talking_artifact(ends_with_a_line=True))
    assert (right.differing, len(other.differing)) == ([], 1)
