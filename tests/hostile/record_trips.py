"""What becomes of spoiled records: read, written again, and replayed."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sslm.answer_schemas.schema import Schema
from sslm.engine.model import Model
from sslm.evidence.replay import replay_record
from sslm.formats.records.reader import read_record
from sslm.formats.records.writer import encode_record
from sslm.opening.runner import open_backend
from tests.converted import stories_artifact
from tests.hostile.byte_sweep import Trip

_PROMPT = [1, 20, 3]
_COMPUTED = ("prompt_ids", "token_ids", "links", "segments", "digest", "finish", "stop_index")
"""What follows from prompt and options."""


@dataclass(frozen=True)
class RecordSubject:
    """A record, with the model that it was made with."""

    name: str
    model: Model
    sound: bytes
    schema: Schema | None = None


def record_subjects() -> Iterator[RecordSubject]:
    """Records of stories260K: of links alone, of segments too, and with all kinds of options."""
    model = Model(stories_artifact(), mmap=False, context_tokens=64)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        model.generate(_PROMPT, max_tokens=4, record=path)
        yield RecordSubject("record, links", model, path.read_bytes())
        model.generate(_PROMPT, max_tokens=2, record=path, record_segments=True)
        yield RecordSubject("record, segments", model, path.read_bytes())
        model.generate(_PROMPT, max_tokens=9, record=path, stop=["zzz", " w"], stop_token_ids=[7])
        yield RecordSubject("record, stops", model, path.read_bytes())
        biases: dict[int, Any] = {5: "-2.5", 60: 3}
        drawn: dict[str, Any] = {
            "temperature": 2,
            "top_p": "0.9",
            "seed": 7,
            "frequency_penalty": 1,
        }
        model.generate(_PROMPT, max_tokens=4, record=path, logit_bias=biases, **drawn)
        yield RecordSubject("record, sampled", model, path.read_bytes())
        model.generate(_PROMPT, max_tokens=4, record=path, damping="0.9", repetition_penalty=2)
        yield RecordSubject("record, damped", model, path.read_bytes())
        schema = Schema.compile({"enum": ["left", "right", 1, 123456]}, tokenizer=model.tokenizer)
        model.generate(_PROMPT, max_tokens=8, record=path, schema=schema, end_of_text="never")
        yield RecordSubject("record, schema", model, path.read_bytes(), schema)


def record_trip(subject: RecordSubject) -> Trip:
    """Read a spoiled record and replay what it says.

    What is read must be written as the same bytes, so that none goes unseen. A replay must come to
    a verdict, and none that says identical of other tokens, states or digests than the sound ones.
    """
    sound = read_record(subject.sound)

    def trip(content: bytes, offset: int) -> str | None:
        del offset
        record = read_record(content)
        if encode_record(record) != content:
            return "what was read is not what the record says"
        report = replay_record(
            record,
            subject.model.artifact,
            subject.model.tokenizer,
            open_backend=lambda: open_backend("native", tier="auto", threads=1),
            threads=1,
            schema=subject.schema if record.schema else None,
        )
        found = {name: getattr(record, name) for name in _COMPUTED}
        if report.identical and found != {name: getattr(sound, name) for name in _COMPUTED}:
            return "what was not computed is called identical"
        return None

    return trip
