"""Where states lie, byte by byte."""

import pytest

from sslm.errors.program import AccumulatorBoundError, OpShapeError
from sslm.program.states import State, StateKind, lay_out_states


def state(name: str, kind: StateKind, head_count: int, head_dim: int) -> State:
    return State(
        name=name,
        kind=kind,
        segment_index=1,
        head_count=head_count,
        head_dim=head_dim,
        fraction_bits=0,
    )


def test_a_paged_state_takes_its_codes_then_its_exponents() -> None:
    keys = state("k", StateKind.PAGED_KEYS, 3, 24)
    assert keys.codes_size_bytes == 2 * 64 * 3 * 24
    assert keys.size_bytes == 2 * 64 * 3 * 24 + 64 * 3
    assert keys.is_paged


def test_a_fixed_state_is_padded_to_64_bytes() -> None:
    fixed = state("f", StateKind.FIXED, 1, 20)
    assert (fixed.codes_size_bytes, fixed.size_bytes) == (80, 128)
    assert not fixed.is_paged


PAGED = (StateKind.PAGED_KEYS, StateKind.PAGED_VALUES)


@pytest.mark.parametrize(
    ("kind", "highest"), [*((kind, 256) for kind in PAGED), (StateKind.FIXED, 65536)]
)
def test_a_head_has_no_more_values_than_kernels_keep_of_one(kind: StateKind, highest: int) -> None:
    for head_dim in (1, highest):
        state("s", kind, 1, head_dim)
    for head_dim in (-1, 0, highest + 1, 4096 * highest):
        with pytest.raises(AccumulatorBoundError) as caught:
            state("s", kind, 1, head_dim)
        assert (caught.value.found, caught.value.highest) == (head_dim, highest)


def test_heads_that_a_state_cannot_have_are_refused() -> None:
    for kind, head_count in [*((kind, 0) for kind in PAGED), (StateKind.FIXED, 2)]:
        with pytest.raises(OpShapeError, match="head_count"):
            state("s", kind, head_count, 4)


def test_paged_and_fixed_states_have_places_of_their_own() -> None:
    states = (
        state("k", StateKind.PAGED_KEYS, 1, 1),
        state("f", StateKind.FIXED, 1, 16),
        state("v", StateKind.PAGED_VALUES, 1, 1),
        state("g", StateKind.FIXED, 1, 17),
    )
    layout = lay_out_states(states)
    assert layout.offsets_bytes == (0, 0, 192, 64)
    assert (layout.page_size_bytes, layout.fixed_size_bytes) == (384, 64 + 128)


def test_no_states_take_nothing() -> None:
    layout = lay_out_states(())
    assert (layout.page_size_bytes, layout.fixed_size_bytes) == (0, 0)
