"""Saves made by hand, and sealed again after a change."""

import hashlib
from array import array
from dataclasses import replace

from sslm.formats.choice import SavedChoice
from sslm.formats.saves.contents import (
    SavedChunk,
    SavedMemory,
    SavedSchema,
    SavedSequence,
    SavedState,
    SavedStateKind,
)

HASH_SLICE = slice(32, 64)
SIZE_SLICE = slice(16, 24)

MEMORY = SavedMemory(
    token_ids=array("i", range(65)),
    chunk=None,
    selected=7,
    last_residual=bytes(range(12)),
    link=bytes(range(32)),
    saturations=(1, 2, 3, 4, 5, 6),
    layers_run=8,
    chunk_count=2,
    states=(
        SavedState(SavedStateKind.KEYS, 1, 2, 3),
        SavedState(SavedStateKind.VALUES, 1, 2, 3),
        SavedState(SavedStateKind.FIXED, 2, 1, 5),
    ),
    fixed=b"f" * 20,
    page_size_bytes=128,
    pages=(b"p" * 128,),
    tail=b"t" * 9,
)
CHUNK = SavedChunk(
    token_ids=array("i", [5, 6]),
    next_segment=3,
    first_logits_row=1,
    residual=b"r" * 24,
    digests=b"d" * 64,
)
SAVED = SavedSequence(
    model_id=b"m" * 32,
    arithmetic_version=1,
    adapter=bytes(32),
    pending=array("i"),
    forced_tokens=3,
    choice=None,
    answer_start=0,
    schema=None,
    memory=MEMORY,
)
CHOICE = SavedChoice(
    decoder=1,
    bias=((3, 1_500_000), (260, -7)),
    repetition=1_100_000,
    presence=-5,
    frequency=250_000,
    temperature=700_000,
    top_k=40,
    top_p=950_000,
    min_p=1,
    seed=(1 << 64) - 2,
    damping=0,
    damping_order=1,
)
CHOSEN = replace(
    SAVED,
    choice=CHOICE,
    answer_start=60,
)
CHOSEN_IDS_ONLY = replace(CHOSEN, pending=array("i", [1, 2, 3]), memory=None)
SCHEMA = SavedSchema(digest=b"s" * 32, answer_tokens=300, state=7, token_count=4)
FOLLOWING = replace(CHOSEN, schema=replace(SCHEMA, answer_tokens=None))
FOLLOW_IDS = replace(SAVED, pending=array("i", [1, 2, 3]), memory=None, schema=SCHEMA)
MID_CHUNK = replace(
    SAVED,
    pending=array("i", [9, 8]),
    memory=replace(MEMORY, chunk=CHUNK, selected=None, last_residual=b""),
)
IDS_ONLY = replace(SAVED, pending=array("i", [1, 2, 3]), memory=None)


def reseal_save(blob: bytes) -> bytes:
    """Make the stated hash that of the content, as an attacker would."""
    blank = bytearray(blob)
    blank[HASH_SLICE] = bytes(32)
    blank[HASH_SLICE] = hashlib.sha256(blank).digest()
    return bytes(blank)


def resize_save(blob: bytes) -> bytes:
    """Make stated size and hash those of the content, which has a header at least."""
    changed = bytearray(blob)
    changed[SIZE_SLICE] = len(blob).to_bytes(8, "little")
    return reseal_save(bytes(changed))
