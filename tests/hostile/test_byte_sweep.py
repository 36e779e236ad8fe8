"""A part of ``benchmarks.hostile_bytes``, and that its sweep notices what it is there to notice."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sslm.errors.reading import FieldError
from sslm.errors.status import Status
from tests.gguf_files import gguf_bytes
from tests.hostile import byte_sweep
from tests.hostile.byte_sweep import (
    MEMORY_GROWTH_BYTES_MAX,
    Case,
    Refusal,
    Sweep,
    cuts,
    flips,
    section_cuts,
    sweep,
)
from tests.hostile.small_models import (
    byte_level_metadata,
    model_tensors,
    runnable_artifact,
    sentencepiece_metadata,
)
from tests.hostile.trips import artifact_trip, gguf_trip
from tests.unit.artifact.tiny_artifact import reseal

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measures with proc(5)")

STEP = 67


def byte_level() -> bytes:
    return gguf_bytes(byte_level_metadata(), model_tensors(260))


def sentencepiece() -> bytes:
    tensors = model_tensors(263, is_tied=False, has_factors=True)
    return gguf_bytes(sentencepiece_metadata(), tensors)


@pytest.mark.parametrize("make", [byte_level, sentencepiece])
def test_a_spoiled_gguf_model_is_refused_by_name_or_read_as_it_is(
    make: Callable[[], bytes], tmp_path: Path
) -> None:
    sound = make()
    cut = sweep(cuts(sound, step=STEP), gguf_trip(sound, tmp_path), sound=sound)
    flipped = sweep(flips(sound, step=STEP), gguf_trip(sound, tmp_path), sound=sound)
    assert (cut.failures, flipped.failures) == ([], [])
    assert cut.cases == flipped.cases == len(range(0, len(sound), STEP))
    assert flipped.loaded > flipped.cases // 8
    assert len(flipped.refusals) > 8


def test_a_spoiled_artifact_is_refused_by_name_or_read_run_and_verified_as_it_is(
    tmp_path: Path,
) -> None:
    sound = runnable_artifact(tmp_path)
    trip = artifact_trip(sound, tmp_path)
    plain = sweep(flips(sound, step=STEP), trip, sound=sound)
    plain.add(sweep(cuts(sound, step=STEP), trip, sound=sound))
    assert (plain.loaded, plain.failures) == (0, [])
    sealed = sweep(flips(sound, step=STEP, first=64, seal=reseal), trip, sound=sound)
    sealed.add(sweep(section_cuts(sound, step=STEP), trip, sound=sound))
    assert sealed.failures == []
    assert 0 < sealed.loaded < sealed.cases // 4


# The sweep itself.


def outcome(trip: Callable[[int], str | None]) -> Sweep:
    """Sweep three cases, on the second of which *trip* does what is given."""
    cases = [Case(f"case {index}", index, lambda: b"") for index in range(3)]
    return sweep(cases, lambda _, at: trip(at) if at == 1 else None, sound=b"")


def test_what_is_wrong_with_a_load_is_a_failure() -> None:
    found = outcome(lambda _: "it is another")
    assert (found.cases, found.loaded, found.failures) == (3, 2, ["case 1: it is another"])


def test_an_error_without_a_name_is_a_failure() -> None:
    def fail(_: int) -> None:
        raise KeyError("x")

    assert outcome(fail).failures == ["case 1: KeyError: 'x'"]


def test_a_named_error_is_counted_with_who_raised_it() -> None:
    def fail(_: int) -> None:
        raise FieldError(Status.BAD_UTF8, field="x", offset_bytes=0, reason="y")

    found = outcome(fail)
    assert (found.failures, found.refusals) == ([], {Refusal("?", "BadUtf8Error"): 1})


def test_a_refusal_of_the_untouched_file_is_a_failure() -> None:
    """What a child refuses for its own sake would be counted as a refusal of each case."""
    home = os.getpid()

    def refuse_elsewhere(_: bytes, at: int) -> None:
        del at
        if os.getpid() != home:
            raise FieldError(Status.BAD_UTF8, field="x", offset_bytes=0, reason="y")

    found = sweep([Case("case 0", 0, lambda: b"")], refuse_elsewhere, sound=b"")
    assert (found.cases, found.loaded) == (1, 0)
    assert [one.partition(" FieldError")[0] for one in found.failures] == ["the file as it was:"]


def test_a_process_that_dies_is_a_failure_of_its_case() -> None:
    found = outcome(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    assert (found.cases, found.loaded) == (3, 2)
    assert found.failures == ["case 1: the process died (SIGKILL)"]


def test_memory_beyond_the_bound_is_a_failure() -> None:
    # More than earlier tests can have left to be taken again.
    found = outcome(lambda _: bytes(MEMORY_GROWTH_BYTES_MAX + (4 << 30)).decode()[:0] or None)
    assert found.failures == ["case 1: MemoryError: "]


def test_work_beyond_the_bound_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_sweep, "CALL_COUNT_MAX", 1000)
    found = outcome(lambda _: None if [abs(n) for n in range(1000)] else "")
    assert [one.partition(" took")[0] for one in found.failures] == ["case 1:"]
    assert 1000 < found.calls < 1100
