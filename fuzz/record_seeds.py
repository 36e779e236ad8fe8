"""Records that the search begins with: sound ones of all kinds, and some that lie."""

from array import array
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import islice

from tests.records import PLAIN_CHOICE, RICH_CHOICE
from tests.saves import resize_save
from tests.unit.artifact.tiny_artifact import read

from fuzz.small_models import small_artifact
from sslm.artifact import Artifact
from sslm.engine.reexecution import reexecution, replay_tokens
from sslm.engine.runner import Runner, open_backend
from sslm.formats.record_blob import RecordFinish, SavedRecord, encode_record
from sslm.numerics.digests import answer_digest

_COUNT = 4


@cache
def recorded_artifact() -> Artifact:
    """Return the model of the records."""
    return read(small_artifact())


def record_seeds() -> dict[str, bytes]:
    """Records that are replayed identically, and some of what no request can have been."""
    template = SavedRecord(
        model_id=recorded_artifact().model_id,
        arithmetic_version=recorded_artifact().arithmetic_version,
        context_tokens=16,
        max_tokens=_COUNT,
        is_continuation=True,
        choice=PLAIN_CHOICE,
        stop=(),
        stop_token_ids=(),
        finish=RecordFinish.LENGTH,
        stop_index=0,
        prompt_ids=array("i", [1, 2, 3]),
        token_ids=array("i", [0] * _COUNT),
        digest=bytes(32),
        links=bytes(32 * _COUNT),
    )
    segments = recorded_artifact().config.num_hidden_layers + 2
    traced = replace(template, segment_count=segments, segments=bytes(4 * segments * _COUNT))
    sampled = replace(RICH_CHOICE, bias=((3, -5_000_000), (4, 250_000)), top_k=5)
    kinds = {
        "greedy": template,
        "segments": traced,
        "sampled": replace(template, choice=sampled, stop=("\x00zz", "né"), stop_token_ids=(0,)),
        "damped": replace(template, choice=replace(sampled, decoder=2), is_continuation=False),
    }
    found = {name: encode_record(_computed(record)) for name, record in kinds.items()}
    sound = found["greedy"]
    return found | {
        "another_model": _with(sound, 64, bytes(32)),
        "newer": _with(sound, 12, b"\x03"),
        "most_tokens": _with(sound, 128, b"\0\0\x10\0"),
        "another_token": _with(sound, 224 + 4 * 3 + 4, b"\x07"),
        "another_link": _with(sound, 224 + 4 * (3 + _COUNT) + 32, b"\x05"),
    }


def _computed(record: SavedRecord) -> SavedRecord:
    """Return a record with what a request comes to, that ends nowhere before its length."""
    backend = open_backend("reference", tier="auto", threads=1)
    runner = Runner(recorded_artifact(), backend, context_tokens=replay_tokens(record))

    def advance(sequence: object) -> None:
        runner.advance([sequence])  # type: ignore[list-item]

    with closing(runner), reexecution(runner, record, advance) as execution:
        steps = list(islice(execution.steps(), len(record.token_ids)))
    ids = array("i", [step.token_id for step in steps])
    return replace(
        record,
        token_ids=ids,
        links=b"".join(step.link for step in steps),
        segments=b"".join(digest for step in steps for digest in step.segments),
        digest=answer_digest(steps[-1].link, ids),
    )


def _with(blob: bytes, offset: int, patch: bytes) -> bytes:
    return resize_save(blob[:offset] + patch + blob[offset + len(patch) :])
