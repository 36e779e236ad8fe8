"""Where two computations of one position part: the segment, then the operation."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from sslm.artifact import Artifact
from sslm.errors.base import ArtifactError
from sslm.errors.program import OpShapeError
from sslm.evidence.recorded_schema import answer_tokens
from sslm.evidence.reexecution import Step
from sslm.formats.records.writer import SavedRecord
from sslm.opening.runner import Runner, open_backend
from sslm.opening.tracing import last_head_digest, row_digests, segment_names
from sslm.program.buffers import Buffer
from sslm.program.ops import Op
from sslm.program.plan import Backend
from sslm.program.program import Program, SegmentKind
from sslm.program.spans import CHUNK_ROWS_MAX
from sslm.program.tensors import Tensors
from sslm.runtime.saves.saving import restore, restore_into, save
from sslm.runtime.saves.snapshot_records import choice_of
from sslm.runtime.sequences.kv_pool import KvPool, page_count_for
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.schema_binding import Binding, Place
from sslm.runtime.sequences.sequence import Sequence as TokenSequence
from sslm.runtime.slices.stepper import advance, finished
from sslm.schema.tokens.bound_schema import BoundSchema

_REFERENCE = "reference"


def parting_op(
    program: Program,
    tensors: Tensors,
    model_id: bytes,
    backends: Sequence[Backend],
    *,
    before: bytes,
    segment_index: int,
    context_tokens: int,
) -> str | None:
    """Name the first operation of a layer whose results differ between backends.

    Only residual and states outlive a segment. So the segment is run up to each operation that
    writes one of them, as a program of its own, and the first one after which they differ is named:
    it or one whose result it read.

    Args:
        program: The whole one.
        tensors: Of the program.
        model_id: 32 bytes.
        backends: Those that differ.
        before: A save from before the segment, with a chunk in progress or pending.
        segment_index: Of a layer.
        context_tokens: Enough for the save.

    Returns:
        The operation's name, or None if they do not differ now.
    """
    for op, cut in _cuts(program, segment_index):
        results = {
            _after(backend, cut, tensors, model_id, before=before, context_tokens=context_tokens)
            for backend in backends
        }
        if len(results) > 1:
            return op_name(op)
    return None


def op_name(op: Op) -> str:
    """Name an operation by its kind, and by the weights or the state that it works on."""
    subjects = [*op.tensor_names(), *(state.name for state in op.states())]
    return " ".join(dict.fromkeys([type(op).__name__.lower(), *subjects[:1]]))


def _cuts(program: Program, segment_index: int) -> Iterator[tuple[Op, Program]]:
    """Yield each operation of a segment that leaves something, with a program that ends it there.

    A program that cannot be cut, because every fixed state has to be written, is left out.
    """
    segment = program.segments[segment_index]
    for index, op in enumerate(segment.ops):
        if op.writes_state or program.residual.name in _written(op):
            ops = segment.ops[: index + 1]
            segments = list(program.segments)
            segments[segment_index] = replace(segment, ops=ops)
            try:
                cut = replace(program, segments=tuple(segments))
            except OpShapeError:
                continue
            yield op, cut


def _written(op: Op) -> list[str]:
    """Return the names of the buffers that an operation writes."""
    buffers = (getattr(op, field, None) for field in ("out", "target"))
    return [buffer.name for buffer in buffers if isinstance(buffer, Buffer)]


def _after(
    backend: Backend,
    program: Program,
    tensors: Tensors,
    model_id: bytes,
    *,
    before: bytes,
    context_tokens: int,
) -> bytes:
    """Return a save from after the next unit of a save."""
    plan = backend.compile(
        program, tensors, row_count_max=CHUNK_ROWS_MAX, context_tokens=context_tokens
    )
    options = SequenceOptions(context_tokens=context_tokens)
    pool = KvPool(program.state_layout, page_count_for(context_tokens))
    with closing(plan), restore(before, program, pool, model_id, options) as sequence:
        finished(advance(plan, [sequence], budget_units=1, row_count_max=CHUNK_ROWS_MAX))
        return save(sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where a difference begins; the fields are those of ``ReplayDifference``."""

    position: int
    segment: str | None
    op: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parting:
    """Where a backend and the reference part.

    Args:
        position: The first one that differs.
        segment: Index in the program: a layer's or the embedding's, the first of the head, or the
            selection.
        first_row: Position of the first row of its chunk.
        last_row: One past the last.
    """

    position: int
    segment: int
    first_row: int
    last_row: int


class Locator:
    """Finds where a step of a replay parts from its record.

    From equal states, every backend computes what the reference does. Where the one in question
    does not, it is at fault, and the operation can be told. Where it does, the record is of another
    computation, and digests of segments, if it has them, tell of which segment.

    Args:
        record: What was replayed.
        artifact: Its model.
        runner: What it was replayed with.
        open_in_question: Opens the backend of the runner again.
        schema: What the recorded answer follows, or None.
    """

    def __init__(
        self,
        record: SavedRecord,
        artifact: Artifact,
        runner: Runner,
        open_in_question: Callable[[], Backend],
        schema: BoundSchema | None = None,
    ) -> None:
        self._record = record
        self._artifact = artifact
        self._runner = runner
        self._open_in_question = open_in_question
        self._schema = schema
        self._choice = choice_of(record.choice)

    def locate(self, index: int, step: Step) -> Located:
        """Return where the step of a token differs from what was recorded of it.

        Args:
            index: Of the token, from 0.
            step: As it was computed here.
        """
        record = self._record
        position = len(record.prompt_ids) + index - 1
        ids = [*record.prompt_ids, *record.token_ids[:index]]
        is_other_state = step.link != record.link(index)
        # Of the prompt, any position may be where it begins; later ones were compared before.
        start = position if index or not is_other_state else 0
        parting = None
        if self._runner.backend_name != _REFERENCE:
            with self._reference() as reference:
                parting = self._parting(reference, ids, start)
        if parting is not None:
            return self._at_fault(parting, ids)
        return self._of_record(index, step, position)

    def _of_record(self, index: int, step: Step, position: int) -> Located:
        """Return where another computation than this machine's was recorded."""
        expected = self._record.segment_digests(index)
        names = segment_names(self._runner.program)
        found = zip(names, step.segments, expected, strict=False)
        segment = next((name for name, one, other in found if one != other), None)
        what = "another state was recorded"
        if segment is None and step.link == self._record.link(index):
            segment, what = SegmentKind.SELECT.value, "another token was recorded"
        if self._runner.backend_name != _REFERENCE:
            what += " than this backend and the reference compute"
        if segment == SegmentKind.SELECT.value and not self._is_allowed(index):
            what += "; the schema does not allow it there"
        return Located(position=position, segment=segment, op=None, reason=what)

    def _is_allowed(self, index: int) -> bool:
        """Whether the schema allows a recorded token behind those before it, or there is none."""
        if self._schema is None:
            return True
        binding, place = Binding(self._schema, answer_tokens(self._record)), Place()
        *before, token_id = self._record.token_ids[: index + 1]
        for one in before:
            after = binding.after(place, one)
            assert after is not None, "what comes before was chosen here, too"
            place = after
        return binding.allows(place, token_id)

    def _at_fault(self, parting: _Parting, ids: Sequence[int]) -> Located:
        """Return the operation that the backend in question computes otherwise."""
        program = self._runner.program
        segment = program.segments[parting.segment]
        op: str | None
        if segment.kind is SegmentKind.LAYER:
            op = parting_op(
                program,
                self._artifact.tensors,
                self._artifact.model_id,
                [self._open_in_question(), _open_reference()],
                before=self._before(parting, ids),
                segment_index=parting.segment,
                context_tokens=self._runner.context_tokens,
            )
        else:
            op = op_name(segment.ops[-1])
        return Located(
            position=parting.position,
            segment=segment.name,
            op=op,
            reason=f"{self._runner.backend_name} and the reference differ from there on",
        )

    def _parting(self, reference: Runner, ids: Sequence[int], start: int) -> _Parting | None:
        """Compute the positions from *start* on with both, from the same states."""
        schema = self._schema
        with self._traced(self._runner, schema) as ours, self._traced(reference, schema) as theirs:
            if start:
                self._take_in(self._runner, ours, ids[:start])
                try:
                    restore_into(theirs, save(ours))
                except ArtifactError:
                    # A broken machine may leave what no sequence can be.
                    self._take_in(reference, theirs, ids[:start])
            for sequence in (ours, theirs):
                sequence.choose(self._choice, len(self._record.prompt_ids))
                self._queue(sequence, ids)
            while ours.has_work:
                self._runner.run(ours, None)
                reference.run(theirs, None)
                found = self._first_other_row(ours, theirs)
                if found is not None:
                    return found
            return self._other_choice(ours, theirs)

    def _first_other_row(self, ours: TokenSequence, theirs: TokenSequence) -> _Parting | None:
        program = self._runner.program
        one, other = ours.state.last_chunk(), theirs.state.last_chunk()
        first, rows = one.span.first_position, one.span.row_count
        for row in range(rows):
            pairs = zip(
                row_digests(program, one, row), row_digests(program, other, row), strict=True
            )
            for segment, (found, expected) in enumerate(pairs):
                if found != expected:
                    return _Parting(
                        position=first + row,
                        segment=segment,
                        first_row=first,
                        last_row=first + rows,
                    )
        return None

    def _other_choice(self, ours: TokenSequence, theirs: TokenSequence) -> _Parting | None:
        program, position = self._runner.program, ours.position - 1
        one, other = ours.state.last_chunk(), theirs.state.last_chunk()
        if last_head_digest(program, one) != last_head_digest(program, other):
            segment = program.first_head_index
        elif ours.selected != theirs.selected:
            segment = len(program.segments) - 1
        else:
            return None
        return _Parting(
            position=position, segment=segment, first_row=position, last_row=position + 1
        )

    def _before(self, parting: _Parting, ids: Sequence[int]) -> bytes:
        """Return a save from before the segment, on which both agree."""
        runner = self._runner
        # No layer depends on what may be chosen behind it.
        with self._traced(runner, None) as sequence:
            _run(runner, sequence, ids[: parting.first_row])
            sequence.push(ids[parting.first_row : parting.last_row])
            # The embedding and the first layer are one unit.
            if parting.segment > 1:
                runner.advance([sequence], budget_units=parting.segment - 1)
            return save(sequence)

    def _take_in(self, runner: Runner, sequence: TokenSequence, ids: Sequence[int]) -> None:
        """Compute the first ids of prompt and answer."""
        self._queue(sequence, ids)
        while sequence.has_work:
            runner.run(sequence, None)

    def _queue(self, sequence: TokenSequence, ids: Sequence[int]) -> None:
        """Queue what a sequence does not have yet of the first ids of prompt and answer."""
        prompt, first = len(self._record.prompt_ids), sequence.position
        if first < prompt:
            sequence.push(ids[first:prompt])
        content = ids[max(first, prompt) :]
        if content and self._schema is None:
            sequence.push(content)
        elif content:
            sequence.prefill_content(content)

    @contextmanager
    def _reference(self) -> Iterator[Runner]:
        context_tokens = self._runner.context_tokens
        runner = Runner(self._artifact, _open_reference(), context_tokens=context_tokens)
        with closing(runner):
            yield runner

    @contextmanager
    def _traced(self, runner: Runner, schema: BoundSchema | None) -> Iterator[TokenSequence]:
        options = SequenceOptions(
            context_tokens=runner.context_tokens,
            chooses=not self._choice.is_plain,
            is_traced=True,
        )
        with runner.sequence(options) as sequence:
            tokens = None if schema is None else answer_tokens(self._record)
            sequence.bind(schema, answer_tokens=tokens)
            yield sequence


def _open_reference() -> Backend:
    return open_backend(_REFERENCE, tier="auto", threads=1)


def _run(runner: Runner, sequence: TokenSequence, ids: Sequence[int]) -> None:
    sequence.push(ids)
    while sequence.has_work:
        runner.run(sequence, None)
