"""A recorded request computed again, token by token."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sslm.errors.records import (
    RecordArithmeticError,
    RecordModelError,
    RecordSegmentsError,
    RecordTokenError,
    RecordValueError,
)
from sslm.evidence.recorded_schema import answer_tokens
from sslm.formats.records.writer import SavedRecord
from sslm.opening.runner import Runner
from sslm.opening.tracing import short_digests
from sslm.program.program import Program
from sslm.runtime.saves.snapshot_records import choice_of
from sslm.runtime.sequences.choice import choice_fault
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.schema_binding import Ending
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.sequences.state import Chunk
from sslm.schema.tokens.bound_schema import BoundSchema

Advance = Callable[[Sequence], None]
"""Runs a slice of a sequence, however large, beside whatever else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a token was chosen from, and which one it was.

    Args:
        link: The chain of digests over all positions before it, 32 bytes.
        token_id: The token; -1 or below if none could be chosen.
        segments: Short digests of every segment, or none if they are not asked for.
        ending: Why the schema lets nothing follow the token, or None.
    """

    link: bytes
    token_id: int
    segments: list[bytes]
    ending: Ending | None


class Reexecution:
    """A sequence that goes through a recorded request.

    Args:
        sequence: Fresh; traced if the record has digests of segments.
        record: What to compute.
        advance: How to run slices.
    """

    def __init__(self, sequence: Sequence, record: SavedRecord, advance: Advance) -> None:
        self._sequence = sequence
        self._record = record
        self._advance = advance

    def steps(self) -> Iterator[Step]:
        """Yield one step for each token, for as long as the context has room."""
        sequence = self._sequence
        sequence.push(self._record.prompt_ids)
        while True:
            while sequence.has_work:
                self._advance(sequence)
            yield self._step()
            sequence.decode()

    def _step(self) -> Step:
        sequence = self._sequence
        token_id = sequence.selected
        if token_id is None:
            raise AssertionError("the last row of what was pushed is scored")
        segments = []
        if self._record.segment_count:
            chunk: Chunk = sequence.state.last_chunk()
            segments = short_digests(sequence.program, chunk)
        ending = sequence.ending_after(token_id) if token_id >= 0 else None
        return Step(link=sequence.digest, token_id=token_id, segments=segments, ending=ending)


@contextmanager
def reexecution(
    runner: Runner, record: SavedRecord, advance: Advance, schema: BoundSchema | None = None
) -> Iterator[Reexecution]:
    """Make the sequence of a reexecution, whose memory is given back at the end of the block.

    Args:
        runner: Of the record's model.
        record: Checked by :func:`require_replayable`.
        advance: How to run slices.
        schema: What the answer follows; see :func:`sslm.evidence.recorded_schema.schema_of_record`.

    Raises:
        MemoryRefusedError: If the system has no memory for it.
    """
    choice = choice_of(record.choice)
    options = SequenceOptions(
        context_tokens=replay_tokens(record),
        chooses=not choice.is_plain,
        is_traced=bool(record.segment_count),
    )
    with runner.sequence(options) as sequence:
        sequence.bind(schema, answer_tokens=answer_tokens(record))
        sequence.choose(choice, len(record.prompt_ids))
        yield Reexecution(sequence, record, advance)


def replay_tokens(record: SavedRecord) -> int:
    """Return how many positions a replay computes: the last token is chosen, and not computed."""
    return len(record.prompt_ids) + len(record.token_ids) - 1


def require_replayable(record: SavedRecord, program: Program, model_id: bytes) -> None:
    """Raise unless a model can be asked what a record says it was asked.

    Args:
        record: Read.
        program: Of the model.
        model_id: Of the model, 32 bytes.

    Raises:
        RecordModelError, RecordArithmeticError: If it was made with another one.
        RecordTokenError: If an id is not in the vocabulary.
        RecordSegmentsError: If it has digests of another number of segments.
        RecordValueError: If its context is longer than the model's, or its choice cannot be.
    """
    if record.model_id != model_id:
        raise RecordModelError(record.model_id.hex(), model_id.hex())
    if record.arithmetic_version != program.arithmetic_version:
        raise RecordArithmeticError(record.arithmetic_version, program.arithmetic_version)
    for part, ids in (
        ("the prompt", record.prompt_ids),
        ("the answer", record.token_ids),
        ("the ids that end the answer", record.stop_token_ids),
    ):
        for index, token_id in enumerate(ids):
            if token_id >= program.token_count:
                raise RecordTokenError(part, token_id, index, program.token_count - 1)
    if record.segment_count not in (0, program.first_head_index + 1):
        raise RecordSegmentsError(record.segment_count, program.first_head_index + 1)
    longest = program.max_position_embeddings
    if record.context_tokens > longest:
        what = f"a context of {record.context_tokens} tokens"
        raise RecordValueError(what, f"the model has at most {longest}")
    fault = choice_fault(
        choice_of(record.choice),
        answer_start=len(record.prompt_ids),
        vocab_size=program.token_count,
        context_tokens=record.context_tokens,
    )
    if fault is not None:
        raise RecordValueError(f"{fault.option} {fault.found}", f"expected {fault.expected}")
