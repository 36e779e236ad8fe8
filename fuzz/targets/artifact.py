"""Bytes as an artifact with a hash that is right, up to a step on both backends."""

import struct
from functools import cache
from typing import Final

from tests.tiny_models import generate
from tests.unit.artifact.tiny_artifact import read

from fuzz.choices import Choices
from fuzz.patches import overwritten
from fuzz.sections import (
    JSON_SECTIONS,
    edited_json,
    sealed,
    section_contents,
    with_changed_section,
)
from fuzz.target import ByteMutator, Outcomes, Target, require
from sslm.artifact import Artifact
from sslm.errors.base import ArtifactError, NumericError
from sslm.formats.sslm.container import SectionType
from sslm.opening.runner import build_program, open_backend
from sslm.program.plan import Backend
from sslm.program.program import Program

_CONTEXT_TOKENS: Final = 16
_SIZE_BYTES_MAX: Final = 1 << 15
_SOUND: Final = ("sound", "untied_without_golden")
_SCRATCH_SIZE_BYTES_MAX: Final = 32 << 20


def run(data: bytes, outcomes: Outcomes) -> None:
    """Read the file as it is and with its hash put right; run what can be run."""
    file = sealed(data)
    if file != data:
        with outcomes.refusals(ArtifactError):
            read(data)
            outcomes.reached("read without its hash")
    with outcomes.refusals(ArtifactError, NumericError):
        artifact = read(file)
        outcomes.reached("artifact read")
        program = build_program(artifact)
        outcomes.reached("program built")
        _run_both(artifact, program, outcomes)


@cache
def _backend(name: str) -> Backend:
    return open_backend(name, tier="auto", threads=1)


def _run_both(artifact: Artifact, program: Program, outcomes: Outcomes) -> None:
    context_tokens = min(_CONTEXT_TOKENS, artifact.config.max_position_embeddings)
    prompt = [0, artifact.config.vocab_size - 1][: max(context_tokens - 1, 1)]
    answer_tokens = min(2, context_tokens - len(prompt))
    sizes = {"row_count_max": 64, "context_tokens": context_tokens}
    scratch = _backend("native").scratch_size_bytes(program, artifact.tensors, **sizes)
    require(scratch > 0, "a plan states its size")
    if scratch > _SCRATCH_SIZE_BYTES_MAX or not answer_tokens:
        outcomes.reached("too large to run, or no room for an answer")
        return
    found = []
    for name in ("native", "reference"):
        plan = _backend(name).compile(program, artifact.tensors, **sizes)
        try:
            found.append(generate(plan, [prompt], max_tokens=answer_tokens))
        finally:
            plan.close()
        outcomes.reached(f"ran on {name}")
    require(found[0] == found[1], "both backends compute the same")


def mutate(data: bytes, size_bytes_max: int, seed: int, mutated: ByteMutator) -> bytes:
    """Change the file's bytes, or one section of it with everything around put right again.

    Most inputs of a corpus are refused at their first defect. So a changed section mostly goes into
    a sound file, where it is the only one.
    """
    choices = Choices(struct.pack("<I", seed) * 16)
    sections = section_contents(data)
    if not sections or choices.below(8) == 0:
        return sealed(mutated(data, size_bytes_max))
    if choices.below(4):
        data = choices.pick(_sound_files())
        sections = {**section_contents(data), **(sections if choices.is_chosen(2) else {})}
    kind = choices.pick(sorted(sections))
    content = sections[kind]
    if kind in JSON_SECTIONS and not choices.is_chosen(4):
        changed = edited_json(content, Choices(mutated(struct.pack("<Q", seed) * 8, 128)))
    elif kind is SectionType.WEIGHTS and not choices.is_chosen(8):
        changed = overwritten(content, choices)
    else:
        changed = mutated(content, min(2 * len(content) + 16, size_bytes_max))
    file = with_changed_section(data, kind, changed)
    return file if len(file) <= size_bytes_max else data


@cache
def _sound_files() -> list[bytes]:
    return [(TARGET.seeds_folder / f"{name}.bin").read_bytes() for name in _SOUND]


TARGET: Final = Target(
    name="artifact",
    subject="a sealed .sslm to the reader, the program, and a step on both backends",
    run=run,
    modules=(
        "sslm.artifact.artifact",
        "sslm.artifact.config_section",
        "sslm.artifact.golden",
        "sslm.artifact.int4_checks",
        "sslm.artifact.provenance",
        "sslm.artifact.reading",
        "sslm.artifact.tensor_checks",
        "sslm.artifact.tokenizer_section",
        "sslm.backends.native",
        "sslm.backends.reference",
        "sslm.formats.bounded_reader",
        "sslm.formats.sslm.container",
        "sslm.formats.sslm.canonical_json",
        "sslm.formats.sslm.tensors",
        "sslm.formats.sslm.tokenizer",
        "sslm.model",
        "sslm.program",
    ),
    size_bytes_max=_SIZE_BYTES_MAX,
    reaches=("ran on native", "ran on reference"),
    mutate=mutate,
)
