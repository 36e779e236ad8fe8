"""Writing the seeds: ``python -m fuzz.make_seeds`` puts them beside the targets."""

import argparse
import shutil
from collections.abc import Callable, Mapping
from typing import Final

from fuzz.batch_seeds import batch_seeds
from fuzz.hostile_seeds import (
    artifact_json_seeds,
    artifact_seeds,
    gguf_field_seeds,
    gguf_seeds,
    option_seeds,
    template_seeds,
    tokenizer_seeds,
)
from fuzz.record_seeds import record_seeds
from fuzz.save_seeds import save_seeds
from fuzz.schema_seeds import schema_seeds
from fuzz.target import SEEDS_FOLDER

Seeds = Mapping[str, bytes]

MAKERS: Final[dict[str, Callable[[], Seeds]]] = {
    "gguf": gguf_seeds,
    "gguf_fields": gguf_field_seeds,
    "artifact": artifact_seeds,
    "artifact_json": artifact_json_seeds,
    "save": save_seeds,
    "record": record_seeds,
    "schema": schema_seeds,
    "tokenizer": tokenizer_seeds,
    "template": template_seeds,
    "options": option_seeds,
    "batch": batch_seeds,
}
"""Name of a target -> what makes its seeds, by file name; the same bytes on every machine."""


def write_seeds() -> None:
    """Write all seeds in place of those that are there."""
    shutil.rmtree(SEEDS_FOLDER, ignore_errors=True)
    for target, make in MAKERS.items():
        folder = SEEDS_FOLDER / target
        folder.mkdir(parents=True)
        for name, data in make().items():
            (folder / f"{name}.bin").write_bytes(data)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    write_seeds()
