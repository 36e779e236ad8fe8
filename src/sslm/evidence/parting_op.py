"""The operation of a segment that two backends compute otherwise, from the same states."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from sslm.errors.program import OpShapeError
from sslm.program.buffers import Buffer
from sslm.program.ops import Op
from sslm.program.plan import CHUNK_ROWS_MAX, Backend
from sslm.program.program import Program
from sslm.program.tensors import Tensors
from sslm.runtime.saves.saving import restore, save
from sslm.runtime.sequences.kv_pool import KvPool, page_count_for
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.slices.stepper import advance, finished


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
