"""Whether ``verify`` finds one changed weight code of a sealed artifact, and names its segment."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.gguf_files import random_llama_gguf
from tests.tampering import (
    named_segment,
    nudge_weight,
    random_place,
    readers_of,
    replace_weight,
    was_computed,
)

from sslm.artifact import read_artifact
from sslm.convert.conversion import convert_gguf
from sslm.engine.model import Model
from sslm.opening.runner import build_program


@dataclass(frozen=True, kw_only=True)
class TamperRow:
    """What became of the changes of one artifact.

    Args:
        model: Its name.
        places: Changes made, one at a time.
        by_values: Found by the values that the named segment computes.
        by_weight_digest: Too small to move a golden run, found by the digests of the weights.
        missed: Changes that went unnoticed, or were blamed on a segment that does not read them.
    """

    model: str
    places: int
    by_values: int
    by_weight_digest: int
    missed: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every change was found where it is."""
        return not self.missed


def detect_changes(folder: Path, models: Sequence[Path], *, flips: int) -> list[TamperRow]:
    """Change *flips* weight codes of a random model and of each given artifact."""
    source = random_llama_gguf(
        folder / "tamper.gguf",
        seed=9,
        hidden_size=72,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=24,
        intermediate_size=100,
        vocab_size=275,
        tied=False,
    )
    converted = folder / "random, 4 layers, untied.sslm"
    convert_gguf(source, converted)
    return [detect(path, folder, flips=flips) for path in (converted, *models)]


def detect(path: Path, folder: Path, *, flips: int) -> TamperRow:
    """Change *flips* weight codes of one artifact, spread over its segments.

    Every other change is the least there is, the others the largest.
    """
    file = path.read_bytes()
    with read_artifact(path) as artifact:
        program = build_program(artifact)
    random = Random(path.stem)
    found = {True: 0, False: 0}
    missed: list[str] = []
    for index in range(flips):
        tensor, row, column = random_place(file, program, random)
        changed = folder / "changed.sslm"
        change = replace_weight if index % 2 else nudge_weight
        changed.write_bytes(change(file, tensor, row=row, column=column))
        with Model(changed) as model:
            difference = model.verify().first_difference
        if named_segment(difference) in readers_of(program, tensor):
            found[was_computed(difference)] += 1
        else:
            missed.append(f"{tensor}[{row}, {column}]: {difference}")
    return TamperRow(
        model=path.stem,
        places=flips,
        by_values=found[True],
        by_weight_digest=found[False],
        missed=tuple(missed),
    )
