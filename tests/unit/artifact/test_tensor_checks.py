"""The fast checks of tensors find just what a plain look at every number finds."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslm.artifact.int4_checks import check_int4_mantissas
from sslm.artifact.tensor_checks import check_tensor
from sslm.errors.base import ArtifactError
from sslm.errors.status import Status
from sslm.program.tensors import Encoding, Tensor
from tests.causes import Kind, raises
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
            with raises(Status.SSLM_PANEL_PADDING):
                check_tensor(panel_tensor(rows, columns, bytes(changed)))
        changed[offset] = 0x80
        with raises(Status.SSLM_WEIGHT_CODE) as caught:
            check_tensor(panel_tensor(rows, columns, bytes(changed)))
        assert caught.value.facts()["offset_bytes"] == offset


@pytest.mark.parametrize(
    ("rows", "columns"), [(16, 32), (1, 1), (15, 3), (17, 37), (32, 64), (33, 8), (48, 71)]
)
def test_every_byte_of_int4_panels_is_checked(rows: int, columns: int) -> None:
    """A byte may be changed without an error only into what its place may hold."""
    groups = -(-columns // 32)
    codes, scales = [[1] * columns] * rows, [[2] * groups] * rows
    sound = tiny_artifact.int4_panels(codes, scales)
    check_tensor(int4_tensor(rows, columns, sound))
    for offset in range(len(sound)):
        for byte in (0x00, 0x01, 0x3F, 0x40, 0x41, 0x0F, 0xF0, 0x88, 0x89, 0x98, 0x9F, 0xFF):
            expected = int4_defect(rows, columns, offset, byte)
            changed = bytearray(sound)
            changed[offset] = byte
            tensor = int4_tensor(rows, columns, bytes(changed))
            if expected is None:
                check_tensor(tensor)
            else:
                with raises(expected) as caught:
                    check_tensor(tensor)
                if expected is not Status.SSLM_PANEL_PADDING:
                    assert caught.value.facts()["offset_bytes"] == offset


@pytest.mark.parametrize(
    ("offset", "byte", "expected"),
    [
        (0, 65, "group scale 65 at its byte 0, expected an integer from 1 to 64"),
        (15, 2, "group scale 2 at its byte 15, expected 1, as its row only pads a panel"),
        (64, 0x08, "int4 code -8 at its byte 64, expected codes from -7 to 7"),
    ],
)
def test_what_is_wrong_with_int4_panels_is_told(offset: int, byte: int, expected: str) -> None:
    changed = bytearray(tiny_artifact.int4_panels([[1] * 8] * 15, [[2]] * 15))
    changed[offset] = byte
    with pytest.raises(ArtifactError) as caught:
        check_tensor(int4_tensor(15, 8, bytes(changed)))
    assert str(caught.value) == f"tensor 'w' holds the {expected}; convert the model's source again"


def int4_defect(rows: int, columns: int, offset: int, byte: int) -> Kind | None:
    """Say what is wrong with a byte in its place, straight from the definition."""
    groups = -(-columns // 32)
    scales_size = -(-groups * 16 // 64) * 64
    panel, at = divmod(offset, scales_size + groups * 256)
    if at < groups * 16:
        is_padding = panel * 16 + at % 16 >= rows
        return (
            None if byte == 1 or (1 <= byte <= 64 and not is_padding) else Status.SSLM_GROUP_SCALE
        )
    if at < scales_size:
        return None if byte == 0 else Status.SSLM_PANEL_PADDING
    low, high = byte & 15, byte >> 4
    if low == 0 or high == 0:
        return Status.SSLM_INT4_CODE
    word, place = divmod(at - scales_size, 64)
    column = word * 8 + place % 4
    row = panel * 16 + place // 4
    for nibble, k in ((low, column), (high, column + 4)):
        if nibble != 8 and (row >= rows or k >= columns):
            return Status.SSLM_PANEL_PADDING
    return None


def int4_tensor(rows: int, columns: int, data: bytes) -> Tensor:
    return Tensor(
        name="w",
        encoding=Encoding.PANEL_INT4,
        shape=(rows, columns),
        exponent=0,
        data=memoryview(data),
    )


def test_columns_that_int4_has_no_sums_for() -> None:
    sound = tiny_artifact.int4_panels([[1] * 16384], [[1] * 512])
    check_tensor(int4_tensor(1, 16384, sound))
    longer = tiny_artifact.int4_panels([[1] * 16385], [[1] * 513])
    with raises(Status.SSLM_TENSOR_COLUMNS) as caught:
        check_tensor(int4_tensor(1, 16385, longer))
    assert (caught.value.found, caught.value.highest) == (16385, 16384)


@pytest.mark.parametrize("names", [("w", "w.mantissas"), ("embed", "lm_head.mantissas")])
def test_mantissas_of_int4_have_23_bits(names: tuple[str, str]) -> None:
    codes = replace(tiny_artifact.int4_tensor("w", 2, 3), name=names[0])
    for largest, is_sound in (((1 << 23) - 1, True), (1 << 23, False)):
        mantissas = tiny_artifact.int32_tensor(names[1], [0, largest])
        tensors = {names[0]: codes, names[1]: mantissas}
        if is_sound:
            check_int4_mantissas(tensors)
        else:
            with raises(Status.SSLM_TENSOR_VALUE) as caught:
                check_int4_mantissas(tensors)
            assert (caught.value.index, caught.value.highest) == (1, (1 << 23) - 1)
        # Codes of int8 have room for a bit more: here those of the matrix, there a head's own.
        owner = names[1].removesuffix(".mantissas")
        check_int4_mantissas(tensors | {owner: panel_tensor(2, 3, bytes(64))})


def test_code_in_a_later_chunk() -> None:
    data = bytearray(16 * 4 * 3000)
    data[150_001] = 0x80
    with raises(Status.SSLM_WEIGHT_CODE) as caught:
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
            with raises(Status.SSLM_TENSOR_VALUE) as caught:
                check_tensor(tiny_artifact.int32_tensor(name, [0, 1, number]))
            assert (caught.value.index, caught.value.found) == (2, number)


def test_number_in_a_later_chunk() -> None:
    numbers = [1 << 30] * 40_000
    check_tensor(tiny_artifact.int32_tensor("rope.cos", numbers))
    numbers[39_999] += 1
    with raises(Status.SSLM_TENSOR_VALUE) as caught:
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
        with raises(Status.SSLM_TENSOR_VALUE):
            check_tensor(tensor)


@pytest.mark.parametrize("name", ["embed", "layers.0.q_proj.mantissa", "cosine", "norm.extra"])
def test_int32_tensor_without_a_role(name: str) -> None:
    with raises(Status.SSLM_TENSOR_ROLE):
        check_tensor(tiny_artifact.int32_tensor(name, [0]))
