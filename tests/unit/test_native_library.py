"""The library's handle, and what does not belong to any one op."""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.native_interface import HEADER, INTERFACE, interface_text

import sslm
from sslm import native_library
from sslm.errors.native import (
    NativeLibraryAbiError,
    NativeLibraryLoadError,
    NativeLibraryMissingError,
)
from sslm.limits import CONTEXT_TOKENS_MAX, HEAD_DIM_MAX, THREAD_COUNT_MAX
from sslm.native_library import (
    TIERS,
    available_tiers,
    best_tier,
    cpu_features,
    load_library,
    read_through,
)
from sslm.program.ops import SaturationSite
from sslm.program.spans import CHUNK_ROWS_MAX
from sslm.program.states import PAGE_TOKENS

# An editable installation keeps what it built in another folder than its sources.
LIBRARIES = [lib for folder in sslm.__path__ for lib in Path(folder).glob("_native.*")]
SIZE = re.compile("_(COUNT|MAX|TOKENS|ABI|MASKS|KINDS)$")
"""Of the names that count something, so that two of them may have the same number."""


def _numbers(text: str) -> dict[str, int]:
    """Return what constants a part of the header declares, without the prefix that all have."""
    found = re.findall(r"^#define SSLM_(\w+) (-?\w+)", text, re.MULTILINE)
    return {name: int(number, 0) for name, number in found}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder that stands in for the package's own; what it finds there is not remembered."""
    monkeypatch.setattr(sys.modules["sslm"], "__path__", [str(tmp_path)])
    load_library.cache_clear()
    yield tmp_path
    load_library.cache_clear()


def test_it_is_loaded_once() -> None:
    assert load_library() is load_library()


def test_constants_are_those_of_the_package() -> None:
    lib = load_library().lib
    assert lib.SSLM_PAGE_TOKENS == PAGE_TOKENS
    assert lib.SSLM_SPAN_ROWS_MAX == CHUNK_ROWS_MAX
    assert len(SaturationSite) == lib.SSLM_SITE_COUNT
    assert lib.SSLM_THREAD_COUNT_MAX == THREAD_COUNT_MAX
    assert len(TIERS) == lib.SSLM_TIER_COUNT
    assert HEAD_DIM_MAX == 256
    assert CONTEXT_TOKENS_MAX <= 1 << 30


def test_no_two_outcomes_of_a_call_share_a_number() -> None:
    text = HEADER.read_text("utf-8")
    outcomes = _numbers(text.split("/* What calls return. */")[1].split("\n\n")[0])
    assert list(outcomes.values()) == list(range(len(outcomes)))
    assert {name for name in _numbers(text) if name.startswith("BAD_")} <= outcomes.keys()


def test_no_two_names_of_a_paragraph_share_a_number() -> None:
    for paragraph in HEADER.read_text("utf-8").split("\n\n"):
        numbers = _numbers(paragraph)
        named = [number for name, number in numbers.items() if not SIZE.search(name)]
        assert sorted(named) == sorted(set(named)), numbers


def test_the_scalar_tier_runs_everywhere_and_the_best_is_the_last() -> None:
    tiers = available_tiers()
    assert tiers[0] == "scalar"
    assert best_tier() == tiers[-1]
    assert [tier for tier in TIERS if tier in tiers] == list(tiers)


@pytest.mark.parametrize(
    ("tier", "needed"),
    [
        ("avx2", {"avx2"}),
        ("avxvnni", {"avx2", "avxvnni"}),
        ("avx512vnni", {"avx2", "avx512", "avx512vnni"}),
        ("neon", {"dotprod"}),
        ("amx", {"avx2", "avx512", "avx512vnni", "amx"}),
    ],
)
def test_a_tier_needs_its_features(tier: str, needed: set[str]) -> None:
    has_features = needed <= {*cpu_features()}
    # The system may refuse tiles, which it does as long as an alternate stack is too small.
    assert (tier in available_tiers()) == has_features or (tier == "amx" and has_features)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists features in /proc/cpuinfo")
def test_features_are_those_that_the_system_lists() -> None:
    # An emulator shows the file of the machine that it runs on.
    if "SSLM_EMULATED_PYTHON" in os.environ:
        pytest.skip("the CPU is emulated")
    listed = {*Path("/proc/cpuinfo").read_text(encoding="utf-8").split()}
    spellings = {
        "avx2": {"avx2"},
        "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
        "avx512vnni": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"},
        "sha": {"sha_ni", "ssse3", "sse4_1"},
        "avxvnni": {"avx_vnni"},
        "dotprod": {"asimddp"},
        "amx": {"amx_tile", "amx_int8"},
    }
    expected = {name for name, words in spellings.items() if words <= listed}
    # As AArch64 spells it.
    expected |= {"sha"} if "sha2" in listed else set()
    assert {*cpu_features()} == expected


def test_unknown_tiers_are_not_available() -> None:
    lib = load_library().lib
    assert not lib.sslm_native_tier_available(-1)
    assert not lib.sslm_native_tier_available(len(TIERS))


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 119, 120, 127, 128, 129, 1000, 4096])
def test_sha256_is_the_standard_one(size: int, portable: bool) -> None:
    library = load_library()
    data = bytes(index * 7 % 251 for index in range(size))
    digest = library.ffi.new("uint8_t[32]")
    library.lib.sslm_native_sha256(data, size, portable, digest)
    assert bytes(digest) == hashlib.sha256(data).digest()


def test_numpy_is_not_imported() -> None:
    script = (
        "import sys; from sslm.backends.native import NativeBackend; NativeBackend(); "
        "print('numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "False"
    assert done.stderr == ""


def test_a_missing_library_is_named(elsewhere: Path) -> None:
    with pytest.raises(NativeLibraryMissingError, match="install the package") as error:
        load_library()
    assert error.value.folders == (str(elsewhere),)


def test_a_file_that_is_no_library_is_refused(elsewhere: Path) -> None:
    for suffix in (".so", ".dylib", ".dll"):
        (elsewhere / f"_native{suffix}").write_bytes(b"not a library")
    with pytest.raises(NativeLibraryLoadError, match="cannot be loaded"):
        load_library()


def test_another_interface_is_refused(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in LIBRARIES:
        (elsewhere / path.name).write_bytes(path.read_bytes())
    text = re.sub(r"(#define SSLM_NATIVE_ABI) \d+", r"\1 999", HEADER.read_text("utf-8"))
    names: dict[str, Any] = {}
    exec(interface_text(text), names)
    monkeypatch.setattr(native_library, "ffi", names["ffi"])
    with pytest.raises(NativeLibraryAbiError, match="expected 999"):
        load_library()


def test_the_interface_is_what_the_header_declares() -> None:
    """If not, ``python -m tools.native_interface`` writes it."""
    assert INTERFACE.read_text("utf-8") == interface_text(HEADER.read_text("utf-8"))


def test_no_parser_of_c_is_imported() -> None:
    script = (
        "import sys; from sslm.backends.native import NativeBackend; NativeBackend(); "
        "from sslm.memory import address_of; address_of(memoryview(b'a')); "
        "print('cffi' in sys.modules, 'pycparser' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    assert done.stdout.split() == ["False", "False"]


GARBAGE = """
import gc
from sslm.backends.native import NativeBackend
from sslm.errors.program import OpShapeError
from sslm.program.stepping import begin_chunk
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.sequences.options import SequenceOptions
from tests.toy_programs import moving_average_model

gc.disable()
for index in range(100):
    toy = moving_average_model(seed=1)
    plan = NativeBackend().compile(toy.program, toy.tensors, row_count_max=64, context_tokens=64)
    pool = KvPool(toy.program.state_layout, 1)
    sequence = Sequence(toy.program, pool, bytes(32), SequenceOptions(context_tokens=8))
    sequence.push([1])
    begin_chunk(toy.program, sequence.state.data)
    span = sequence.state.data.span()
    span.memory.digests = span.memory.digests[:1]
    try:
        plan.run(0, 1, [span])
    except OpShapeError as error:
        # The traceback holds the frames, their views, and the error itself.
        kept = error
    cycle = [list(toy.tensors.values()), sequence, span, plan, kept]
    cycle.append(cycle)
    del toy, plan, pool, sequence, span, kept, cycle
gc.collect()
print("alive")
"""


def test_garbage_with_views_in_it_does_not_crash_the_collector() -> None:
    """CPython 3.11 crashes where a cycle holds a memoryview beside cffi's hold on it."""
    done = subprocess.run(
        [sys.executable, "-c", GARBAGE], capture_output=True, text=True, check=False
    )
    assert done.stdout == "alive\n", done.stderr


@pytest.mark.parametrize("size_bytes", [0, 1, 7, 8, 255, 256, 257, 511, 512, 1301])
@pytest.mark.parametrize("skipped_bytes", [0, 1])
def test_reading_leaves_no_byte_out(size_bytes: int, skipped_bytes: int) -> None:
    data = memoryview(bytes(index * 37 % 251 for index in range(2000)))
    read = data[skipped_bytes : skipped_bytes + size_bytes]
    expected = 0
    for start in range(0, size_bytes, 8):
        expected ^= int.from_bytes(bytes(read[start : start + 8]), "little")
    assert read_through(read) == expected


FRAMES = """
import ctypes, os, sys
from sslm.backends.native import NativeBackend
from sslm.errors.program import TierUnavailableError

class Stack(ctypes.Structure):
    _fields_ = [("first", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

libc = ctypes.CDLL(None, use_errno=True)
libc.getauxval.restype = ctypes.c_ulong
frame_size = libc.getauxval(51)
kept = []

def set_up(size):
    kept.append(ctypes.create_string_buffer(size))
    stack = Stack(ctypes.addressof(kept[-1]), 0, size)
    return libc.sigaltstack(ctypes.byref(stack), None) == 0

def opens(tier):
    try:
        return NativeBackend(tier).tier
    except TierUnavailableError:
        return None

small, large = 6144, frame_size + 64
assert small < frame_size, frame_size
print(*[set_up({"small": small, "large": large}[word]) if word in ("small", "large")
        else opens(word) for word in sys.argv[1:]])
"""


@pytest.mark.skipif(
    sys.platform != "linux" or "amx" not in available_tiers(),
    reason="only the tier amx, on Linux, makes the frames of signals larger",
)
@pytest.mark.parametrize(
    ("steps", "outcomes"),
    [
        # Forcing another tier leaves the frames as they are.
        ("avx512vnni small avx512vnni", "avx512vnni True avx512vnni"),
        # A stack that is too small is in the way of the tier, and the best other one is taken.
        ("small auto amx", "True avx512vnni None"),
        # Once the tier is in use, no such stack can be set up.
        ("auto small large", "amx False True"),
        ("large auto", "True amx"),
    ],
)
def test_tiles_and_alternate_stacks(steps: str, outcomes: str) -> None:
    """What docs/api.md says of hosts that handle signals on stacks of their own."""
    source = str(Path(str(native_library.__file__)).parents[1])
    found = subprocess.run(
        [sys.executable, "-c", FRAMES, *steps.split()],
        capture_output=True,
        check=True,
        text=True,
        env=os.environ | {"PYTHONPATH": source},
    )
    assert found.stdout.split() == outcomes.split()
