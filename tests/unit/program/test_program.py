"""A program is refused unless its segments, buffers and states fit together."""

from dataclasses import replace

import pytest

from sslm.errors.program import OpShapeError
from sslm.program import ops
from sslm.program.buffers import Buffer, BufferKind
from sslm.program.program import Program, Segment, head_blocks
from tests.toy_programs import HIDDEN_SIZE, moving_average_model

PROGRAM = moving_average_model().program
EMBED, LAYER_0, LAYER_1, HEAD_0, HEAD_1, SELECT = PROGRAM.segments


def test_what_a_program_says_of_itself() -> None:
    assert PROGRAM.layer_count == 2
    assert PROGRAM.first_head_index == 3
    assert [segment.name for segment in PROGRAM.segments] == [
        "embed",
        "layer 0",
        "layer 1",
        "head",
        "head",
        "select",
    ]
    assert {buffer.name for buffer in PROGRAM.buffers()} == {
        "residual",
        "averaged",
        "normed",
        "codes",
        "logits",
        "selected",
    }
    assert EMBED.tensor_names() == ["embed", "embed.mantissas"]
    assert HEAD_1.tensor_names() == ["final_norm", "head", "head.mantissas"]


@pytest.mark.parametrize(
    "segments",
    [
        (LAYER_0, EMBED, LAYER_1, HEAD_0, HEAD_1, SELECT),
        (EMBED, HEAD_0, LAYER_0, LAYER_1, HEAD_1, SELECT),
        (EMBED, LAYER_0, LAYER_1, SELECT, HEAD_0, HEAD_1),
        (LAYER_0, LAYER_1, HEAD_0, HEAD_1, SELECT),
        (EMBED, EMBED, LAYER_0, LAYER_1, HEAD_0, HEAD_1, SELECT),
        (EMBED, LAYER_1, LAYER_0, HEAD_0, HEAD_1, SELECT),
        (EMBED, LAYER_0, LAYER_0, HEAD_0, HEAD_1, SELECT),
        (EMBED, LAYER_0, LAYER_1, HEAD_0, HEAD_1, SELECT, SELECT),
        (),
    ],
    ids=[
        "layer first",
        "head before layers",
        "select before heads",
        "no embed",
        "two embeds",
        "layers swapped",
        "layer repeated",
        "two selects",
        "none",
    ],
)
def test_disordered_segments_are_refused(segments: tuple[Segment, ...]) -> None:
    with pytest.raises(OpShapeError) as caught:
        replace(PROGRAM, segments=segments)
    assert caught.value.op == "Program"


def _with_layer_op(op: ops.Op) -> Program:
    layer = replace(LAYER_1, ops=(*LAYER_1.ops, op))
    return replace(PROGRAM, segments=(EMBED, LAYER_0, layer, HEAD_0, HEAD_1, SELECT))


def _quantize(source: Buffer, name: str, width: int) -> ops.Quantize:
    out = Buffer(
        name=name,
        kind=BufferKind.CODES,
        width=width,
        fraction_bits=source.fraction_bits,
        exponent_max=17,
    )
    return ops.Quantize(source=source, out=out)


def test_buffers_of_one_name_have_one_shape() -> None:
    residual = PROGRAM.residual
    _with_layer_op(_quantize(residual, "codes", HIDDEN_SIZE))
    for name in ("residual", "averaged", "logits"):
        with pytest.raises(OpShapeError, match=f"buffer {name}"):
            _with_layer_op(_quantize(residual, name, HIDDEN_SIZE))
    narrow = Buffer(name="narrow", kind=BufferKind.INT32, width=4)
    with pytest.raises(OpShapeError, match="buffer codes"):
        _with_layer_op(_quantize(narrow, "codes", 4))


def test_fraction_bits_of_a_name_may_differ() -> None:
    other = replace(PROGRAM.residual, name="averaged", fraction_bits=3)
    _with_layer_op(_quantize(other, "codes", HIDDEN_SIZE))


def test_the_largest_exponent_of_a_name_is_one() -> None:
    """A matrix proves its sums from the exponent of its own record of the buffer."""
    width = HIDDEN_SIZE
    gate = Buffer(name="averaged", kind=BufferKind.INT32, width=width, fraction_bits=3)
    gated = Buffer(
        name="codes", kind=BufferKind.CODES, width=width, fraction_bits=6, exponent_max=48
    )
    with pytest.raises(OpShapeError, match=r"buffer codes .* to 17, expected .* to 48"):
        _with_layer_op(ops.GatedActivation(gate=gate, up=gate, out=gated))


def test_the_residual_is_what_the_program_says() -> None:
    with pytest.raises(OpShapeError, match="buffer residual"):
        replace(PROGRAM, residual=replace(PROGRAM.residual, width=HIDDEN_SIZE + 1))


def test_states_are_declared_once_and_written_where_they_say() -> None:
    first, second = PROGRAM.states
    for states in (
        (first, replace(second, name=first.name)),
        (first, replace(second, segment_index=1)),
        (first,),
    ):
        with pytest.raises(OpShapeError):
            replace(PROGRAM, states=states)


def test_a_fixed_state_is_written_by_one_op() -> None:
    average, add = LAYER_1.ops
    for layer_ops, count in (((add,), 0), ((average, average, add), 2)):
        layer = replace(LAYER_1, ops=layer_ops)
        with pytest.raises(OpShapeError, match=f"written by {count} ops, expected written by one"):
            replace(PROGRAM, segments=(EMBED, LAYER_0, layer, HEAD_0, HEAD_1, SELECT))


def test_the_vocabulary_is_that_of_embedding_and_head() -> None:
    for vocab_size in (PROGRAM.vocab_size - 1, PROGRAM.vocab_size + 1):
        with pytest.raises(OpShapeError, match="embedding"):
            replace(PROGRAM, vocab_size=vocab_size)
        changed = replace(EMBED, ops=())
        with pytest.raises(OpShapeError, match="logits"):
            replace(PROGRAM, vocab_size=vocab_size, segments=(changed, *PROGRAM.segments[1:]))


def test_rotary_tables_reach_to_the_last_position() -> None:
    def with_positions(count: int) -> Program:
        return _with_layer_op(
            ops.Rope(
                buffer=PROGRAM.residual,
                head_dim=4,
                rotary_dim=2,
                pairing="half",
                cos="cos",
                sin="sin",
                position_count=count,
            )
        )

    with_positions(PROGRAM.max_position_embeddings)
    with pytest.raises(OpShapeError, match="rotary positions"):
        with_positions(PROGRAM.max_position_embeddings - 1)


@pytest.mark.parametrize(
    ("vocab_size", "hidden_size", "blocks"),
    [
        (1, 64, [(0, 1)]),
        (49152, 576, [(0, 7280), (7280, 14560), (14560, 21840), (21840, 29120), (29120, 36400),
                      (36400, 43680), (43680, 49152)]),
        (33, 1 << 22, [(0, 16), (16, 32), (32, 33)]),
        (64, 1 << 17, [(0, 32), (32, 64)]),
    ],
)  # fmt: skip
def test_head_blocks(vocab_size: int, hidden_size: int, blocks: list[tuple[int, int]]) -> None:
    assert head_blocks(vocab_size, hidden_size) == blocks
