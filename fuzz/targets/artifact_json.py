"""Bytes as one section of an artifact: what is accepted has to be its only spelling."""

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tests.unit.artifact.tiny_artifact import CONFIG

from fuzz.choices import Choices
from fuzz.sections import canonical, edited_json
from fuzz.target import ByteMutator, Outcomes, Target, require
from sslm.artifact.config_section import decode_config, encode_config
from sslm.artifact.golden import decode_golden, encode_golden
from sslm.artifact.provenance import decode_provenance, encode_provenance
from sslm.artifact.tokenizer_section import decode_vocabulary, encode_vocabulary
from sslm.errors.base import ArtifactError
from sslm.formats.sslm.canonical_json import decode_json, encode_json

_GOLDEN_CONFIG: Final = replace(CONFIG, vocab_size=8)


def _tokenizer(data: memoryview) -> bytes:
    return encode_vocabulary(decode_vocabulary(data, base_offset_bytes=64))


SECTIONS: Final[dict[str, Callable[[memoryview], bytes]]] = {
    "json": lambda data: encode_json(decode_json(data, "fuzzed")),
    "config": lambda data: encode_config(decode_config(data)),
    "golden": lambda data: encode_golden(
        decode_golden(data, _GOLDEN_CONFIG, token_count=_GOLDEN_CONFIG.vocab_size)
    ),
    "provenance": lambda data: encode_provenance(decode_provenance(data)),
    "tokenizer": _tokenizer,
}
"""Name -> a function that decodes a section and encodes it again; the index is the first byte."""


def run(data: bytes, outcomes: Outcomes) -> None:
    """Decode the section that the first byte names, as it is and in its canonical spelling."""
    if not data:
        return
    names = tuple(SECTIONS)
    name, content = names[data[0] % len(names)], data[1:]
    spellings = {content}
    if name != "tokenizer":
        spellings.add(canonical(content) or content)
    for spelling in sorted(spellings):
        with outcomes.refusals(ArtifactError):
            again = SECTIONS[name](memoryview(spelling))
            require(again == spelling, f"an accepted {name} section is spelled in the one way")
            outcomes.reached(f"{name} read")


def mutate(data: bytes, size_bytes_max: int, seed: int, mutated: ByteMutator) -> bytes:
    """Change bytes, or values of the JSON that they spell."""
    choices = Choices(struct.pack("<I", seed) * 16)
    if len(data) < 2 or choices.is_chosen(2):
        return mutated(data, size_bytes_max)
    changed = edited_json(data[1:], Choices(mutated(struct.pack("<Q", seed) * 8, 128)))
    return data[:1] + changed if len(changed) < size_bytes_max else data


TARGET: Final = Target(
    name="artifact_json",
    subject="bytes to the decoder of one section of an artifact, and back",
    run=run,
    modules=(
        "sslm.artifact.config_section",
        "sslm.artifact.golden",
        "sslm.artifact.provenance",
        "sslm.artifact.tokenizer_section",
        "sslm.formats.sslm.canonical_json",
        "sslm.formats.sslm.tokenizer",
        "sslm.model.config",
        "sslm.model.fraction_bits",
        "sslm.text.vocabulary",
    ),
    size_bytes_max=1 << 13,
    reaches=("config read", "golden read", "provenance read", "tokenizer read"),
    dictionary=(b"null", b"true", b"1e999", b"-0", b'"\\ud800"', b"NaN", b"[[[[[[[["),
    mutate=mutate,
)
