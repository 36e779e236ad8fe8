"""What the proofs of all sums assume of saved rows.

Whoever changes a save can seal it again, so its hash says nothing about what the numbers in it are.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

from sslm.errors.saves import SaveAbsentRowError, SaveCodeError, SaveExponentError
from sslm.limits import CODE_MAX
from sslm.native_library import borrow, load_library
from sslm.program.buffers import EXPONENT_MAX_INT32
from sslm.program.states import PAGE_TOKENS, State, StateLayout
from sslm.runtime.sequences.page_rows import Run, absent_halves_are_zero, packed_runs

_EXPONENT_MAX: Final = EXPONENT_MAX_INT32
"""Of every state that grows: append alone writes them, from rows of int32 alone."""


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
