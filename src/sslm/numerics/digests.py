"""Digests of states, positions and answers (docs/arithmetic.md, "Digests")."""

import struct
from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from sslm.hashes import Sha256

_HEAD_SEGMENT: Final = 0xFFFF_FFFF

Bytes = bytes | bytearray | memoryview


def segment_digest(
    version: int, segment: int, position: int, residual: Bytes, states: Iterable[Bytes]
) -> bytes:
    """Return d[p, s] over one residual row and the states that the segment wrote for it."""
    digest = Sha256(struct.pack("<IIQ", version, segment, position))
    digest.update(residual)
    for state in states:
        digest.update(state)
    return digest.digest()


def head_digest(version: int, position: int, logits: Bytes) -> bytes:
    """Return h[p] over one row of int64 logits."""
    return segment_digest(version, _HEAD_SEGMENT, position, logits, ())


def first_link(version: int, model_id: bytes) -> bytes:
    """Return c[-1], where every chain of this model begins."""
    return Sha256(b"sslm chain\0" + struct.pack("<I", version) + model_id).digest()


def next_link(link: bytes, token_id: int, last_layer_digest: Bytes) -> bytes:
    """Return c[p] from c[p-1], the token at p and d[p, L]."""
    return Sha256(link + struct.pack("<I", token_id) + bytes(last_layer_digest)).digest()


def answer_digest(link: bytes, token_ids: Sequence[int]) -> bytes:
    """Return the digest of an answer: the chain so far, closed with the answer's token ids."""
    ids = array("I", token_ids)
    return Sha256(b"sslm answer\0" + link + struct.pack(f"<I{len(ids)}I", len(ids), *ids)).digest()
