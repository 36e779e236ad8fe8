"""Bytes as a file of requests, up to the file of their answers."""

import json
import struct
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final

from fuzz.choices import Choices
from fuzz.sections import edited_json
from fuzz.small_models import small_artifact
from fuzz.target import ByteMutator, Outcomes, Target, require
from sslm.engine.model import Model
from sslm.errors.base import ArtifactError
from sslm.serving.batch_input import BatchInput, InputRow
from sslm.serving.batch_job import BatchJob
from sslm.serving.batch_lines import JobOptions

_CONTEXT_TOKENS: Final = 16
_MAX_TOKENS: Final = 2
_BATCH_SIZES: Final = (1, 3)
_ANSWERED: Final = 200
_SIZE_BYTES_MAX: Final = 1024


def run(data: bytes, outcomes: Outcomes) -> None:
    """Read the file; answer its rows one at a time and side by side."""
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        path = Path(folder) / "in.jsonl"
        path.write_bytes(data)
        with outcomes.refusals(ArtifactError):
            source = BatchInput(path)
            rows = list(source.rows())
            _check_rows(data, rows)
            outcomes.reached("rows read" if rows else "empty file read")
            found = [_answered(source, path.with_name(f"{size}"), size) for size in _BATCH_SIZES]
            require(found[0] == found[1], "answers do not depend on what is computed beside them")
            _check_answers(rows, found[0], outcomes)


def _check_rows(data: bytes, rows: Sequence[InputRow]) -> None:
    lines = [line.rstrip(b"\r\n") for line in data.split(b"\n")]
    expected = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    require([(row.line, row.data) for row in rows] == expected, "every line is a row, in order")
    for row in rows:
        elsewhere = json.loads(row.data, parse_float=Decimal)
        require(row.fields() == elsewhere, "another reader reads the same")
        require(row.row_id == elsewhere["custom_id"], "a row has the id that it states")
    require(len({row.row_id for row in rows}) == len(rows), "no id stands twice")


def _answered(source: BatchInput, out: Path, batch_size: int) -> bytes:
    options = JobOptions(
        seed=7,
        max_tokens=_MAX_TOKENS,
        context_tokens=_CONTEXT_TOKENS,
        date=None,
        model="small",
        is_any_model=False,
    )
    job = BatchJob(_model(), source, options, batch_size=batch_size)
    summary = job.run(out)
    require(summary.answered + summary.refused == source.row_count, "each row is counted")
    return out.read_bytes()


def _check_answers(rows: Sequence[InputRow], answers: bytes, outcomes: Outcomes) -> None:
    lines = answers.splitlines()
    require(len(lines) == len(rows), "each row has one line")
    for row, line in zip(rows, lines, strict=True):
        fields: dict[str, Any] = json.loads(line)
        require(fields["custom_id"] == row.row_id, "answers stand in the order of their rows")
        response = fields["response"]
        if response["status_code"] == _ANSWERED:
            outcomes.reached(f"{response['body']['object']} answered")
        else:
            error = response["body"]["error"]
            require(bool(error["message"]), "a refusal has a message")
            outcomes.reached(error["code"])


@cache
def _home() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that lasts as long as the process, where there is one in memory."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="sslm-fuzz-", dir=memory if memory.is_dir() else None)


def _folder() -> Path:
    return Path(_home().name)


@cache
def _model() -> Model:
    path = _folder() / "small.sslm"
    path.write_bytes(small_artifact())
    return Model(path, threads=1, context_tokens=_CONTEXT_TOKENS)


def mutate(data: bytes, size_bytes_max: int, seed: int, mutated: ByteMutator) -> bytes:
    """Change values of a line, say a line twice, or change bytes in any way."""
    choices = Choices(struct.pack("<I", seed) * 16)
    how, lines = choices.below(4), data.splitlines() or [b""]
    if how == 0:
        return mutated(data, size_bytes_max)
    place = choices.below(len(lines))
    if how == 1:
        lines.insert(choices.below(len(lines) + 1), choices.pick(_sound_lines()))
    else:
        lines[place] = edited_json(lines[place], choices)
    changed = b"\n".join(lines)
    return changed if len(changed) <= size_bytes_max else data


@cache
def _sound_lines() -> list[bytes]:
    return sorted({line for seed in TARGET.seeds() for line in seed.splitlines()})


TARGET: Final = Target(
    name="batch",
    subject="files of requests to their reader, and what they ask for to a small model",
    run=run,
    modules=(
        "sslm.serving.batch_input",
        "sslm.serving.batch_job",
        "sslm.serving.batch_lines",
        "sslm.serving.json_text",
        "sslm.serving.openai_logprobs",
        "sslm.serving.openai_request",
    ),
    size_bytes_max=_SIZE_BYTES_MAX,
    reaches=("chat.completion answered", "text_completion answered"),
    mutate=mutate,
    dictionary=tuple(
        word.encode()
        for word in (
            *('"custom_id":', '"method":"POST"', '"url":', '"body":', '"model":"small"', "null"),
            *('"/v1/chat/completions"', '"/v1/completions"', '"prompt":', '"messages":', "1e99"),
            *('"max_tokens":', '"max_completion_tokens":', '"n":', '"stream":false', "-0.0"),
            *('"logit_bias":{"2":-100}', '"logprobs":true', '"logprobs":2', '"top_logprobs":3'),
            *('"temperature":', '"top_p":', '"top_k":', '"min_p":', '"seed":', '"stop":["a"]'),
            *('"stop_token_ids":[2]', '"presence_penalty":', '"frequency_penalty":', "[2,3,0]"),
            *('"repetition_penalty":', '"damping":', '"damping_order":', '"damping_top_k":'),
            *(
                '{"role":"user","content":"aa"}',
                '"\\ud800"',
                '"\\u0000"',
                "true",
                "18446744073709551615",
            ),
        )
    ),
)
