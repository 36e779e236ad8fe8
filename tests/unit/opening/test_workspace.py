"""Scratch and pages that lie in memory of the caller's."""

import os
from collections.abc import Callable

import pytest

import sslm
from sslm.backends.native import NativeBackend
from sslm.engine.model import Model
from sslm.errors.runtime import (
    ForkedProcessError,
    MemoryInUseError,
    MemoryTooSmallError,
    MisalignedMemoryError,
    ObjectClosedError,
    OptionRangeError,
)
from sslm.memory import address_of, anonymous_memory
from sslm.program.parallel_for import ParallelFor
from sslm.runtime.sequences.kv_pool import KvPool, kv_pool_size_bytes
from tests.converted import stories_artifact
from tests.forking import in_child
from tests.toy_programs import CONTEXT_TOKENS, moving_average_model

PROMPT = "Once upon a time"
MARK = b"\xa5"


def marked(size_bytes: int, offset: int = 0) -> memoryview:
    """Return bytes of one value that begin *offset* behind a multiple of 64."""
    block = memoryview(bytearray(MARK * (size_bytes + 128)))
    start = -address_of(block) % 64 + offset
    return block[start : start + size_bytes]


def is_untouched(memory: memoryview) -> bool:
    return bytes(memory) == MARK * memory.nbytes


def size_of(**options: object) -> int:
    return sslm.workspace_size_bytes(stories_artifact(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"threads": 3, "context_tokens": 100},
        {"tier": "scalar"},
        {"parallel_for": ParallelFor(lambda task, count: None, max_tasks=5)},
    ],
)
def test_the_size_is_known_before_and_is_what_the_model_takes(options: dict[str, object]) -> None:
    size = size_of(**options)
    with Model(stories_artifact(), **options) as model:  # type: ignore[arg-type]
        assert size == model.footprint(0).scratch
        expected = model.footprint(2)
    memory = marked(size + 64)
    with Model(stories_artifact(), workspace=memory, **options) as model:  # type: ignore[arg-type]
        found = model.footprint(2)
        assert found.total == expected.total - size
        assert not is_untouched(memory[:size])
        assert is_untouched(memory[size:])
    with pytest.raises(MemoryTooSmallError) as caught:
        Model(stories_artifact(), workspace=memory[: size - 1], **options)  # type: ignore[arg-type]
    assert (caught.value.found_bytes, caught.value.needed_bytes) == (size - 1, size)


def test_where_memory_lies_changes_no_answer_and_no_budget() -> None:
    with Model(stories_artifact(), context_tokens=128) as model:
        expected = model.generate(PROMPT, max_tokens=8)
        bound = model.footprint(1).total
    size = size_of(context_tokens=128)
    for memory in (
        marked(size),
        anonymous_memory(size),
        bytearray(0) or anonymous_memory(size + 5),
    ):
        # What the caller brings is not counted, so that the rest alone has to fit.
        with Model(
            stories_artifact(), context_tokens=128, memory_bytes=bound - size, workspace=memory
        ) as model:
            assert model.generate(PROMPT, max_tokens=8) == expected
            pool_bytes = marked(model.kv_pool_size_bytes(128))
            with model.kv_pool(128, memory=pool_bytes) as pool:
                with model.sequence(PROMPT, max_tokens=8, pool=pool) as sequence:
                    while not sequence.done:
                        sequence.advance(layers=3)
                    assert sequence.text == expected.text
                assert not is_untouched(pool_bytes)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda memory: memory[:-1], MemoryTooSmallError),
        (lambda memory: memory[:0], MemoryTooSmallError),
        (lambda memory: memory.toreadonly(), OptionRangeError),
        (lambda memory: memory[::2], OptionRangeError),
        (lambda memory: 17, OptionRangeError),
        (lambda memory: "memory", OptionRangeError),
        (lambda memory: marked(memory.nbytes, 1), MisalignedMemoryError),
        (lambda memory: marked(memory.nbytes, 32), MisalignedMemoryError),
    ],
)
def test_memory_that_cannot_be_used_is_refused_and_not_touched(
    change: Callable[[memoryview], object], error: type[Exception]
) -> None:
    memory = marked(size_of())
    lent = change(memory)
    with pytest.raises(error):
        Model(stories_artifact(), workspace=lent)
    assert is_untouched(memory)
    assert not isinstance(lent, memoryview) or bytes(lent) == MARK * lent.nbytes
    # Nothing was lent, so that the same bytes can be.
    Model(stories_artifact(), workspace=memory).close()


def test_nobody_else_is_lent_what_is_in_use() -> None:
    size = size_of()
    memory = marked(2 * size)
    with Model(stories_artifact(), workspace=memory) as model:
        expected = model.generate(PROMPT, max_tokens=4)
        for other in (memory, memory[:size], memory[size // 64 * 64 - 64 :]):
            before = bytes(memory)
            with pytest.raises(MemoryInUseError, match="a plan is used by a plan"):
                Model(stories_artifact(), workspace=other)
            with pytest.raises(MemoryInUseError, match="a KV pool is used by a plan"):
                model.kv_pool(64, memory=other)
            assert bytes(memory) == before
        behind = memory[-(-size // 64) * 64 :]
        with model.kv_pool(64, memory=behind) as pool, pytest.raises(MemoryInUseError):
            Model(stories_artifact(), workspace=behind)
        assert pool.size_bytes <= behind.nbytes
        assert model.generate(PROMPT, max_tokens=4) == expected
    # Closing gives it back, and so does dropping.
    model = Model(stories_artifact(), workspace=memory)
    assert model.generate(PROMPT, max_tokens=4) == expected
    del model
    with Model(stories_artifact(), workspace=memory[size // 64 * 64 - 64 :]) as model:
        assert model.generate(PROMPT, max_tokens=4) == expected


def test_a_workspace_the_reference_would_not_use_is_refused() -> None:
    assert size_of(backend="reference") == 0
    with pytest.raises(OptionRangeError, match="workspace"):
        Model(stories_artifact(), backend="reference", workspace=marked(64))


def test_a_spec_has_no_workspace() -> None:
    with Model(stories_artifact(), workspace=marked(size_of())) as model:
        expected = model.generate(PROMPT, max_tokens=4)
        with model.spec.load() as again:
            assert again.generate(PROMPT, max_tokens=4) == expected
            assert again.footprint(0).scratch == size_of()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_plan_in_memory_that_a_child_may_share_is_the_parents() -> None:
    model = moving_average_model()
    backend = NativeBackend()
    sizes = {"row_count_max": 64, "context_tokens": CONTEXT_TOKENS}
    size = backend.scratch_size_bytes(model.program, model.tensors, **sizes)
    plan = backend.compile(model.program, model.tensors, memory=marked(size), **sizes)

    def work() -> None:
        with pytest.raises(ForkedProcessError):
            plan.run(0, 1, [])
        plan.close()

    in_child(work)
    plan.run(0, 1, [])
    plan.close()


def test_a_pool_that_is_closed_gives_its_memory_back_and_takes_no_more() -> None:
    layout = moving_average_model().program.state_layout
    size = kv_pool_size_bytes(layout, 2)
    memory = marked(max(size, 64))
    pool = KvPool(layout, 2, memory)
    hold = pool.hold()
    pool.close()
    KvPool(layout, 2, memory).close()
    with pytest.raises(ObjectClosedError):
        hold.take(1)
