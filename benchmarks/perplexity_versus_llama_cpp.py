"""Perplexity of int4 and int8 beside llama.cpp's Q4_0 and Q8_0 of the same float weights.

    python benchmarks/perplexity_versus_llama_cpp.py [--json | --markdown] [--windows N]
        [--threads 2] [--int8 M.sslm] [--int4 M.sslm] [--gguf M.gguf] [--work FOLDER]
        [--llama-python PYTHON]... [--text NAME=PATH]...

One protocol for all: the same token ids, cut into the same windows of 512, each read from an empty
context, and all tokens of a window scored but its first. The float weights are those of the source
file in float32, as `sslm eval` has them. The exit code is 1 if a text has a higher perplexity with
int4 than with Q4_0.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from tests.data import shared_data

from benchmarks.versus.files import Files, default_work_folder, make_files
from benchmarks.versus.workers import FOLDER
from sslm.artifact import read_artifact
from sslm.convert.artifact_evaluation import ArtifactLogits
from sslm.convert.evaluate import LogitsBlocks, exponentials
from sslm.convert.source import GgufModelSource
from sslm.opening.runner import Runner, open_backend
from sslm.text.tokenizer import Tokenizer

WINDOW_TOKENS: Final = 512
ROWS_PER_BLOCK: Final = 64
PEERS: Final = {"int4": "Q4_0", "int8": "Q8_0"}

Windows = list[list[int]]


def note(text: str) -> None:
    """Tell a person how far it is."""
    print(text, file=sys.stderr, flush=True)


def default_texts() -> dict[str, Path]:
    """Return the texts that are scored if none are named."""
    return {
        "prose": shared_data("text/alice29.txt"),
        "data": shared_data("json-schema-test-suite/tests/draft2020-12/dynamicRef.json"),
        "law": Path(__file__).resolve().parents[1] / "LICENSE",
    }


def windows_of(tokenizer: Tokenizer, text: str, bos: int | None, count: int | None) -> Windows:
    """Cut a text; *count* windows evenly spread over it, or all."""
    ids = tokenizer.encode(text)
    prefix = [] if bos is None else [bos]
    step = WINDOW_TOKENS - len(prefix)
    found = [[*prefix, *ids[at : at + step]] for at in range(0, len(ids), step)]
    found = [window for window in found if len(window) > 1]
    if count is None or count >= len(found):
        return found
    return [found[index * len(found) // count] for index in range(count)]


def log_likelihood(model: LogitsBlocks, window: list[int]) -> float:
    """Return the summed log-likelihood of all tokens of a window but its first."""
    total, position = 0.0, 0
    for block in model(np.array(window, dtype=np.int64), ROWS_PER_BLOCK):
        for row in block[: len(window) - 1 - position]:
            position += 1
            logits, _, powers_sum = exponentials(row)
            total += float(logits[window[position]]) - math.log(powers_sum)
    return total


def of_artifact(path: Path, threads: int, windows: Windows) -> Iterator[float]:
    """Score windows with an artifact on the native backend."""
    with read_artifact(path) as artifact:
        backend = open_backend("auto", tier="auto", threads=threads)
        runner = Runner(artifact, backend, context_tokens=WINDOW_TOKENS)
        model = ArtifactLogits(artifact, runner).logits_blocks
        for window in windows:
            yield log_likelihood(model, window)
        runner.close()


def of_llama_cpp(path: Path, threads: int, windows: Windows, pythons: list[str]) -> list[float]:
    """Score windows with the first build of llama.cpp that runs."""
    problems = []
    for python in pythons:
        done = subprocess.run(
            [python, FOLDER / "score_llama_cpp.py", path, str(threads)],
            input=json.dumps(windows),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            scores: list[float] = json.loads(done.stdout)
            return scores
        problems.append(f"{python}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    raise SystemExit("; ".join(problems))


def measure(files: Files, gguf: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return perplexities by text and model, and their ratios."""
    with read_artifact(files.int8) as artifact:
        tokenizer = Tokenizer(artifact.vocabulary)
        bos = artifact.vocabulary.bos_token_id if artifact.vocabulary.add_bos else None
    texts: dict[str, Any] = {}
    for name, path in options.texts.items():
        text = path.read_bytes().decode()
        windows = windows_of(tokenizer, text, bos, options.windows)
        tokens = sum(len(window) - 1 for window in windows)
        scores: dict[str, float] = {}
        for model, file in (("int4", files.int4), ("int8", files.int8)):
            note(f"{name}: {model}")
            scores[model] = sum(of_artifact(file, options.threads, windows))
        for model, file in (("Q4_0", files.q4_0), ("Q8_0", files.q8_0)):
            note(f"{name}: {model}")
            scores[model] = sum(of_llama_cpp(file, options.threads, windows, options.llama_python))
        note(f"{name}: float32")
        with GgufModelSource.open(gguf) as source:
            reference = source.family.float_pass(source).logits_blocks
            scores["float32"] = sum(log_likelihood(reference, window) for window in windows)
        perplexity = {model: math.exp(-score / tokens) for model, score in scores.items()}
        texts[name] = {"tokens": tokens, "windows": len(windows), "perplexity": perplexity}
    ratios = {
        f"{ours}_perplexity_ratio_to_{peer}": {
            name: found["perplexity"][ours] / found["perplexity"][peer]
            for name, found in texts.items()
        }
        for ours, peer in (*PEERS.items(), ("int4", "float32"), ("int8", "float32"))
    }
    sizes = {"int4": files.int4, "int8": files.int8, "Q4_0": files.q4_0, "Q8_0": files.q8_0}
    return {
        "texts": texts,
        "ratios": ratios,
        "size_bytes": {model: path.stat().st_size for model, path in sizes.items()},
    }


def table(found: dict[str, Any]) -> str:
    """Return the perplexities as a Markdown table."""
    models = ["float32", "int8", "Q8_0", "int4", "Q4_0"]
    lines = [
        f"| text | tokens | {' | '.join(models)} | int4 / Q4_0 | int8 / Q8_0 |",
        "|---" * (len(models) + 4) + "|",
    ]
    for name, text in found["texts"].items():
        values = [f"{text['perplexity'][model]:.4f}" for model in models]
        ratios = [
            f"{found['ratios'][f'{ours}_perplexity_ratio_to_{peer}'][name]:.4f}"
            for ours, peer in PEERS.items()
        ]
        lines.append(f"| {' | '.join([name, str(text['tokens']), *values, *ratios])} |")
    return "\n".join(lines)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("int8", "int4", "gguf"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--work", type=Path, help="where files are kept")
    parser.add_argument("--llama-python", action="append", metavar="PYTHON")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--windows", type=int, help="windows of each text; all by default")
    parser.add_argument("--text", action="append", metavar="NAME=PATH")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    options.llama_python = options.llama_python or [sys.executable]
    given = dict(text.split("=", 1) for text in options.text or ())
    options.texts = {name: Path(path) for name, path in given.items()} or default_texts()
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 1 if a peer is better."""
    options = parsed(arguments)
    work = options.work or default_work_folder()
    files = make_files(
        work,
        int8=options.int8,
        int4=options.int4,
        gguf=options.gguf,
        llama_pythons=options.llama_python,
        note=note,
    )
    found = measure(files, options.gguf or work / "source.gguf", options)
    print(json.dumps(found) if options.json else table(found))
    return 1 if max(found["ratios"]["int4_perplexity_ratio_to_Q4_0"].values()) > 1 else 0


if __name__ == "__main__":
    sys.exit(main())
