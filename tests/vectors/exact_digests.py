"""Section 4 of docs/arithmetic.md, the digests, with struct and hashlib."""

import hashlib
import struct
from collections.abc import Iterable

from tests.vectors.exact import Row, Rows

VERSION = struct.pack("<I", 1)


def int16_bytes(values: Row) -> bytes:
    """Return little-endian int16 values."""
    return struct.pack(f"<{len(values)}h", *values)


def int32_bytes(values: Row) -> bytes:
    """Return little-endian int32 values."""
    return struct.pack(f"<{len(values)}i", *values)


def paged_bytes(codes: Rows, exponents: Row) -> bytes:
    """Return a paged state's codes [head][dim] followed by its exponents [head]."""
    return b"".join(int16_bytes(head) for head in codes) + bytes(exponents)


def segment_digest(*, segment: int, position: int, residual: Row, states: bytes) -> str:
    """Return d[p, s] in hexadecimal."""
    head = VERSION + struct.pack("<IQ", segment, position)
    return hashlib.sha256(head + int32_bytes(residual) + states).hexdigest()


def head_digest(*, position: int, logits: Row) -> str:
    """Return h[p] in hexadecimal."""
    head = VERSION + struct.pack("<IQ", 2**32 - 1, position)
    return hashlib.sha256(head + struct.pack(f"<{len(logits)}q", *logits)).hexdigest()


def chain(*, model_id: bytes, token_ids: Row, digests: Iterable[str]) -> list[str]:
    """Return c[-1], c[0], ... in hexadecimal; *digests* are d[p, L]."""
    assert len(model_id) == 32
    links = [hashlib.sha256(b"sslm chain\0" + VERSION + model_id).digest()]
    for token_id, digest in zip(token_ids, digests, strict=True):
        text = links[-1] + struct.pack("<I", token_id) + bytes.fromhex(digest)
        links.append(hashlib.sha256(text).digest())
    return [link.hex() for link in links]


def answer_digest(*, last_link: str, token_ids: Row) -> str:
    """Return the answer digest in hexadecimal; *last_link* is c[n - 1]."""
    ids = struct.pack(f"<I{len(token_ids)}I", len(token_ids), *token_ids)
    return hashlib.sha256(b"sslm answer\0" + bytes.fromhex(last_link) + ids).hexdigest()
