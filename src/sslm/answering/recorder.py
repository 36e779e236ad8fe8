"""Writing down a request while it is computed."""

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sslm import limits
from sslm.answering.answer import Answer
from sslm.answering.request import RecordTarget, Request
from sslm.artifact.saved_files import require_record_place, write_saved_file
from sslm.errors.runtime import OptionRangeError
from sslm.formats.records.writer import (
    RecordedSchema,
    RecordFinish,
    SavedRecord,
    encode_record,
    record_size_bytes,
)
from sslm.opening.tracing import short_digests
from sslm.program.program import Program
from sslm.runtime.saves.snapshot_records import saved_choice
from sslm.runtime.sequences.state import Chunk

if TYPE_CHECKING:
    from sslm.answer_schemas.binder import AnswerSchema


class Computed(Protocol):
    """What there is to see of a request when a token was chosen."""

    def last_chunk(self) -> Chunk:
        """Return the rows that were computed last."""


class Recorder:
    """Takes note of an answer token by token, and writes it down at its end.

    Nothing is written before, so that a request that fails or is cancelled leaves no record.

    Args:
        target: Where it goes.
        program: What computes it.
        model_id: 32 bytes.
        request: What is answered.
        context_tokens: Most tokens of prompt and answer.
        max_tokens: Most tokens of the answer, those that have room.

    Raises:
        OptionRangeError: If the record could become larger than records may be.
        ArgumentError, UnwritableFileError, DiskFullError: If no file can be made there.
    """

    def __init__(
        self,
        target: RecordTarget,
        program: Program,
        model_id: bytes,
        *,
        request: Request,
        context_tokens: int,
        max_tokens: int,
    ) -> None:
        self._target = target
        self._program = program
        self._model_id = model_id
        self._request = request
        self._context_tokens = context_tokens
        self._segment_count = program.first_head_index + 1 if target.has_segments else 0
        self._schema = None if request.schema is None else schema_to_record(request.schema)
        self._segments: list[bytes] = []
        texts = sum(8 + len(text.encode("utf-8")) for text in request.stop)
        options = 8 * len(request.choosing.choice.bias) + 4 * len(request.stop_token_ids) + texts
        options += self._schema.size_bytes if self._schema else 0
        size = record_size_bytes(len(request.prompt_ids), max_tokens, self._segment_count, options)
        if size > limits.RECORD_SIZE_BYTES_MAX:
            expected = f"a request whose record has at most {limits.RECORD_SIZE_BYTES_MAX}"
            raise OptionRangeError("record", f"of up to {size} bytes", expected)
        require_record_place(target.path)

    def take(self, computed: Computed) -> None:
        """Note what a token was chosen from."""
        if self._segment_count:
            self._segments.extend(short_digests(self._program, computed.last_chunk()))

    def write(self, answer: Answer, digest: bytes, links: Sequence[bytes]) -> None:
        """Write the record of a complete answer.

        Args:
            answer: The answer.
            digest: Its digest, 32 bytes.
            links: 32 bytes for each token: the chain of digests over all positions before it. Also
                of what is behind the answer, where a conversation has gone on.

        Raises:
            DiskFullError, UnwritableFileError: If it cannot be written; no part of it is left.
        """
        request, stop_reason = self._request, answer.stop_reason
        finish, stop_index = RecordFinish.LENGTH, 0
        if answer.ending is not None:
            is_dead = answer.ending == "dead_end"
            finish = RecordFinish.DEAD_END if is_dead else RecordFinish.SCHEMA
        elif isinstance(stop_reason, str):
            finish, stop_index = RecordFinish.STOP_STRING, request.stop.index(stop_reason)
        elif stop_reason is not None:
            finish = RecordFinish.STOP_TOKEN
        saved = SavedRecord(
            model_id=self._model_id,
            arithmetic_version=self._program.arithmetic_version,
            context_tokens=self._context_tokens,
            max_tokens=request.max_tokens,
            is_continuation=request.is_continuation,
            choice=saved_choice(request.choosing.choice),
            stop=request.stop,
            stop_token_ids=tuple(sorted(request.stop_token_ids)),
            finish=finish,
            stop_index=stop_index,
            prompt_ids=array("i", request.prompt_ids),
            token_ids=array("i", answer.token_ids),
            digest=digest,
            links=b"".join(links[: len(answer.token_ids)]),
            segments=b"".join(self._segments),
            segment_count=self._segment_count,
            schema=self._schema,
        )
        write_saved_file(self._target.path, encode_record(saved))


def schema_to_record(schema: "AnswerSchema") -> RecordedSchema:
    """Return what a record says of a schema."""
    return RecordedSchema(
        digest=schema.bound.schema_digest,
        name=schema.name,
        is_fitted=schema.is_fitted,
        allows_ends=schema.allows_ends,
    )
