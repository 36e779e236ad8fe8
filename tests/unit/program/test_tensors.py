"""A tensor has exactly the bytes of its shape."""

import pytest

from sslm.errors.program import TensorShapeError
from sslm.program.tensors import Encoding, Tensor, padded, size_bytes


def test_padded() -> None:
    assert [padded(n, 16) for n in (0, 1, 15, 16, 17)] == [0, 16, 16, 16, 32]


@pytest.mark.parametrize(
    ("encoding", "shape", "size"),
    [
        (Encoding.INT32, (3,), 12),
        (Encoding.INT32, (3, 5), 60),
        (Encoding.PANEL_INT8, (1, 1), 64),
        (Encoding.PANEL_INT8, (16, 4), 64),
        (Encoding.PANEL_INT8, (17, 5), 256),
        (Encoding.PANEL_INT4, (1, 1), 64 + 256),
        (Encoding.PANEL_INT4, (16, 32), 64 + 256),
        (Encoding.PANEL_INT4, (17, 33), 2 * (64 + 512)),
        (Encoding.PANEL_INT4, (16, 128), 64 + 1024),
        (Encoding.PANEL_INT4, (16, 129), 128 + 1280),
    ],
)
def test_sizes(encoding: Encoding, shape: tuple[int, ...], size: int) -> None:
    assert size_bytes(encoding, shape) == size
    for found in (size - 1, size + 1):
        with pytest.raises(TensorShapeError) as caught:
            Tensor(
                name="t",
                encoding=encoding,
                shape=shape,
                exponent=0,
                data=memoryview(bytes(found)),
            )
        assert (caught.value.size_bytes, caught.value.expected_bytes) == (found, size)
