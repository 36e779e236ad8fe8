"""The fast checks of tensors find just what a plain look at every number finds."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslm.artifact.tensor_checks import check_tensor
from sslm.errors.artifact import (
    PanelPaddingError,
    TensorRoleError,
    TensorValueError,
    WeightCodeError,
)
from sslm.program.tensors import Encoding, Tensor
from tests.unit.artifact import tiny_artifact


def panel_tensor(rows: int, columns: int, data: bytes) -> Tensor:
    return Tensor(
        name="w",
        encoding=Encoding.PANEL_INT8,
        shape=(rows, columns),
        exponent=0,
        data=memoryview(data),
    )


@pytest.mark.parametrize(
    ("rows", "columns"), [(16, 4), (1, 1), (15, 3), (17, 5), (32, 6), (33, 8), (48, 7)]
)
def test_every_byte_of_the_panels_is_checked(rows: int, columns: int) -> None:
    """A byte may be changed without an error if, and only if, it is a code."""
    sound = tiny_artifact.panels([[1] * columns for _ in range(rows)])
    check_tensor(panel_tensor(rows, columns, sound))
    for offset in range(len(sound)):
        changed = bytearray(sound)
        is_code = changed[offset] == 1
        changed[offset] = 0x81
        if is_code:
            check_tensor(panel_tensor(rows, columns, bytes(changed)))
        else:
            with pytest.raises(PanelPaddingError):
                check_tensor(panel_tensor(rows, columns, bytes(changed)))
        changed[offset] = 0x80
        with pytest.raises(WeightCodeError) as caught:
            check_tensor(panel_tensor(rows, columns, bytes(changed)))
        assert caught.value.offset_bytes == offset


def test_code_in_a_later_chunk() -> None:
    data = bytearray(16 * 4 * 3000)
    data[150_001] = 0x80
    with pytest.raises(WeightCodeError) as caught:
        check_tensor(panel_tensor(16, 12_000, bytes(data)))
    assert caught.value.offset_bytes == 150_001


ROLES = [
    ("layers.0.q_proj.mantissas", 0, (1 << 24) - 1),
    ("layers.0.input_layernorm", -(1 << 23), 1 << 23),
    ("final_norm", -(1 << 23), 1 << 23),
    ("rope.cos", -(1 << 30), 1 << 30),
    ("rope.sin", -(1 << 30), 1 << 30),
    ("layers.0.q_proj.bias", 1 - (1 << 31), (1 << 31) - 1),
]


@pytest.mark.parametrize(("name", "lowest", "highest"), ROLES)
def test_bounds_of_each_role(name: str, lowest: int, highest: int) -> None:
    check_tensor(tiny_artifact.int32_tensor(name, [lowest, 0, highest]))
    for number in (lowest - 1, highest + 1):
        if -(1 << 31) <= number < 1 << 31:
            with pytest.raises(TensorValueError) as caught:
                check_tensor(tiny_artifact.int32_tensor(name, [0, 1, number]))
            assert (caught.value.index, caught.value.found) == (2, number)


def test_number_in_a_later_chunk() -> None:
    numbers = [1 << 30] * 40_000
    check_tensor(tiny_artifact.int32_tensor("rope.cos", numbers))
    numbers[39_999] += 1
    with pytest.raises(TensorValueError) as caught:
        check_tensor(tiny_artifact.int32_tensor("rope.cos", numbers))
    assert caught.value.index == 39_999


@settings(max_examples=200, deadline=None)
@given(
    role=st.sampled_from(ROLES),
    data=st.binary(min_size=4, max_size=64).map(lambda raw: raw[: len(raw) // 4 * 4]),
)
def test_any_numbers(role: tuple[str, int, int], data: bytes) -> None:
    name, lowest, highest = role
    numbers = list(struct.unpack(f"<{len(data) // 4}i", data))
    tensor = tiny_artifact.int32_tensor(name, numbers)
    if all(lowest <= number <= highest for number in numbers):
        check_tensor(tensor)
    else:
        with pytest.raises(TensorValueError):
            check_tensor(tensor)


@pytest.mark.parametrize("name", ["embed", "layers.0.q_proj.mantissa", "cosine", "norm.extra"])
def test_int32_tensor_without_a_role(name: str) -> None:
    with pytest.raises(TensorRoleError):
        check_tensor(tiny_artifact.int32_tensor(name, [0]))
