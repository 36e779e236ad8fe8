"""Compiled schemas that the search begins with, written down without a compiler."""

from array import array
from dataclasses import replace

from sslm.formats.schemas.blob import SchemaRecord, encode_schema
from sslm.formats.schemas.containers import encode_schema_file, encode_schema_section
from sslm.formats.schemas.masks import mask_size_bytes
from sslm.formats.schemas.tables import FREE, NONE, StateTables

VOCAB_SIZE = 256
"""Every byte is a token."""
OPTIONS = (
    b'{"canonical_spans":true,"compiler_version":1,"formats":"assert","free_levels":2,'
    b'"recursion_levels":4,"unknown_keywords":"refuse"}'
)
"""How a schema is said to be compiled."""
_A, _B, _C = b"abc"
_ADDED_OPTIONS = (
    b'{"canonical_spans":true,"compiler_version":1,"formats":"assert","free_keys":"omit",'
    b'"free_levels":2,"recursion_levels":4,"spacing":"flexible","unknown_keywords":"refuse"}'
)


def schema_seeds() -> dict[str, bytes]:
    """Files with and without an only token, one with all options, one that lies, and sections."""
    sound = encode_schema(_record("ab", _A))
    free = encode_schema(_record("free", FREE))
    spaced = encode_schema(replace(_record("spaced", _A), options=_ADDED_OPTIONS))
    return {
        "sound": encode_schema_file(sound),
        "spaced": encode_schema_file(spaced),
        "free": encode_schema_file(free),
        "lie": encode_schema_file(encode_schema(_record("lie", _B))),
        "section": encode_schema_section([("ab", sound), ("free", free)]),
    }


def _record(name: str, only_token: int) -> SchemaRecord:
    """The texts "ab", and "a" with digits and "c" behind it."""
    first = only_token == FREE
    return SchemaRecord(
        name=name,
        options=OPTIONS,
        document=b'{"pattern":"^a(b|[0-9]+c)$"}',
        documents=b'{"https://example.com/a":true}' if first else b"",
        vocabulary_sha256=bytes(32),
        vocab_size=VOCAB_SIZE,
        rows=(
            ((_A, _A, 1),),
            ((48, 57, 2), (_B, _B, 3)),
            ((48, 57, 2), (_C, _C, 3)),
            (),
        ),
        accepting=bytes([0, 0, 0, 1]),
        tables=StateTables(
            only_tokens=array("i", [only_token, FREE, FREE, FREE]),
            only_targets=array("I", [NONE if first else 1, NONE, NONE, NONE]),
            distances=array("I", [2, 1, 1, 0]),
            mask_indices=array("I", [2, 0, 1, 3] if first else [NONE, 0, 1, 2]),
        ),
        masks=tuple(
            _mask(*ids)
            for ids in (
                (*range(48, 58), _B),
                (*range(48, 58), _C),
                *(((_A,),) if first else ()),
                (),
            )
        ),
    )


def _mask(*ids: int) -> bytes:
    return sum(1 << one for one in ids).to_bytes(mask_size_bytes(VOCAB_SIZE), "little")
