"""A save that is sealed right and says what cannot be is refused, each lie by its own error."""

import struct
from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sslm.backends.reference.backend import ReferencePlan
from sslm.errors.base import SslmError
from sslm.errors.runtime import NumericStepRefusedError
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
    SaveSchemaStateError,
    SaveScoresError,
    SaveSelectionError,
    SaveStatesError,
    SaveTokenError,
    SaveValueError,
)
from sslm.formats.saves.contents import SavedChunk, SavedMemory, SavedSequence
from sslm.formats.saves.reader import read_save
from sslm.formats.saves.writer import encode_save
from sslm.program.choice import Choice, Decoder
from sslm.program.sequence_data import SCORE_REFUSED
from sslm.runtime.saves.saving import restore, save
from sslm.runtime.saves.snapshot_records import saved_choice
from sslm.runtime.sequences.options import SequenceOptions
from sslm.schema.tokens.bound_schema import BoundSchema
from tests.bound_schemas import bound, fields
from tests.sequences import LONGEST, new_pool, new_sequence, reference_plan, run, step
from tests.tiny_models import MODEL_ID

OPTIONS = SequenceOptions(context_tokens=LONGEST, reserved_tokens=0)

LOWEST = struct.pack("<i", -(1 << 31))
LARGEST = struct.pack("<i", (1 << 31) - 1)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> ReferencePlan:
    return reference_plan("odd llama", tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> ReferencePlan:
    return reference_plan("recurrent", tmp_path_factory.mktemp("model"))


def at_rest(plan: ReferencePlan) -> SavedSequence:
    """67 computed positions: a full page, a pair of values and half of one."""
    with new_sequence(plan, new_pool(plan)) as sequence:
        sequence.push([index % 37 for index in range(67)])
        run(plan, sequence)
        return read_save(save(sequence))


def mid_chunk(plan: ReferencePlan, units: int = 1, **options: Any) -> SavedSequence:
    """Three rows after a computed one have run through the first layers; two tokens wait."""
    with new_sequence(plan, new_pool(plan), **options) as sequence:
        sequence.push([5])
        run(plan, sequence)
        sequence.push([6, 7, 8])
        step(plan, sequence, units)
        sequence.push([9, 10])
        return read_save(save(sequence))


def with_memory(saved: SavedSequence, **changes: Any) -> SavedSequence:
    assert saved.memory is not None
    return replace(saved, memory=replace(saved.memory, **changes))


def with_chunk(saved: SavedSequence, **changes: Any) -> SavedSequence:
    return with_memory(saved, chunk=replace(chunk_of(saved), **changes))


def memory_of(saved: SavedSequence) -> SavedMemory:
    assert saved.memory is not None
    return saved.memory


def chunk_of(saved: SavedSequence) -> SavedChunk:
    chunk = memory_of(saved).chunk
    assert chunk is not None
    return chunk


def patched(content: bytes | memoryview, offset: int, patch: bytes) -> bytes:
    """The same bytes with others at an offset, which counts from the end if it is negative."""
    changed = bytearray(content)
    start = offset % len(changed)
    changed[start : start + len(patch)] = patch
    assert len(changed) == len(content)
    return bytes(changed)


def refusal(plan: ReferencePlan, saved: SavedSequence, **options: Any) -> SslmError:
    pool = new_pool(plan)
    merged = replace(OPTIONS, **options)
    with pytest.raises(SslmError) as caught:
        restore(encode_save(saved), plan.program, pool, MODEL_ID, merged)
    assert pool.held_page_count == 0
    return caught.value


def require(error: SslmError, kind: type[SslmError], **facts: object) -> None:
    assert type(error) is kind
    found = error.facts()
    assert {name: found[name] for name in facts} == facts


def test_another_model_another_arithmetic_another_adapter(llama: ReferencePlan) -> None:
    saved = at_rest(llama)
    other = refusal(llama, replace(saved, model_id=bytes(32)))
    require(other, SaveModelError, found="00" * 32, expected=MODEL_ID.hex())
    other = refusal(llama, replace(saved, arithmetic_version=2, model_id=bytes(32)))
    require(other, SaveArithmeticError, found=2, expected=1)
    other = refusal(llama, replace(saved, adapter=b"\1" * 32))
    require(other, SaveAdapterError, found="01" * 32, expected="00" * 32)


def test_other_states(llama: ReferencePlan, recurrent: ReferencePlan) -> None:
    saved = at_rest(llama)
    states = memory_of(saved).states
    wider = (states[0], replace(states[1], head_dim=32), *states[2:])
    require(
        refusal(llama, with_memory(saved, states=wider)),
        SaveStatesError,
        index=1,
        found="values of 2 x 32 of segment 1",
        expected="values of 2 x 24 of segment 1",
    )
    missing = with_memory(saved, states=states[:-1])
    require(refusal(llama, missing), SaveStatesError, index=3, found="absent")
    more = with_memory(saved, states=(*states, states[0]))
    require(refusal(llama, more), SaveStatesError, index=4, expected="absent")
    swapped = with_memory(saved, states=(states[1], states[0], *states[2:]))
    require(refusal(llama, swapped), SaveStatesError, index=0)
    foreign = refusal(recurrent, saved)
    require(foreign, SaveStatesError, index=0, expected="fixed of 1 x 20 of segment 1")


@pytest.mark.parametrize("token_id", [275, -1, (1 << 31) - 1])
def test_tokens_outside_the_vocabulary(llama: ReferencePlan, token_id: int) -> None:
    saved = mid_chunk(llama)
    ids = array("i", [0, token_id])
    pending = refusal(llama, replace(saved, pending=ids))
    require(pending, SaveTokenError, part="pending", index=1, found=token_id, largest=274)
    begun = refusal(llama, with_chunk(saved, token_ids=array("i", [274, 0, token_id])))
    require(begun, SaveTokenError, part="in progress", index=2, found=token_id)
    computed = refusal(llama, with_memory(saved, token_ids=array("i", [token_id])))
    require(computed, SaveTokenError, part="computed", index=0, found=token_id)
    alone = refusal(llama, replace(saved, pending=ids, memory=None))
    require(alone, SaveTokenError, part="pending", index=1, found=token_id)


def test_a_token_is_chosen_where_it_can_be(llama: ReferencePlan) -> None:
    waiting = refusal(llama, with_memory(mid_chunk(llama), selected=3))
    require(waiting, SaveSelectionError, found=3)
    waiting = refusal(llama, replace(at_rest(llama), pending=array("i", [1])))
    require(waiting, SaveSelectionError)
    beyond = refusal(llama, with_memory(at_rest(llama), selected=275))
    require(beyond, SaveSelectionError, found=275, expected="-1 to 274")
    with new_sequence(llama, new_pool(llama)) as empty:
        nothing = read_save(save(empty))
    require(refusal(llama, with_memory(nothing, selected=-1)), SaveSelectionError, found=-1)


def test_chunks_that_no_sequence_begins(llama: ReferencePlan) -> None:
    """Segments: embed, two layers, the head, the selection."""
    saved = mid_chunk(llama)
    assert (chunk_of(saved).next_segment, chunk_of(saved).first_logits_row) == (2, 2)
    beyond = refusal(llama, with_chunk(saved, next_segment=4))
    require(beyond, SaveChunkError, found=4, highest=3)
    unscored = refusal(llama, with_chunk(saved, next_segment=3, first_logits_row=3))
    require(unscored, SaveChunkError, found=3, highest=2)
    more = refusal(llama, with_chunk(saved, first_logits_row=1))
    require(more, SaveLogitsError, found=2)
    require(refusal(llama, saved, chunk_tokens=2), SaveRowsError, found=3, at_most=2)


def test_scores_of_many_rows_need_memory_for_them(llama: ReferencePlan) -> None:
    saved = mid_chunk(llama, has_all_logits=True)
    require(refusal(llama, saved), SaveLogitsError, found=3)
    options = replace(OPTIONS, has_all_logits=True)
    restore(encode_save(saved), llama.program, new_pool(llama), MODEL_ID, options).close()


def test_counters_count_what_there_is(llama: ReferencePlan) -> None:
    saved = mid_chunk(llama)
    # One position and a chunk in progress: two chunks of two layers, and six tokens.
    assert memory_of(saved).chunk_count == 2
    chunks = refusal(llama, with_memory(saved, chunk_count=3))
    require(chunks, SaveCounterError, what="chunk_count", found=3, at_most=2)
    layers = refusal(llama, with_memory(saved, layers_run=5))
    require(layers, SaveCounterError, what="layers_run", found=5, at_most=4)
    forced = refusal(llama, replace(saved, forced_tokens=7))
    require(forced, SaveCounterError, what="forced_tokens", found=7, at_most=6)
    forced = refusal(llama, replace(saved, memory=None, forced_tokens=3))
    require(forced, SaveCounterError, at_most=2)


def test_the_chain_of_no_positions_is_known(llama: ReferencePlan) -> None:
    with new_sequence(llama, new_pool(llama)) as sequence:
        sequence.push([1, 2])
        step(llama, sequence, units=1)
        saved = read_save(save(sequence))
    first = memory_of(saved).link
    lie = refusal(llama, with_memory(saved, link=bytes(32)))
    require(lie, SaveLinkError, found="00" * 32, expected=first.hex())


Change = Callable[[SavedSequence], SavedSequence]


def _cut(part: str) -> Change:
    return lambda saved: with_memory(saved, **{part: getattr(saved.memory, part)[:-1]})


@pytest.mark.parametrize(
    ("change", "part", "found", "expected"),
    [
        (_cut("last_residual"), "residual", 287, 288),
        (_cut("tail"), "tail", None, None),
        (lambda saved: with_memory(saved, tail=b""), "tail", 0, None),
        (lambda saved: with_memory(saved, fixed=b"\0"), "fixed states", 1, 0),
        (lambda saved: with_memory(saved, page_size_bytes=0, pages=(b"",)), "page", 0, 25088),
    ],
)
def test_parts_are_as_large_as_the_tokens_they_are_for(
    llama: ReferencePlan, change: Change, part: str, found: int | None, expected: int | None
) -> None:
    error = refusal(llama, change(at_rest(llama)))
    require(error, SavePartSizeError, part=part)
    facts = error.facts()
    assert found is None or facts["found_bytes"] == found
    assert expected is None or facts["expected_bytes"] == expected


def test_a_chunk_has_digests_behind_the_last_layer(llama: ReferencePlan) -> None:
    early, late = mid_chunk(llama), mid_chunk(llama, units=2)
    assert (chunk_of(early).next_segment, len(chunk_of(early).digests)) == (2, 0)
    assert (chunk_of(late).next_segment, len(chunk_of(late).digests)) == (3, 96)
    more = refusal(llama, with_chunk(early, digests=bytes(96)))
    require(more, SavePartSizeError, part="digests", found_bytes=96, expected_bytes=0)
    less = refusal(llama, with_chunk(late, digests=b""))
    require(less, SavePartSizeError, part="digests", found_bytes=0, expected_bytes=96)


def test_numbers_that_no_sum_is_proven_for(llama: ReferencePlan) -> None:
    saved = at_rest(llama)
    memory = memory_of(saved)
    page, tail = bytes(memory.pages[0]), memory.tail
    for code in (32640, -32640, -32768):
        spoiled = patched(page, 0, struct.pack("<h", code))
        error = refusal(llama, with_memory(saved, pages=(spoiled,)))
        require(error, SaveCodeError, state=llama.program.states[0].name, found=code)
        error = refusal(llama, with_memory(saved, tail=patched(tail, 0, struct.pack("<h", code))))
        require(error, SaveCodeError, state=llama.program.states[0].name, found=code)
    error = refusal(llama, with_memory(saved, pages=(patched(page, -1, b"\x12"),)))
    require(error, SaveExponentError, state=llama.program.states[-1].name, found=18, largest=17)
    error = refusal(llama, with_memory(saved, tail=patched(tail, -1, b"\xff")))
    require(error, SaveExponentError, state=llama.program.states[-1].name, found=255)
    residual = patched(memory.last_residual, -4, LOWEST)
    error = refusal(llama, with_memory(saved, last_residual=residual))
    require(error, SaveValueError, part="residual", index=71)
    # Behind the last state's codes, two heads of three exponents.
    beside = patched(tail, -7, b"\1")
    require(refusal(llama, with_memory(saved, tail=beside)), SaveAbsentRowError)


def test_fixed_states_are_held_to_their_bounds(recurrent: ReferencePlan) -> None:
    saved = at_rest(recurrent)
    fixed = memory_of(saved).fixed
    assert len(fixed) == 2 * 80
    error = refusal(recurrent, with_memory(saved, fixed=patched(fixed, 84, LOWEST)))
    require(error, SaveValueError, part="fixed states", index=21)


@pytest.mark.parametrize("units", [1, 2])
def test_numbers_within_their_bounds_run(
    llama: ReferencePlan, recurrent: ReferencePlan, units: int
) -> None:
    """The largest of everything at once: nothing overflows, whatever comes out."""
    for plan in (llama, recurrent):
        saved = mid_chunk(plan, units)
        memory, chunk = memory_of(saved), chunk_of(saved)
        count = len(chunk.residual) // 4
        extreme = with_memory(
            saved,
            chunk=replace(chunk, residual=LARGEST * count),
            fixed=struct.pack("<i", -(1 << 31) + 1) * (len(memory.fixed) // 4),
            saturations=(1 << 62,) * 6,
        )
        sequence = restore(encode_save(extreme), plan.program, new_pool(plan), MODEL_ID, OPTIONS)
        with sequence:
            run(plan, sequence)
            assert sequence.position == 6


def chosen(saved: SavedSequence, answer_start: int = 60, **changes: Any) -> SavedSequence:
    choice = replace(Choice(decoder=Decoder.SAMPLING), **changes)
    return replace(saved, choice=saved_choice(choice), answer_start=answer_start)


@pytest.mark.parametrize(
    ("changes", "option", "expected"),
    [
        ({"top_k": 1 << 20}, "top_k", "an integer from 0 to 275"),
        ({"decoder": Decoder.DAMPED, "top_k": 0}, "top_k", "an integer from 1 to 275"),
        ({"bias": ((275, 1),)}, "a biased id", "an integer from 0 to 274"),
        ({"answer_start": LONGEST + 1}, "answer_start", "an integer from 0 to 200"),
        ({"decoder": Decoder.GREEDY, "answer_start": 0}, "choice", "none, as it goes without"),
    ],
)
def test_a_choice_that_cannot_be(
    llama: ReferencePlan, changes: dict[str, Any], option: str, expected: str
) -> None:
    error = refusal(llama, chosen(at_rest(llama), **changes), chooses=True)
    require(error, SaveChoiceError, option=option, expected=expected)


def test_a_sequence_without_room_for_scores(llama: ReferencePlan) -> None:
    saved = chosen(at_rest(llama))
    require(refusal(llama, saved), SaveScoresError)
    # Plain greedy compares exact logits, wherever the answer begins.
    plain = chosen(at_rest(llama), decoder=Decoder.GREEDY)
    with restore(encode_save(plain), llama.program, new_pool(llama), MODEL_ID, OPTIONS) as sequence:
        assert sequence.answer_start == 60


def test_a_refused_score_where_none_was_compared(llama: ReferencePlan) -> None:
    refused = with_memory(at_rest(llama), selected=SCORE_REFUSED)
    require(refusal(llama, refused), SaveSelectionError, found=SCORE_REFUSED)
    options = replace(OPTIONS, chooses=True)
    blob = encode_save(chosen(refused))
    with restore(blob, llama.program, new_pool(llama), MODEL_ID, options) as sequence:
        assert save(sequence) == blob
        with pytest.raises(NumericStepRefusedError):
            sequence.decode()


@pytest.mark.published_call(
    "sslm_seq_restore",
    refusal="SSLM_RESTORE_SCHEMA_MISMATCH",
    case="a state, or a count of tokens, that no answer of the schema has",
    here="SaveSchemaStateError",
)
def test_places_in_a_schema(llama: ReferencePlan) -> None:
    schema = bound(fields(), llama.program.vocab_size)
    with new_sequence(llama, new_pool(llama)) as sequence:
        sequence.bind(schema, answer_tokens=20)
        sequence.push([3] * 5)
        run(llama, sequence)
        sequence.decode()
        run(llama, sequence)
        saved = read_save(save(sequence))
    bound_schema = saved.schema
    assert bound_schema is not None
    assert saved.memory is not None

    def lie(**changes: Any) -> SslmError:
        schema_lie = replace(bound_schema, **changes)
        pool, blob = new_pool(llama), encode_save(replace(saved, schema=schema_lie))
        with pytest.raises(SslmError) as caught:
            restore(blob, llama.program, pool, MODEL_ID, OPTIONS, schema=schema)
        assert pool.held_page_count == 0
        return caught.value

    count = schema.state_count
    require(lie(state=count), SaveSchemaStateError, what="the state", found=count)
    require(lie(token_count=7), SaveSchemaStateError, what="the number of tokens", found=7)
    few = lie(answer_tokens=2)
    require(few, SaveSchemaStateError, what="the most tokens", found=2)
    # The token that was chosen goes on from another state.
    others = [state for state in range(count) if not bound_allows(schema, state, saved)]
    assert others
    for state in others:
        require(lie(state=state, answer_tokens=None), SaveSelectionError)


def bound_allows(schema: BoundSchema, state: int, saved: SavedSequence) -> bool:
    assert saved.memory is not None
    assert saved.memory.selected is not None
    only = schema.only_token(state)
    if only is not None:
        return only == saved.memory.selected
    return schema.step(state, saved.memory.selected) is not None
