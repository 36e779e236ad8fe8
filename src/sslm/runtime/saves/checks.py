"""What must be true of a saved sequence before a model goes on with it.

The form of the save is known to be right here, and so is its hash, which proves nothing: whoever
changes a save can seal it again. So everything that the program takes for granted is looked at.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

from sslm.errors.saves import (
    SaveAbsentRowError,
    SaveAdapterError,
    SaveArithmeticError,
    SaveChoiceError,
    SaveChunkError,
    SaveCodeError,
    SaveCounterError,
    SaveExponentError,
    SaveLinkError,
    SaveLogitsError,
    SaveModelError,
    SavePartSizeError,
    SaveRowsError,
    SaveSchemaError,
    SaveSchemaStateError,
    SaveScoresError,
    SaveSelectionError,
    SaveStatesError,
    SaveTokenError,
    SaveValueError,
)
from sslm.formats.saves.contents import Bytes, SavedChunk, SavedMemory, SavedSequence
from sslm.limits import CODE_MAX
from sslm.native_library import borrow, load_library
from sslm.numerics.digests import first_link
from sslm.program.buffers import EXPONENT_MAX_INT32
from sslm.program.choice import Choice
from sslm.program.program import Program
from sslm.program.sequence_data import SCORE_REFUSED
from sslm.program.spans import DIGEST_SIZE_BYTES
from sslm.program.states import PAGE_TOKENS, State, StateLayout
from sslm.runtime.saves.snapshot_records import choice_of, fixed_states, in_flight_of, saved_states
from sslm.runtime.sequences.choice import choice_fault
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.page_rows import (
    Run,
    absent_halves_are_zero,
    packed_runs,
    packed_size_bytes,
)
from sslm.runtime.sequences.schema_binding import Binding, Place
from sslm.runtime.sequences.snapshot import NO_ADAPTER, first_unsealed, state_stops
from sslm.schema.tokens.bound_schema import BoundSchema
from sslm.schema.tokens.step_table import NO_STATE

_INT32_MIN: Final = -(1 << 31)
_EXPONENT_MAX: Final = EXPONENT_MAX_INT32
"""Of every state that grows: append alone writes them, from rows of int32 alone."""


def require_restorable(
    saved: SavedSequence,
    program: Program,
    model_id: bytes,
    options: SequenceOptions,
    schema: BoundSchema | None = None,
) -> None:
    """Check a save against the model and the sequence that are to go on with it.

    Args:
        saved: As :func:`sslm.formats.saves.reader.read_save` returns it.
        program: What will compute it.
        model_id: Of its model, 32 bytes.
        options: What the sequence is made for.
        schema: What its answer is to follow, or None.

    Raises:
        ArtifactError: One class per mismatch; see ``sslm.errors.saves``.
        ContextLengthError: If the tokens are more than the context.
    """
    _require_identity(saved, program, model_id)
    memory, layout = saved.memory, program.state_layout
    if memory is not None:
        _require_states(memory, layout)
    begun = memory.chunk.token_ids if memory and memory.chunk else array("i")
    computed = memory.token_ids if memory else array("i")
    token_count = len(computed) + len(begun) + len(saved.pending)
    if token_count > options.context_tokens:
        raise program.too_long(token_count, options.context_tokens)
    parts = {"computed": computed, "in progress": begun, "pending": saved.pending}
    for part, ids in parts.items():
        _require_ids(part, ids, program.token_count)
    choice = _required_choice(saved, program, options)
    _require_count("forced_tokens", saved.forced_tokens, token_count)
    if memory is not None:
        if memory.chunk is not None:
            _require_chunk(memory.chunk, program, options)
        _require_selection(memory, program.token_count, is_at_rest=not (begun or saved.pending))
        if memory.selected == SCORE_REFUSED and choice.is_plain:
            raise SaveSelectionError(memory.selected, "-1 or more, as exact logits were compared")
        _require_history(memory, saved, program)
        _require_memory(memory, program, layout)
    require_schema(saved, schema, token_count)


def _require_identity(saved: SavedSequence, program: Program, model_id: bytes) -> None:
    # The version first: it is part of model_id.
    if saved.arithmetic_version != program.arithmetic_version:
        raise SaveArithmeticError(saved.arithmetic_version, program.arithmetic_version)
    if saved.model_id != model_id:
        raise SaveModelError(saved.model_id.hex(), model_id.hex())
    if saved.adapter != NO_ADAPTER:
        raise SaveAdapterError(saved.adapter.hex(), NO_ADAPTER.hex())


def _require_ids(part: str, ids: "array[int]", vocab_size: int) -> None:
    if ids and not (min(ids) >= 0 and max(ids) < vocab_size):
        index = next(i for i, token_id in enumerate(ids) if not 0 <= token_id < vocab_size)
        raise SaveTokenError(part, index, ids[index], vocab_size - 1)


def _required_choice(saved: SavedSequence, program: Program, options: SequenceOptions) -> Choice:
    """Return how tokens are chosen, once it is known that the sequence can choose so."""
    if saved.choice is None:
        return Choice()
    choice = choice_of(saved.choice)
    if (choice, saved.answer_start) == (Choice(), 0):
        raise SaveChoiceError("choice", "that of every new sequence", "none, as it goes without")
    fault = choice_fault(
        choice,
        answer_start=saved.answer_start,
        vocab_size=program.token_count,
        context_tokens=options.context_tokens,
    )
    if fault is not None:
        raise SaveChoiceError(*fault)
    if not (choice.is_plain or options.chooses):
        raise SaveScoresError
    return choice


def _require_chunk(chunk: SavedChunk, program: Program, options: SequenceOptions) -> None:
    """Check that the chunk stands where a chunk of the sequence can stand."""
    rows, first_row = len(chunk.token_ids), chunk.first_logits_row
    if rows > options.chunk_tokens:
        raise SaveRowsError(rows, options.chunk_tokens)
    if rows - first_row > 1 and not options.has_all_logits:
        raise SaveLogitsError(rows - first_row)
    # At the head's first block at the latest, and only if there are rows for the head.
    has_head = first_row < rows and program.first_head_index < len(program.segments)
    last = program.first_head_index - int(not has_head)
    if not 1 <= chunk.next_segment <= last:
        raise SaveChunkError(chunk.next_segment, last)


def _require_selection(memory: SavedMemory, vocab_size: int, *, is_at_rest: bool) -> None:
    selected = memory.selected
    if selected is None:
        return
    if not (is_at_rest and memory.token_ids):
        raise SaveSelectionError(selected, "none, as tokens are to be computed first")
    if selected >= vocab_size:
        raise SaveSelectionError(selected, f"-1 to {vocab_size - 1}")


def _require_history(memory: SavedMemory, saved: SavedSequence, program: Program) -> None:
    """Check counters, and the chain of digests where it is known."""
    chunks_possible = len(memory.token_ids) + int(memory.chunk is not None)
    _require_count("chunk_count", memory.chunk_count, chunks_possible)
    _require_count("layers_run", memory.layers_run, memory.chunk_count * program.layer_count)
    first = first_link(program.arithmetic_version, saved.model_id)
    if not memory.token_ids and memory.link != first:
        raise SaveLinkError(memory.link.hex(), first.hex())


def _require_count(what: str, found: int, at_most: int) -> None:
    if found > at_most:
        raise SaveCounterError(what, found, at_most)


def _require_memory(memory: SavedMemory, program: Program, layout: StateLayout) -> None:
    """Check what was computed: first the sizes, then the numbers."""
    chunk = memory.chunk
    in_flight = in_flight_of(chunk) if chunk else None
    position = len(memory.token_ids)
    stops, first = state_stops(layout, position, in_flight), first_unsealed(position)
    rows = len(chunk.token_ids) if chunk else int(position > 0)
    residual = chunk.residual if chunk else memory.last_residual
    _require_size("residual", residual, 4 * program.residual.width * rows)
    if chunk is not None:
        is_past_layers = chunk.next_segment == program.first_head_index
        _require_size("digests", chunk.digests, DIGEST_SIZE_BYTES * rows * int(is_past_layers))
    fixed_size = sum(state.codes_size_bytes for state in fixed_states(layout))
    _require_size("fixed states", memory.fixed, fixed_size)
    if memory.page_size_bytes != layout.page_size_bytes:
        raise SavePartSizeError("page", memory.page_size_bytes, layout.page_size_bytes)
    _require_size("tail", memory.tail, packed_size_bytes(layout, first, stops))
    _require_values("residual", residual)
    _require_values("fixed states", memory.fixed)
    require_bounded_pages(layout, memory.pages)
    require_bounded_rows(layout, first, stops, memory.tail)


def _require_states(memory: SavedMemory, layout: StateLayout) -> None:
    expected = saved_states(layout)
    for index in range(max(len(expected), len(memory.states))):
        found, wanted = memory.states[index : index + 1], expected[index : index + 1]
        if found != wanted:
            texts = [str(states[0]) if states else "absent" for states in (found, wanted)]
            raise SaveStatesError(index, *texts)


def _require_size(part: str, content: Bytes, expected: int) -> None:
    if len(content) != expected:
        raise SavePartSizeError(part, len(content), expected)


def _require_values(part: str, content: Bytes) -> None:
    values = array("i", bytes(content))
    if values and min(values) == _INT32_MIN:
        raise SaveValueError(part, values.index(_INT32_MIN))


def require_bounded_pages(layout: StateLayout, pages: Sequence[bytes | memoryview]) -> None:
    """Check pages whose positions all exist.

    Args:
        layout: What a page holds.
        pages: Each ``page_size_bytes`` of the layout.

    Raises:
        SaveCodeError: If a code is beyond ±32639.
        SaveExponentError: If an exponent is beyond 17.
        NativeLibraryMissingError, NativeLibraryLoadError: If there is no native library.
    """
    runs = list(packed_runs(layout, 0, (PAGE_TOKENS,) * len(layout.states)))
    for page in pages:
        _require_bounded(runs, page)


def require_bounded_rows(
    layout: StateLayout, first: int, stops: Sequence[int], packed: bytes | memoryview
) -> None:
    """Check packed rows.

    Takes what :func:`sslm.runtime.sequences.page_rows.unpack_rows` does, of the size that
    :func:`sslm.runtime.sequences.page_rows.packed_size_bytes` says.

    Raises:
        SaveCodeError, SaveExponentError: As :func:`require_bounded_pages` does.
        SaveAbsentRowError: If the absent half of a pair is not zero.
    """
    _require_bounded(packed_runs(layout, first, stops), packed)
    if not absent_halves_are_zero(layout, first, stops, packed):
        raise SaveAbsentRowError


def _require_bounded(runs: Iterable[Run], packed: bytes | memoryview) -> None:
    library = load_library()
    codes_within = library.lib.sslm_native_codes_within
    exponents_within = library.lib.sslm_native_exponents_within
    at, view = borrow(library.ffi, "uint8_t *", packed)
    with view:
        done = 0
        for run in runs:
            exponents = done + 2 * run.code_count
            if not codes_within(at + done, run.code_count, CODE_MAX):
                _refuse_code(run.state, view[done:exponents])
            done = exponents + run.exponent_count
            if not exponents_within(at + exponents, run.exponent_count, _EXPONENT_MAX):
                _refuse_exponent(run.state, view[exponents:done])


def _refuse_code(state: State, codes: memoryview) -> NoReturn:
    found = next(code for code in codes.cast("h") if abs(code) > CODE_MAX)
    raise SaveCodeError(state.name, found, CODE_MAX)


def _refuse_exponent(state: State, exponents: memoryview) -> NoReturn:
    found = next(exponent for exponent in exponents if exponent > _EXPONENT_MAX)
    raise SaveExponentError(state.name, found, _EXPONENT_MAX)


def require_schema(saved: SavedSequence, schema: BoundSchema | None, token_count: int) -> None:
    """Check where the answer of a save stands.

    Args:
        saved: As it was read; its token ids are in the vocabulary.
        schema: The one at hand, or None.
        token_count: Tokens of all kinds.

    Raises:
        SaveSchemaError: If the save follows another schema.
        SaveSchemaStateError: If an answer cannot stand there.
        SaveSelectionError: If the token that was chosen cannot follow there.
    """
    found = saved.schema
    if found is None:
        return
    if schema is None or schema.digest != found.digest:
        expected = "none" if schema is None else schema.digest.hex()
        raise SaveSchemaError(found.digest.hex(), expected)
    last = schema.state_count - 1
    if found.state > last or schema.distance(found.state) == NO_STATE:
        expected = f"one that answers reach, at most {last}"
        raise SaveSchemaStateError("the state", found.state, expected)
    if found.token_count > token_count:
        expected = f"at most {token_count}, as there are tokens"
        raise SaveSchemaStateError("the number of tokens", found.token_count, expected)
    place = Place(found.state, found.token_count)
    binding = Binding(schema, found.answer_tokens)
    if not binding.fits(place):
        needed = place.token_count + schema.distance(place.state)
        raise SaveSchemaStateError(
            "the most tokens", found.answer_tokens or 0, f"at least {needed}, to complete the text"
        )
    selected = saved.memory.selected if saved.memory else None
    if selected is not None and selected >= 0 and not binding.allows(place, selected):
        raise SaveSelectionError(selected, "one that the schema allows")
