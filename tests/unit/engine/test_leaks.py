"""Opening and closing again and again leaves no thread, file, map or memory behind."""

import asyncio
import gc
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sslm.engine.model import Model
from sslm.errors.base import SslmError
from sslm.program.parallel_for import ParallelFor
from tests.converted import stories_artifact
from tests.held_runs import held as held_slices

PROMPT = "Once upon a time"
ROUNDS = 100

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def held() -> dict[str, int]:
    """Count what this process holds of the kernel; the process itself is not counted."""
    gc.collect()
    return {
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "maps of models": Path("/proc/self/maps").read_text().count(".sslm"),
    }


def is_soon(condition: Callable[[], bool]) -> bool:
    """Tell whether something becomes true, given time for threads that end to end."""
    for _ in range(4000):
        gc.collect()
        if condition():
            return True
        time.sleep(0.05)
    return False


def resident_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def plain(model: Model) -> None:
    model.generate(PROMPT, max_tokens=2)


def refused(model: Model) -> None:
    for prompt in ([1] * 600, [], [1, 600]):
        with pytest.raises(SslmError):
            model.generate(prompt)
    with pytest.raises(SslmError):
        model.generate([1], max_tokens=0)


def left_early(model: Model) -> None:
    stream = model.stream(PROMPT, max_tokens=9)
    next(stream)
    with model.stream(PROMPT) as other:
        next(other)


def too_late(model: Model) -> None:
    with pytest.raises(SslmError):
        model.generate([1] * 200, deadline_s=0)
    with held_slices(model), pytest.raises(SslmError):
        model.generate([1] * 300, deadline_s=0.001, max_tokens=200)


def cancelled(model: Model) -> None:
    async def main() -> None:
        with held_slices(model) as hold:
            task = asyncio.create_task(model.agenerate([1] * 200, max_tokens=100))
            await hold.reached()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async for _ in model.astream(PROMPT, max_tokens=9):
            break

    asyncio.run(main())


USES: tuple[Callable[[Model], None], ...] = (plain, refused, left_early, too_late, cancelled)


SHARING: tuple[dict[str, Any], ...] = (
    {"threads": 1},
    {"threads": 2},
    {"parallel_for": ParallelFor(lambda task, count: None, max_tasks=4)},
)


REFUSALS: tuple[tuple[Path | None, dict[str, object]], ...] = (
    (None, {}),
    (stories_artifact(), {"context_tokens": 0}),
    (stories_artifact(), {"memory_bytes": 1000}),
    (stories_artifact(), {"sha256": "00" * 32}),
)


@on_linux
def test_nothing_is_left_behind(tmp_path: Path) -> None:
    broken = tmp_path / "broken.sslm"
    broken.write_bytes(stories_artifact().read_bytes()[:-100])

    def cycle(index: int) -> None:
        use = USES[index % len(USES)]
        is_mapped, sharing = bool(index // 5 % 2), SHARING[index // 10 % len(SHARING)]
        model = Model(stories_artifact(), mmap=is_mapped, **sharing)
        use(model)
        if index % 3:
            model.close()
        path, options = REFUSALS[index % len(REFUSALS)]
        with pytest.raises(SslmError):
            Model(path or broken, mmap=is_mapped, **options)  # type: ignore[arg-type]

    for index in range(30):
        cycle(index)
    before, before_kib = held(), resident_kib()
    for index in range(ROUNDS):
        cycle(index)
    assert is_soon(lambda: held() == before), (held(), before)
    # The file alone has 400 KiB: a tenth of it kept in each round would be 4 MiB.
    assert resident_kib() - before_kib < 4096


@pytest.mark.parametrize("use", USES)
def test_a_dropped_model_is_freed_at_once(use: Callable[[Model], None]) -> None:
    gc.collect()
    gc.disable()
    try:
        model = Model(stories_artifact(), threads=2)
        use(model)
        seen = weakref.ref(model)
        plan = weakref.ref(model._runner._plan)
        del model
        if use is cancelled:
            # A cancelled task and its error hold each other; a thread its request, to its end.
            assert is_soon(lambda: seen() is None and plan() is None)
        assert seen() is None
        assert plan() is None
    finally:
        gc.enable()
