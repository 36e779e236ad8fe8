"""A hash that finds no memory says so."""

import hashlib

import pytest

from sslm.hashes import Sha256

DATA = b"Once upon a time"


def test_it_is_the_hash_of_hashlib() -> None:
    digest = Sha256(DATA)
    copy = digest.copy()
    digest.update(DATA)
    assert digest.digest() == hashlib.sha256(DATA + DATA).digest()
    assert copy.hexdigest() == hashlib.sha256(DATA).hexdigest()


class _Short:
    """A hash of OpenSSL's where memory is short."""

    def digest(self) -> bytes:
        raise ValueError("[digital envelope routines] not able to copy ctx")

    copy = digest


@pytest.mark.parametrize("call", ["digest", "hexdigest", "copy"])
def test_a_lack_of_memory_is_a_memory_error(call: str) -> None:
    digest = Sha256(DATA)
    digest._hash = _Short()  # type: ignore[assignment]
    with pytest.raises(MemoryError, match="digital envelope"):
        getattr(digest, call)()


def test_a_lack_of_memory_at_the_beginning_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(data: bytes) -> object:
        raise ValueError("[digital envelope routines] initialization error")

    monkeypatch.setattr(hashlib, "sha256", refuse)
    with pytest.raises(MemoryError, match="initialization"):
        Sha256(DATA)
