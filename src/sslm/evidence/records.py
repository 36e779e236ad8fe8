"""Records of requests, as callers see them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sslm.answering.results import SCHEMA_STOP, FinishReason
from sslm.arguments import checked_int, checked_path
from sslm.artifact.saved_files import read_record_file
from sslm.formats.records.reader import read_record as read_record_bytes
from sslm.formats.records.writer import RecordFinish, SavedRecord
from sslm.runtime.saves.snapshot_records import choice_of
from sslm.sampling.options import ChoosingOptions, options_of

_OF_DECODERS: Final = {
    "temperature": ("temperature", "top_k", "top_p", "min_p", "seed"),
    "damping": ("damping", "damping_order", "damping_top_k"),
}
"""Options that choose a decoder, with those that only that one looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A request and what it came to, as somebody wrote it down.

    Args:
        model_id: Hex name of the model.
        arithmetic_version: Version of the arithmetic.
        prompt_token_ids: The prompt.
        token_ids: The answer, the id that ended it included.
        digest: Hex digest of the answer.
        finish_reason: Why the answer ended; ``dead_end`` as for ``Completion``.
        stop_reason: The id or string that ended it, or None.
        max_tokens: Most ids of the answer that were asked for.
        context_tokens: Most ids of prompt and answer that there was room for.
        stop: Strings that end the answer.
        stop_token_ids: Ids that end the answer.
        seed: Of the draws; 0 where nothing was drawn.
        has_segments: Whether there are digests of every segment at every token.
        schema_name: Of the schema that the answer follows, or None.
        schema_digest: Hex digest of that schema, as ``Schema.digest`` tells it, or None.
        saved: All of it, as it is written.
    """

    model_id: str
    arithmetic_version: int
    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    digest: str
    finish_reason: FinishReason
    stop_reason: int | str | None
    max_tokens: int
    context_tokens: int
    stop: tuple[str, ...]
    stop_token_ids: tuple[int, ...]
    seed: int
    has_segments: bool
    schema_name: str | None = None
    schema_digest: str | None = None
    saved: SavedRecord = field(repr=False)

    @property
    def choosing(self) -> ChoosingOptions:
        """The options of choosing tokens that are not the default, as they were rounded."""
        return options_of(choice_of(self.saved.choice))


def read_record(path: str | os.PathLike[str]) -> Record:
    """Read a record, which nobody has to be trusted with.

    Args:
        path: The file's name.

    Raises:
        OptionRangeError: If *path* is none.
        NotARecordError: If the file is no record.
        ArtifactError: If it is damaged, or holds what no request can be; one class per defect.
        UnreadableFileError: If the system refuses, or it is no regular file.
    """
    saved = read_record_bytes(read_record_file(checked_path("path", path)))
    return Record(
        model_id=saved.model_id.hex(),
        arithmetic_version=saved.arithmetic_version,
        prompt_token_ids=tuple(saved.prompt_ids),
        token_ids=tuple(saved.token_ids),
        digest=saved.digest.hex(),
        finish_reason=finish_of(saved),
        stop_reason=stop_reason_of(saved),
        max_tokens=saved.max_tokens,
        context_tokens=saved.context_tokens,
        stop=saved.stop,
        stop_token_ids=saved.stop_token_ids,
        seed=saved.choice.seed,
        has_segments=bool(saved.segment_count),
        schema_name=saved.schema.name if saved.schema else None,
        schema_digest=saved.schema.digest.hex() if saved.schema else None,
        saved=saved,
    )


def as_record(record: Record | str | os.PathLike[str]) -> Record:
    """Return a record, or the one in the file that is named.

    Raises:
        SslmError: As :func:`read_record`.
    """
    return record if isinstance(record, Record) else read_record(record)


def kept_ids(record: Record, token_count: object) -> tuple[int, ...]:
    """Return the first ids of a recorded answer.

    Raises:
        OptionRangeError: If *token_count* is no number of ids that it has.
    """
    most = len(record.token_ids)
    return record.token_ids[: checked_int("token_count", token_count, lowest=0, highest=most)]


def options_left(
    record: Record,
    kept_count: int,
    *,
    end_token_ids: frozenset[int],
    others: Mapping[str, object],
) -> dict[str, object]:
    """Return the options with which a recorded answer goes on.

    Args:
        record: Read.
        kept_count: How many of its tokens are kept.
        end_token_ids: Ids with which the model itself ends an answer.
        others: What takes their place. Another decoder takes that of all that is only of the
            recorded one.
    """
    own: dict[str, object] = {
        **record.choosing,
        "max_tokens": max(1, record.max_tokens - kept_count),
        "stop": record.stop,
        "stop_token_ids": sorted({*record.stop_token_ids} - end_token_ids),
    }
    followed = record.saved.schema
    if followed is not None and others.get("schema", followed) is not None:
        own["finish"] = "fit" if followed.is_fitted else "cut"
        own["end_of_text"] = "allowed" if followed.allows_ends else "never"
    for decoder, names in _OF_DECODERS.items():
        if any(others.get(other) is not None for other in _OF_DECODERS if other != decoder):
            own = {name: value for name, value in own.items() if name not in names}
    return {**own, **others}


def finish_of(saved: SavedRecord) -> FinishReason:
    """Return why a recorded answer ended."""
    reasons: dict[RecordFinish, FinishReason]
    reasons = {RecordFinish.LENGTH: "length", RecordFinish.DEAD_END: "dead_end"}
    return reasons.get(saved.finish, "stop")


def stop_reason_of(saved: SavedRecord) -> int | str | None:
    """Return the id or string that ended a recorded answer, or None."""
    if saved.finish is RecordFinish.STOP_TOKEN:
        return saved.token_ids[-1]
    if saved.finish is RecordFinish.SCHEMA:
        return SCHEMA_STOP
    return saved.stop[saved.stop_index] if saved.finish is RecordFinish.STOP_STRING else None
