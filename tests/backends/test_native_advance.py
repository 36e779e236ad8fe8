"""The C library steps through a program as the Python definition does."""

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from sslm import limits
from sslm.backends.native import NativeBackend
from sslm.backends.native.plan import NativePlan
from sslm.backends.reference.backend import ReferencePlan
from sslm.errors.native import RunCancelledError
from sslm.native_library import load_library
from sslm.program.choice import MICRO, Choice, Decoder
from sslm.program.choice_data import ChoiceStruct
from sslm.program.sequence_data import (
    ENDED,
    MOVED,
    NONE_ALLOWED,
    NOT_SCORED,
    SCORE_REFUSED,
    STAYED,
    SequenceData,
    SequenceStruct,
    SpanStruct,
)
from sslm.program.slice_time import SliceTime
from sslm.program.stepping import advance_by_runs
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from tests.eager_runs import at_once
from tests.sequences import run
from tests.tiny_models import MODEL_ID
from tests.toy_programs import CONTEXT_TOKENS, VOCAB_SIZE, moving_average_model

MODEL = moving_average_model()
PROMPT_LENGTHS = (1, 2, 70, 3, 64, 130, 5)
SAMPLING = Choice(decoder=Decoder.SAMPLING, temperature=2 * MICRO, top_k=9, seed=5)
CHUNK_TOKENS = (64, 1, 64, 2, 33, 64, 64)


@pytest.mark.parametrize(
    ("kind", "struct"),
    [
        ("sslm_span", SpanStruct),
        ("sslm_sequence", SequenceStruct),
        ("sslm_choice", ChoiceStruct),
    ],
)
def test_both_sides_agree_on_the_structs(kind: str, struct: Any) -> None:
    ffi = load_library().ffi
    names = [name for name, _ in struct._fields_]
    assert names == [name for name, _ in ffi.typeof(kind).fields]
    assert [getattr(struct, name).offset for name in names] == [
        ffi.offsetof(kind, name) for name in names
    ]
    # The size of the last field shows where the struct ends but for padding.
    assert [getattr(struct, name).size for name in names] == [
        ffi.sizeof(field.type) for _, field in ffi.typeof(kind).fields
    ]


def test_both_sides_agree_on_the_numbers() -> None:
    lib = load_library().lib
    assert (STAYED, MOVED, ENDED) == (lib.SSLM_STAYED, lib.SSLM_MOVED, lib.SSLM_ENDED)
    assert (NONE_ALLOWED, NOT_SCORED) == (lib.SSLM_NONE_ALLOWED, lib.SSLM_NOT_SCORED)
    assert SCORE_REFUSED == lib.SSLM_SCORE_REFUSED
    decoders = lib.SSLM_DECODER_GREEDY, lib.SSLM_DECODER_SAMPLING, lib.SSLM_DECODER_DAMPED
    assert tuple(Decoder) == decoders
    assert limits.DAMPING_ORDER_MAX == lib.SSLM_DAMPING_ORDER_MAX


@pytest.fixture(scope="module")
def plan() -> Iterator[NativePlan]:
    backend = NativeBackend("scalar")
    compiled = backend.compile(
        MODEL.program, MODEL.tensors, row_count_max=200, context_tokens=CONTEXT_TOKENS
    )
    yield compiled
    compiled.close()


def new_sequences(*, has_all_logits: bool) -> list[Sequence]:
    pool = KvPool(MODEL.program.state_layout, 100)
    sequences = []
    for length, chunk_tokens in zip(PROMPT_LENGTHS, CHUNK_TOKENS, strict=True):
        options = SequenceOptions(
            context_tokens=200,
            chunk_tokens=chunk_tokens,
            has_all_logits=has_all_logits,
            chooses=True,
        )
        sequence = Sequence(MODEL.program, pool, MODEL_ID, options)
        sequence.push([(11 * index + length) % VOCAB_SIZE for index in range(length)])
        sequences.append(sequence)
    return sequences


def numbers(data: SequenceData) -> dict[str, object]:
    """Everything in a struct but where its buffers lie; and what lies there."""
    span, struct = data.struct.span, data.struct
    found = {name: getattr(span, name) for name, _ in SpanStruct._fields_[-6:]}
    found |= {name: getattr(struct, name) for name, _ in SequenceStruct._fields_[2:-1]}
    memory = data.memory
    states = memory.residual, memory.fixed, memory.saturations, memory.digests, data.selected
    return found | {
        "link": bytes(struct.link),
        # Either side may go on with a chunk that the other has begun.
        "chunk_offset": (span.token_ids or 0) - struct.token_ids,
        "states": [bytes(buffer) for buffer in states],
        "logits": bytes(data.logits),
        "exponents": bytes(data.logit_exponents),
    }


@pytest.mark.parametrize("has_all_logits", [False, True])
@pytest.mark.parametrize("row_count_max", [64, 71, 200])
@pytest.mark.parametrize("budget_units", [1, 2, 3, 1 << 30])
def test_every_slice_leaves_the_same_numbers(
    plan: NativePlan, budget_units: int, row_count_max: int, *, has_all_logits: bool
) -> None:
    native = new_sequences(has_all_logits=has_all_logits)
    defined = new_sequences(has_all_logits=has_all_logits)
    sizes: dict[str, Any] = {"budget_units": budget_units, "row_count_max": row_count_max}
    slices = again = 0
    while any(sequence.has_work for sequence in native) or again < 2:
        if not any(sequence.has_work for sequence in native):
            # Then most of them choose otherwise, some beside others that take in more.
            again += 1
            for index, pair in enumerate(zip(native, defined, strict=True)):
                for one in pair:
                    one.choose(SAMPLING if again == 1 else None)
                    if index % 3 == again:
                        one.push([again] * 3)
        pending = [index for index, one in enumerate(native) if one.has_work]
        # Not all of them every time, so that they come to stand at different segments.
        chosen = [index for index in pending if (index + slices) % 3] or pending
        plan.advance([native[index].state.data for index in chosen], **sizes)
        advance_by_runs(
            MODEL.program,
            at_once(plan.run),
            [defined[index].state.data for index in chosen],
            **sizes,
        )
        for one, other in zip(native, defined, strict=True):
            assert numbers(one.state.data) == numbers(other.state.data)
        slices += 1
    assert slices > len(PROMPT_LENGTHS) if budget_units == 1 else slices > 2


@pytest.mark.parametrize("is_rescoring", [False, True])
def test_what_a_failed_run_leaves_is_the_same_too(plan: NativePlan, *, is_rescoring: bool) -> None:
    cancel = memoryview(bytearray(b"\1\0\0\0"))
    native = new_sequences(has_all_logits=False)
    defined = new_sequences(has_all_logits=False)
    for one in (*native, *defined) if is_rescoring else ():
        run(plan, one)
        one.choose(SAMPLING)
    with pytest.raises(RunCancelledError):
        plan.advance(
            [one.state.data for one in native], budget_units=2, row_count_max=200, cancel=cancel
        )
    with pytest.raises(RunCancelledError):
        advance_by_runs(
            MODEL.program,
            at_once(partial(plan.run, cancel=cancel)),
            [one.state.data for one in defined],
            budget_units=2,
            row_count_max=200,
        )
    for one, other in zip(native, defined, strict=True):
        assert numbers(one.state.data) == numbers(other.state.data)
        assert one.state.data.struct.progress == STAYED


# Time.


def slice_time(left_ns: int, *, unit_ns: int = 0) -> SliceTime:
    """Return what ends a slice in so many nanoseconds, by a clock that stands still."""
    return SliceTime(lambda: 0, lambda: 0, deadline_ns=left_ns, unit_ns=unit_ns)


PAST = -1
FOREVER = 1 << 60


def positions(sequences: list[Sequence]) -> list[int]:
    """Return which segment each sequence runs next, 0 of those without a chunk."""
    return [sequence.state.stage for sequence in sequences]


def one_sequence(length: int = 3) -> Sequence:
    pool = KvPool(MODEL.program.state_layout, 4)
    sequence = Sequence(MODEL.program, pool, MODEL_ID, SequenceOptions(context_tokens=200))
    sequence.push([(11 * index) % VOCAB_SIZE for index in range(length)])
    return sequence


@pytest.mark.parametrize("unit_ns", [0, 1000])
def test_where_time_is_over_one_unit_is_run(plan: NativePlan, unit_ns: int) -> None:
    """Embedding and first layer, the other layer, a block, the other block and the selection."""
    sequence = one_sequence()
    reached, longest = [], []
    while sequence.pending_count:
        time = slice_time(PAST, unit_ns=unit_ns)
        plan.advance([sequence.state.data], budget_units=1 << 30, row_count_max=200, time=time)
        reached.append(sequence.state.data.struct.next_segment)
        longest.append((time.layer_ns > 0, time.block_ns > 0))
    assert reached == [2, 3, 4, 6]
    assert longest == [(True, False)] * 2 + [(False, True)] * 2
    assert sequence.selected is not None


def test_where_time_is_left_all_is_run(plan: NativePlan) -> None:
    sequence = one_sequence()
    time = slice_time(FOREVER)
    plan.advance([sequence.state.data], budget_units=1 << 30, row_count_max=200, time=time)
    assert sequence.pending_count == 0
    assert min(time.layer_ns, time.block_ns) > 0


def test_a_unit_that_may_take_longer_is_not_begun(plan: NativePlan) -> None:
    sequence = one_sequence()
    time = slice_time(FOREVER, unit_ns=2 * FOREVER)
    plan.advance([sequence.state.data], budget_units=1 << 30, row_count_max=200, time=time)
    assert positions([sequence]) == [2]


def test_units_bound_a_slice_with_time_too(plan: NativePlan) -> None:
    sequence = one_sequence()
    for reached in (2, 3):
        time = slice_time(FOREVER)
        plan.advance([sequence.state.data], budget_units=1, row_count_max=200, time=time)
        assert positions([sequence]) == [reached]


def test_without_time_nothing_is_measured(plan: NativePlan) -> None:
    call = load_library().ffi.new("sslm_run *")
    call.unit_ns = 5
    assert load_library().lib.sslm_native_plan_run(plan._usable_handle(), call) == 0
    assert (call.unit_ns, call.layer_ns, call.block_ns) == (5, 0, 0)


def test_who_has_no_turn_stays_and_a_chunk_that_was_begun_is_put_back(plan: NativePlan) -> None:
    begun, fresh, other = one_sequence(), one_sequence(5), one_sequence(2)
    for one in (begun, other):
        plan.advance([one.state.data], budget_units=1, row_count_max=200)
    plan.advance([other.state.data], budget_units=1, row_count_max=200)
    together = [begun, fresh, other]
    before = [numbers(one.state.data) for one in together]
    time = slice_time(PAST)
    plan.advance([one.state.data for one in together], budget_units=9, row_count_max=200, time=time)
    progress = [one.state.data.struct.progress for one in together]
    # The lowest stage ran, by one unit.
    assert progress == [STAYED, MOVED, STAYED]
    assert positions(together) == [2, 2, 3]
    for index in (0, 2):
        assert numbers(together[index].state.data) == before[index] | {"progress": STAYED}
    plan.advance(
        [one.state.data for one in together],
        budget_units=9,
        row_count_max=64,
        time=slice_time(PAST),
    )
    assert positions(together) == [3, 3, 3]


def test_rows_beyond_a_run_are_put_back_if_time_is_over(plan: NativePlan) -> None:
    first, second = one_sequence(40), one_sequence(30)
    before = numbers(second.state.data)
    plan.advance(
        [first.state.data, second.state.data],
        budget_units=9,
        row_count_max=64,
        time=slice_time(PAST),
    )
    assert positions([first, second]) == [2, 0]
    # Where its chunk would have lain is all that is left of it.
    changed = {"chunk_offset", "row_count", "first_position", "first_logits_row", "is_prefill"}
    after = numbers(second.state.data)
    assert {name for name, value in after.items() if value != before[name]} <= {
        *changed,
        "stop_segment",
    }
    assert (second.pending_count, second.state.data.in_flight_count) == (30, 0)


@pytest.mark.parametrize("has_all_logits", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_no_deadline_changes_a_result(plan: NativePlan, seed: int, *, has_all_logits: bool) -> None:
    chance = random.Random(seed)
    timed = new_sequences(has_all_logits=has_all_logits)
    whole = new_sequences(has_all_logits=has_all_logits)
    for one in whole:
        while one.pending_count:
            plan.advance([one.state.data], budget_units=1 << 30, row_count_max=200)
    while pending := [one for one in timed if one.pending_count]:
        chosen = chance.sample(pending, chance.randint(1, len(pending)))
        plan.advance(
            [one.state.data for one in chosen],
            budget_units=chance.choice([1, 3, 1 << 30]),
            row_count_max=chance.choice([64, 200]),
            time=slice_time(chance.choice([PAST, 10_000, 100_000, FOREVER])),
        )
    for one, other in zip(timed, whole, strict=True):
        found, expected = numbers(one.state.data), numbers(other.state.data)
        for name in ("progress", "chunk_offset"):
            found.pop(name), expected.pop(name)
        assert found == expected


@pytest.mark.parametrize("deadline_ns", [PAST, FOREVER])
def test_both_sides_end_at_the_same_unit(plan: NativePlan, deadline_ns: int) -> None:
    """Where the clock decides nothing, the definition and C go as far."""
    reference = ReferencePlan(MODEL.program, MODEL.tensors)
    native = new_sequences(has_all_logits=False)
    defined = new_sequences(has_all_logits=False)
    while pending := [index for index, one in enumerate(native) if one.pending_count]:
        for side, sequences in ((plan, native), (reference, defined)):
            side.advance(
                [sequences[index].state.data for index in pending],
                budget_units=1 << 30,
                row_count_max=64,
                time=slice_time(deadline_ns),
            )
        assert positions(native) == positions(defined)
    for one, other in zip(native, defined, strict=True):
        assert one.digest == other.digest
