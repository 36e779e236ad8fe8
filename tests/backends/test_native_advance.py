"""The C library steps through a program as the Python definition does."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from sslm import limits
from sslm.backends.native import NativeBackend
from sslm.backends.native.plan import NativePlan
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
from sslm.program.stepping import advance_by_runs
from sslm.runtime.kv_pool import KvPool
from sslm.runtime.sequence import Sequence
from sslm.runtime.sequence_options import SequenceOptions
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
    sizes = {"budget_units": budget_units, "row_count_max": row_count_max}
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
