"""The files that the engines load, made once from the default model's GGUF file and kept."""

import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.versus.workers import FOLDER, WorkerError
from sslm.catalog.cache import cache_folder
from sslm.catalog.fetch import fetch_source
from sslm.catalog.known_models import DEFAULT_NAME, KNOWN_MODELS
from sslm.convert.conversion import convert_gguf

QUANTIZER_TIMEOUT_S: Final = 600


@dataclass(frozen=True, kw_only=True)
class Files:
    """One model in every format.

    Args:
        int8: An artifact.
        int4: Another one.
        q8_0: A GGUF file that llama.cpp's quantizer made.
        q4_0: Another one.
    """

    int8: Path
    int4: Path
    q8_0: Path
    q4_0: Path


def default_work_folder() -> Path:
    """Return where files are kept: beside the cached models."""
    return cache_folder() / "versus"


def make_files(
    work: Path,
    *,
    int8: Path | None,
    int4: Path | None,
    gguf: Path | None,
    llama_pythons: list[str],
    note: Callable[[str], None],
) -> Files:
    """Return the files, making those that are neither named nor kept.

    Raises:
        WorkerError: If no build of llama.cpp quantizes.
    """
    work.mkdir(parents=True, exist_ok=True)
    kept = gguf or work / "source.gguf"
    if gguf is None and not kept.exists():
        note(f"fetching {DEFAULT_NAME}")
        with tempfile.TemporaryDirectory(dir=work) as folder:
            fetch_source(KNOWN_MODELS[DEFAULT_NAME], Path(folder)).rename(kept)
    # A source of another name must not be taken for the one that files were made from.
    stem = kept.stem if gguf is not None else DEFAULT_NAME
    artifacts = []
    for given, weights in ((int8, "int8"), (int4, "int4")):
        path = given or work / f"{stem}-{weights}.sslm"
        if not path.exists():
            note(f"converting to {weights}")
            convert_gguf(kept, path, weights=weights)
        artifacts.append(path)
    peers = []
    for kind in ("Q8_0", "Q4_0"):
        path = work / f"{stem}-{kind}.gguf"
        if not path.exists():
            note(f"quantizing to {kind}")
            _quantize(kept, path, kind, llama_pythons)
        peers.append(path)
    return Files(int8=artifacts[0], int4=artifacts[1], q8_0=peers[0], q4_0=peers[1])


def _quantize(source: Path, target: Path, kind: str, pythons: list[str]) -> None:
    """Let the first build that can write the file, which then gets its name."""
    partial = target.with_suffix(".partial")
    problems = []
    for python in pythons:
        done = subprocess.run(
            [python, FOLDER / "serve_llama_cpp.py", "quantize", source, partial, kind],
            capture_output=True,
            text=True,
            check=False,
            timeout=QUANTIZER_TIMEOUT_S,
        )
        if done.returncode == 0:
            partial.rename(target)
            return
        last = done.stderr.strip().rpartition("\n")[2]
        problems.append(f"{python}: exit code {done.returncode}: {last}")
    partial.unlink(missing_ok=True)
    raise WorkerError(f"nobody makes {target.name}: {'; '.join(problems)}")
