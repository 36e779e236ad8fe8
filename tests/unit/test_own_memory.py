"""Memory is zero, aligned where it is mapped, and refused by name."""

import pytest

from sslm.errors.runtime import MemoryRefusedError
from sslm.memory import address_of, mapped_memory, zeroed_memory

TOO_MUCH = 1 << 62


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 3 << 20])
def test_memory_has_its_size_and_is_zero(size: int) -> None:
    memory = zeroed_memory(size, "a test")
    assert (memory.nbytes, memory.readonly) == (size, False)
    assert memory == bytes(size)
    mapped = mapped_memory(size, "a test")
    assert mapped.nbytes == max(size, 1)
    assert address_of(mapped) % 64 == 0


@pytest.mark.parametrize("size", [TOO_MUCH, 1 << 70])
def test_memory_that_there_is_not_is_refused_by_name(size: int) -> None:
    for ask in (mapped_memory, zeroed_memory):
        with pytest.raises(MemoryRefusedError) as caught:
            ask(size, "a test")
        assert (caught.value.what, caught.value.size_bytes) == ("a test", size)


def test_small_memory_is_refused_by_name_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int) -> bytearray:
        raise MemoryError(size)

    monkeypatch.setattr("sslm.memory.bytearray", refuse, raising=False)
    with pytest.raises(MemoryRefusedError):
        zeroed_memory(5, "a test")
