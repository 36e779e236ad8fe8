"""Saved rows within their bounds pass, and one number beyond them is found wherever it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm.errors.saves import SaveAbsentRowError, SaveCodeError, SaveExponentError
from sslm.native_library import borrow, load_library
from sslm.program.states import State, StateKind, lay_out_states
from sslm.runtime.saves.checks import require_bounded_pages, require_bounded_rows
from sslm.runtime.sequences.page_rows import packed_runs, packed_size_bytes


def _state(name: str, kind: StateKind, head_dim: int) -> State:
    return State(
        name=name, kind=kind, segment_index=1, head_count=2, head_dim=head_dim, fraction_bits=0
    )


LAYOUT = lay_out_states(
    (
        _state("keys", StateKind.PAGED_KEYS, 3),
        _state("values", StateKind.PAGED_VALUES, 5),
    )
)


def _within(codes: bytes, exponents: bytes) -> bool:
    library = load_library()
    code_start, code_view = borrow(library.ffi, "uint8_t *", codes)
    start, view = borrow(library.ffi, "uint8_t *", exponents)
    with code_view, view:
        code_answer = library.lib.sslm_native_codes_within(code_start, len(codes) // 2, 32639)
        answer = library.lib.sslm_native_exponents_within(start, len(exponents), 17)
    return bool(code_answer) and bool(answer)


@given(
    codes=st.lists(st.sampled_from([0, 1, -1, 32639, -32639, 32640, -32640, 32767, -32768])),
    exponents=st.lists(st.sampled_from([0, 1, 16, 17, 18, 127, 128, 255])),
)
def test_the_library_finds_what_numpy_finds(codes: list[int], exponents: list[int]) -> None:
    expected = all(abs(code) <= 32639 for code in codes) and max(exponents, default=0) <= 17
    assert _within(np.array(codes, "<i2").tobytes(), bytes(exponents)) == expected


@pytest.mark.parametrize("at", range(0, 131))
def test_one_code_is_found_at_every_place_and_address(at: int) -> None:
    """Whatever of a run fills whole vectors, and wherever it begins."""
    library = load_library()
    for shift in (0, 1, 2):
        block = np.zeros(2 * 131 + shift, np.uint8)
        block[2 * at + shift :][:2] = np.frombuffer(np.array([-32640], "<i2").tobytes(), np.uint8)
        start, view = borrow(library.ffi, "uint8_t *", block.data[shift:])
        with view:
            assert not library.lib.sslm_native_codes_within(start, 131, 32639)
            assert library.lib.sslm_native_codes_within(start, at, 32639)


def _sound(first: int, stops: list[int]) -> bytearray:
    """Rows of largest codes and exponents, zero where a position does not exist."""
    packed = bytearray()
    for run in packed_runs(LAYOUT, first, stops):
        codes = np.full(run.code_count, 32639, "<i2")
        codes[::3] = -32639
        is_paired = run.state.kind is StateKind.PAGED_VALUES
        if is_paired and run.exponent_count // 2 % 2:
            codes.reshape(2, -1, run.state.head_dim, 2)[:, -1, :, 1] = 0
        packed += codes.tobytes() + bytes([17]) * run.exponent_count
    assert len(packed) == packed_size_bytes(LAYOUT, first, stops)
    return packed


@pytest.mark.parametrize("stops", [[64, 64], [65, 64], [67, 129], [192, 63]])
def test_one_number_beyond_its_bound_is_found_in_every_row(stops: list[int]) -> None:
    packed = _sound(0, stops)
    require_bounded_rows(LAYOUT, 0, stops, memoryview(packed))
    at = 0
    for run in packed_runs(LAYOUT, 0, stops):
        exponents = at + 2 * run.code_count
        # Beyond the largest code and the least: the high byte is 127, then the low one below 128.
        for offset in (at + 1, exponents - 4 * run.state.head_dim + 1):
            changed = bytearray(packed)
            changed[offset - 1 : offset + 1] = (32640).to_bytes(2, "little")
            with pytest.raises(SaveCodeError) as code_error:
                require_bounded_rows(LAYOUT, 0, stops, memoryview(changed))
            facts = code_error.value.facts()
            assert facts == {"state": run.state.name, "found": 32640, "largest": 32639}
        at = exponents + run.exponent_count
        for offset in (exponents, at - 1):
            changed = bytearray(packed)
            changed[offset] = 18
            with pytest.raises(SaveExponentError) as error:
                require_bounded_rows(LAYOUT, 0, stops, memoryview(changed))
            assert error.value.facts() == {"state": run.state.name, "found": 18, "largest": 17}


def test_pages_are_held_to_the_same_bounds() -> None:
    page = bytes(_sound(0, [64, 64]))
    assert len(page) == LAYOUT.page_size_bytes
    require_bounded_pages(LAYOUT, [page, page])
    spoiled = bytearray(page)
    spoiled[-1] = 255
    with pytest.raises(SaveExponentError):
        require_bounded_pages(LAYOUT, [page, bytes(spoiled)])
    spoiled = bytearray(page)
    spoiled[0:2] = b"\0\x80"
    with pytest.raises(SaveCodeError) as caught:
        require_bounded_pages(LAYOUT, [bytes(spoiled), page])
    assert caught.value.found == -32768


def test_what_does_not_exist_is_zero() -> None:
    stops = [3, 3]
    packed = _sound(0, stops)
    require_bounded_rows(LAYOUT, 0, stops, memoryview(packed))
    # Keys of two heads, then two pairs of five values of the first head of values.
    odd_half = 2 * (3 * 3 * 2 + 3) + 20 + 2
    assert packed[odd_half : odd_half + 2] == b"\0\0"
    packed[odd_half] = 1
    with pytest.raises(SaveAbsentRowError):
        require_bounded_rows(LAYOUT, 0, stops, memoryview(packed))
