"""Saving sequences as bytes, and going on with them elsewhere."""

from sslm import limits
from sslm.errors.runtime import OptionRangeError
from sslm.formats.choice import BIAS_SIZE_BYTES
from sslm.formats.saves.contents import SavedSequence
from sslm.formats.saves.reader import read_save, stated_size_bytes
from sslm.formats.saves.writer import encode_save, largest_overhead_bytes
from sslm.memory import named_refusal
from sslm.program.program import Program
from sslm.program.spans import CHUNK_ROWS_MAX, DIGEST_SIZE_BYTES
from sslm.runtime.saves.checks import require_restorable
from sslm.runtime.saves.snapshot_records import record_of, snapshot_of
from sslm.runtime.sequences.kv_pool import KvPool, page_count_for
from sslm.runtime.sequences.options import SequenceOptions, sequence_size_bytes
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.sequences.snapshot import Snapshot
from sslm.schema.tokens.bound_schema import BoundSchema


def save_size_bytes_max(program: Program, token_count: int, *, chooses: bool = False) -> int:
    """Return the most bytes that a save of a sequence of so many tokens can have.

    Args:
        program: What computes it.
        token_count: Its tokens of all kinds.
        chooses: As in its options.
    """
    layout = program.state_layout
    row_size_bytes = 4 * program.residual.width + DIGEST_SIZE_BYTES
    return (
        largest_overhead_bytes(len(layout.states))
        + BIAS_SIZE_BYTES * limits.LOGIT_BIAS_COUNT_MAX * int(chooses)
        + 4 * token_count
        + CHUNK_ROWS_MAX * row_size_bytes
        + layout.fixed_size_bytes
        + layout.page_size_bytes * page_count_for(token_count)
    )


def save(source: Sequence | Snapshot, *, kv: bool = True) -> bytes:
    """Return everything that a sequence is, in a size that grows with its tokens alone.

    The sequence goes on as if nothing had happened. It may be anywhere: in the middle of a token or
    of a chunk, with tokens pending, or empty.

    Args:
        source: What to save.
        kv: Whether to keep what was computed. Without it, a few bytes a token remain, and who
            restores them computes all tokens again, to the same bits.

    Raises:
        ObjectClosedError: If the sequence is closed, or the snapshot released.
        SequenceInUseError, SequenceInterruptedError, ForkedProcessError: As other calls of a
            sequence do.
        MemoryRefusedError: If the system has no memory for it.
    """
    # A hold of its own: nobody else's release gives its pages to another sequence meanwhile.
    snapshot = source.share() if isinstance(source, Snapshot) else source.snapshot()
    page_size_bytes = snapshot.hold.pool.layout.page_size_bytes
    size_bytes = snapshot.size_bytes + page_size_bytes * len(snapshot.hold.pages)
    try:
        with named_refusal("a save", size_bytes):
            return encode_save(record_of(snapshot, kv=kv))
    finally:
        snapshot.release()


def restore(
    blob: bytes | memoryview,
    program: Program,
    pool: KvPool,
    model_id: bytes,
    options: SequenceOptions,
    *,
    schema: BoundSchema | None = None,
) -> Sequence:
    """Return a sequence that goes on where the saved one stood, to the same bits.

    Args:
        blob: Begins with what :func:`save` returned, in whatever process; bytes behind it, as of a
            buffer of :func:`save_size_bytes_max`, are ignored. Nobody has to be trusted with it,
            but it must not change while it is read.
        program: Of the same model.
        pool: Where pages come from: as many as the tokens need, or as the options reserve.
        model_id: 32 bytes.
        options: What the sequence is made for; those of the saved one do not matter, but for a
            chunk in progress: its rows, and those of them that are scored, must fit.
        schema: What the saved answer follows, for saves that follow one.

    Raises:
        ArtifactError: If the save is damaged, of another model, or holds what no sequence can;
            one class per defect, in ``sslm.errors.saves`` and ``sslm.errors.reading``.
        ContextLengthError: If its tokens are more than the context.
        OptionRangeError: As :class:`Sequence` raises it, and if *blob* is not bytes.
        KvPoolExhaustedError: If the pool has too few pages.
        MemoryRefusedError: If the system has no memory. In each case nothing was taken.
    """
    saved = _read(blob, program, model_id, options, schema)
    sequence = Sequence(program, pool, model_id, options)
    try:
        _fill(sequence, saved, schema)
    except BaseException:
        sequence.close()
        raise
    return sequence


def restore_into(
    sequence: Sequence, blob: bytes | memoryview, *, schema: BoundSchema | None = None
) -> None:
    """Make a fresh sequence go on where the saved one stood.

    It follows from now on what the save follows: *schema*, or the schema that the sequence is bound
    to, or nothing. Before it is bound otherwise it has to be reset.

    Raises:
        SequenceNotFreshError: If it has tokens.
        ObjectClosedError, SequenceInUseError, SequenceInterruptedError, ForkedProcessError: As
            other calls of a sequence do.
        ArtifactError, ContextLengthError, OptionRangeError, KvPoolExhaustedError,
            MemoryRefusedError: As :func:`restore` does. In each case the sequence is as fresh as it
            was.
    """
    known = schema or sequence.schema
    saved = _read(blob, sequence.program, sequence.state.model_id, sequence.options, known)
    _fill(sequence, saved, known)


def _read(
    blob: bytes | memoryview,
    program: Program,
    model_id: bytes,
    options: SequenceOptions,
    schema: BoundSchema | None,
) -> SavedSequence:
    """Return what a save holds, once it is known that the sequence can go on with it."""
    try:
        view = memoryview(blob).cast("B")
    except TypeError as error:
        kind = type(blob).__name__
        raise OptionRangeError("blob", f"a {kind} that is not bytes", "bytes in a row") from error
    with named_refusal("what a save holds", view.nbytes):
        saved = read_save(view[: stated_size_bytes(view)])
        require_restorable(saved, program, model_id, options, schema)
    return saved


def _fill(sequence: Sequence, saved: SavedSequence, schema: BoundSchema | None) -> None:
    with named_refusal(
        "a copy of what a sequence has", sequence_size_bytes(sequence.program, sequence.options)
    ):
        snapshot = snapshot_of(saved, sequence.state.hold.pool.hold())
    sequence.load(snapshot, saved.memory.pages if saved.memory else (), schema)
