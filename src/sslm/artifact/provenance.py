"""Where an artifact came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sslm.formats.sslm.canonical_json import JsonFields, decode_json, encode_json

_TEXT_SIZE_CHARS_MAX: Final = 1024
_OPTION_COUNT_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What was converted, by what, and how. It changes no token and is not part of ``model_id``.

    Args:
        source_sha256: Of the source file, 32 bytes.
        converter_version: Version of this package that wrote the artifact.
        options: What the conversion was asked for, by name; at most 64.
    """

    source_sha256: bytes
    converter_version: str
    options: Mapping[str, str] = field(default_factory=dict)


def encode_provenance(provenance: Provenance) -> bytes:
    """Return the section's bytes."""
    return encode_json(
        {
            "converter_version": provenance.converter_version,
            "options": dict(provenance.options),
            "source_sha256": provenance.source_sha256.hex(),
        }
    )


def decode_provenance(data: memoryview) -> Provenance:
    """Read and check the section; raise a JSON error for anything that is not as it must be."""
    fields = JsonFields("provenance", decode_json(data, "provenance"))
    provenance = Provenance(
        source_sha256=fields.hexadecimal("source_sha256", size_bytes=32),
        converter_version=fields.text("converter_version", at_most=_TEXT_SIZE_CHARS_MAX),
        options=fields.texts(
            "options", count_at_most=_OPTION_COUNT_MAX, at_most=_TEXT_SIZE_CHARS_MAX
        ),
    )
    fields.finish()
    return provenance
