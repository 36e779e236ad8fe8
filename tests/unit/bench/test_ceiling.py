"""What the speed of reading weights is measured against."""

import sys

import pytest

from sslm.bench.ceiling import ReadCeiling
from tests.huge_pages import SIZE, huge_bytes_of, plain_anonymous, require_huge_pages


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_called_huge_pages_is_in_huge_pages() -> None:
    require_huge_pages("memory", plain_anonymous())
    ceiling = ReadCeiling([memoryview(bytes(SIZE))], threads=1)
    assert ceiling._buffer.nbytes == SIZE
    assert huge_bytes_of(ceiling._buffer) == SIZE


@pytest.mark.parametrize("size", [1, 250, SIZE + 3])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_sample_is_two_speeds(size: int, threads: int) -> None:
    ceiling = ReadCeiling([memoryview(bytes(size))], threads=threads)
    assert all(speed > 0 for speed in ceiling.sample())
    assert 0 not in ceiling._buffer[:: ceiling._buffer.nbytes - 1]
