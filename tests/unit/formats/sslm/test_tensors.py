"""The tensor manifest, byte by byte."""

import struct

from sslm.formats.sslm.tensors import (
    TensorRecord,
    encode_manifest,
    manifest_size_bytes,
    read_manifest,
)

RECORDS = (
    TensorRecord(
        name="a.b_1", encoding=2, shape=(17, 5), exponent=-3, offset_bytes=0, size_bytes=256
    ),
    TensorRecord(name="c", encoding=1, shape=(1,), exponent=31, offset_bytes=256, size_bytes=4),
    TensorRecord(
        name="d", encoding=7, shape=(1, 2, 3, 4), exponent=0, offset_bytes=512, size_bytes=96
    ),
)


def test_bytes_are_the_documented_ones() -> None:
    expected = (
        struct.pack("<II", 3, 0)
        + struct.pack("<IIIiIIIIQQ", 5, 2, 2, -3, 17, 5, 0, 0, 0, 256)
        + struct.pack("<IIIiIIIIQQ", 1, 1, 1, 31, 1, 0, 0, 0, 256, 4)
        + struct.pack("<IIIiIIIIQQ", 1, 7, 4, 0, 1, 2, 3, 4, 512, 96)
        + b"a.b_1cd"
    )
    assert encode_manifest(RECORDS) == expected
    assert manifest_size_bytes(record.name for record in RECORDS) == len(expected)


def test_records_come_back() -> None:
    manifest = memoryview(encode_manifest(RECORDS))
    assert read_manifest(manifest, base_offset_bytes=0, weights_size_bytes=608) == RECORDS
