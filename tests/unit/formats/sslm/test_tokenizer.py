"""The tokenizer section, byte by byte."""

import struct

from sslm.formats.sslm.tokenizer import TokenizerRecord, encode_tokenizer, read_tokenizer

RECORD = TokenizerRecord(
    kind="byte_bpe",
    pre_tokenizer="gpt-2",
    tokens=("a", "\0é", "😀"),
    token_types=bytes([1, 4, 3]),
    scores=(0.5, -1.25),
    merges=((0, 1), (2, 0)),
    ignore_merges=True,
    bos_token_id=None,
    eos_token_id=2,
    unknown_token_id=0,
    padding_token_id=None,
    end_token_ids=(1, 2),
    add_bos=False,
    add_eos=True,
    add_space_prefix=False,
)


def test_bytes_are_the_documented_ones() -> None:
    expected = (
        struct.pack("<I", 8)
        + b"byte_bpe"
        + struct.pack("<I", 5)
        + b"gpt-2"
        + struct.pack("<I4I", 1 | 4, 0xFFFFFFFF, 2, 0, 0xFFFFFFFF)
        + struct.pack("<3I", 2, 1, 2)
        + struct.pack("<3I", 3, 2, 2)
        + struct.pack("<2f", 0.5, -1.25)
        + struct.pack("<4I", 0, 1, 2, 0)
        + bytes([1, 4, 3])
        + struct.pack("<3I", 1, 2, 1)
        + "a\0é😀".encode()
    )
    assert encode_tokenizer(RECORD) == expected
    assert read_tokenizer(memoryview(expected), base_offset_bytes=0) == RECORD
