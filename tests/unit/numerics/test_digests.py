"""Digests against bytes that are laid out by hand."""

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from sslm.numerics.digests import (
    answer_digest,
    first_link,
    head_digest,
    next_link,
    segment_digest,
)

U32 = st.integers(0, 2**32 - 1)


def u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


@given(
    version=U32,
    segment=U32,
    position=st.integers(0, 2**64 - 1),
    residual=st.binary(max_size=24),
    states=st.lists(st.binary(max_size=9), max_size=3),
)
def test_segment_digest(
    version: int, segment: int, position: int, residual: bytes, states: list[bytes]
) -> None:
    laid_out = u32(version) + u32(segment) + u64(position) + residual + b"".join(states)
    found = segment_digest(version, segment, position, memoryview(residual), iter(states))
    assert found == sha256(laid_out).digest()


def test_head_digest() -> None:
    logits = b"".join(value.to_bytes(8, "little", signed=True) for value in (1, -2, 2**61))
    laid_out = u32(1) + b"\xff\xff\xff\xff" + u64(7) + logits
    assert head_digest(1, 7, logits) == sha256(laid_out).digest()


@given(token_ids=st.lists(U32, max_size=4))
def test_chain_and_answer(token_ids: list[int]) -> None:
    model_id = bytes(range(32))
    link = first_link(1, model_id)
    assert link == sha256(b"sslm chain\x00" + u32(1) + model_id).digest()
    for token_id in token_ids:
        layer = sha256(u32(token_id)).digest()
        following = sha256(link + u32(token_id) + layer).digest()
        assert next_link(link, token_id, memoryview(layer)) == following
        link = following
    laid_out = b"sslm answer\x00" + link + u32(len(token_ids)) + b"".join(map(u32, token_ids))
    assert answer_digest(link, token_ids) == sha256(laid_out).digest()


def test_golden_answer() -> None:
    """A value computed once with hashlib alone, so that nothing here can drift together."""
    assert first_link(1, bytes(32)).hex() == GOLDEN_FIRST_LINK


GOLDEN_FIRST_LINK = "3dd994aae412d05536629cfedfa399025030510ce3d54b938ac294f6bda7bd40"
