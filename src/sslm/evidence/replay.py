"""Executing a record again, on whatever backend, and saying where it differs first."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from sslm.answering.answer import Answer
from sslm.answering.request import Request
from sslm.artifact import Artifact
from sslm.evidence.locating import Located, Locator
from sslm.evidence.recorded_schema import schema_of_record
from sslm.evidence.records import finish_of, stop_reason_of
from sslm.evidence.reexecution import (
    Advance,
    Step,
    reexecution,
    replay_tokens,
    require_replayable,
)
from sslm.formats.records.writer import RecordFinish, SavedRecord
from sslm.numerics.digests import answer_digest
from sslm.opening.runner import ALL_UNITS, Runner, build_program
from sslm.program.plan import Backend
from sslm.progress import Progress, untold
from sslm.runtime.sequences.sequence import Sequence
from sslm.text.tokenizer import Tokenizer

_BY_SCHEMA: Final = (RecordFinish.SCHEMA, RecordFinish.DEAD_END)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDifference:
    """Where a replay and its record differ first.

    Args:
        token_index: Of the answer's token, from 0; the number of its tokens if it should go on.
        position: Of the sequence, the one that was computed otherwise, or that chose otherwise.
        segment: ``embed``, ``layer 3``, ``head`` or ``select``, or None if it is not known, or
            what ended the answer differs.
        op: The operation that wrote the first value that differs, or None if it is not known.
        found: The token id that was chosen here; None if none could be, or the answer had come to
            its end.
        expected: The recorded token id; None if the recorded answer had.
        reason: What differs, in words.
    """

    token_index: int
    position: int
    segment: str | None
    op: str | None
    found: int | None
    expected: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """What a replay came to.

    Args:
        identical: Whether every token, its digest and the end are as they were recorded.
        first_difference: Where they are not, or None.
        token_ids: The answer as it was computed here, up to a difference.
        digest: Hex digest of those.
        recorded_digest: Hex digest that the record states.
        model_id: Hex name of the model.
        backend: What it ran on.
        tier: The CPU tier in use.
        threads: How many threads computed.
    """

    identical: bool
    first_difference: ReplayDifference | None
    token_ids: tuple[int, ...]
    digest: str
    recorded_digest: str
    model_id: str
    backend: str
    tier: str
    threads: int


def replay_record(
    record: SavedRecord,
    artifact: Artifact,
    tokenizer: Tokenizer,
    *,
    open_backend: Callable[[], Backend],
    threads: int,
    schema: object = None,
    slice_units: int | None = None,
    around: Callable[[Runner], Advance] | None = None,
    on_progress: Progress = untold,
) -> ReplayReport:
    """Compute a recorded request again and compare every step.

    Args:
        record: Read.
        artifact: The model it was made with.
        tokenizer: Of the artifact.
        open_backend: Opens what to run on; called more than once if there is a difference.
        threads: For the report.
        schema: What the recorded answer follows, as calls take it; None looks for it in the
            model's file by its name.
        slice_units: Layers or blocks of the head of each call; None for no bound.
        around: Makes what runs the slices in another way; then *slice_units* does not matter.
        on_progress: Called after each token.

    Raises:
        ArtifactError: If it is not the record's model; see :func:`require_replayable`.
        OptionRangeError, RecordSchemaError, RecordSchemaMissingError: If *schema* is not the
            record's; see :func:`sslm.evidence.recorded_schema.schema_of_record`.
        SslmError: If the backend cannot be opened, or a run fails.
    """
    require_replayable(record, build_program(artifact), artifact.model_id)
    bound = schema_of_record(record, artifact, tokenizer, schema)
    units = ALL_UNITS if slice_units is None else slice_units
    runner = Runner(artifact, open_backend(), context_tokens=replay_tokens(record))
    with closing(runner):

        def plainly(sequence: Sequence) -> None:
            runner.advance([sequence], budget_units=units)

        advance = around(runner) if around else plainly
        comparison = _Comparison(record, tokenizer)
        with reexecution(runner, record, advance, bound) as execution:
            for step in execution.steps():
                is_over = comparison.take(step)
                on_progress(len(comparison.token_ids), len(record.token_ids))
                if is_over:
                    break
        difference = comparison.difference
        if comparison.other is not None:
            locator = Locator(record, artifact, runner, open_backend, bound)
            located = locator.locate(len(comparison.token_ids) - 1, comparison.other)
            difference = comparison.difference_at(located)
    # Where none could be chosen, there is a number that is no token.
    ids = [token_id for token_id in comparison.token_ids if token_id >= 0]
    digest = answer_digest(comparison.link, ids)
    return ReplayReport(
        identical=difference is None,
        first_difference=difference,
        token_ids=tuple(ids),
        digest=digest.hex(),
        recorded_digest=record.digest.hex(),
        model_id=record.model_id.hex(),
        backend=runner.backend_name,
        tier=runner.tier,
        threads=threads,
    )


class _Comparison:
    """Holds each step against the record.

    Attributes:
        token_ids: Of the steps so far.
        link: Of the last step.
        other: The step that differs, or None.
        difference: What differs where no step does, or None.
    """

    def __init__(self, record: SavedRecord, tokenizer: Tokenizer) -> None:
        self._record = record
        room = record.context_tokens - len(record.prompt_ids)
        request = Request(
            prompt_ids=tuple(record.prompt_ids),
            max_tokens=record.max_tokens,
            stop=record.stop,
            stop_token_ids=frozenset(record.stop_token_ids),
            is_continuation=record.is_continuation,
        )
        self._answer = Answer(tokenizer, request, max_tokens=min(record.max_tokens, room))
        self.token_ids: list[int] = []
        self.link = b""
        self.other: Step | None = None
        self.difference: ReplayDifference | None = None

    def take(self, step: Step) -> bool:
        """Compare the next step; return whether it is the last one."""
        record, index = self._record, len(self.token_ids)
        self.token_ids.append(step.token_id)
        self.link = step.link
        expected = record.token_ids[index]
        if (
            step.link != record.link(index)
            or step.token_id != expected
            or step.segments != record.segment_digests(index)
        ):
            self.other = step
            return True
        self._answer.take(step.token_id, ending=step.ending)
        is_last = index + 1 == len(record.token_ids)
        if self._answer.is_complete or is_last:
            self.difference = self._difference_at_end()
            return True
        return False

    def difference_at(self, located: Located) -> ReplayDifference:
        """Return the difference of the last step, which was found to begin there."""
        index = len(self.token_ids) - 1
        return ReplayDifference(
            token_index=index,
            position=located.position,
            segment=located.segment,
            op=located.op,
            found=self.token_ids[index] if self.token_ids[index] >= 0 else None,
            expected=self._record.token_ids[index],
            reason=located.reason,
        )

    def _difference_at_end(self) -> ReplayDifference | None:
        record, answer, count = self._record, self._answer, len(self.token_ids)
        if count < len(record.token_ids):
            ended = f"the answer ends before this token ({_ended(answer)})"
            return self._at_end(ended, expected=record.token_ids[count])
        recorded = (finish_of(record), stop_reason_of(record))
        if not answer.is_complete:
            return self._at_end(f"the answer goes on, the recorded one ends ({recorded[0]})")
        by_schema = answer.ending is not None
        is_other = by_schema != (record.finish in _BY_SCHEMA)
        if is_other or (answer.finish_reason, answer.stop_reason) != recorded:
            other = f"the answer ends otherwise: {_ended(answer)}, recorded is {recorded[0]}"
            return self._at_end(f"{other} {recorded[1]!r}")
        if answer_digest(self.link, self.token_ids) != record.digest:
            return self._at_end("tokens and states are as recorded, the digest is another one")
        return None

    def _at_end(self, reason: str, *, expected: int | None = None) -> ReplayDifference:
        count = len(self.token_ids)
        return ReplayDifference(
            token_index=count,
            position=len(self._record.prompt_ids) + count - 1,
            segment=None,
            op=None,
            found=None,
            expected=expected,
            reason=reason,
        )


def _ended(answer: Answer) -> str:
    reason = "" if answer.stop_reason is None else f" {answer.stop_reason!r}"
    return f"{answer.finish_reason}{reason}"
