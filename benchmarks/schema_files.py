"""Sizes and times of compiled schemas: how large files are, and what reading and checking takes.

    python -m benchmarks.schema_files [--vocabulary FILE.gguf]... [--only WORD] [--spacing WORD]
        [--free-keys WORD] [--json]

Every schema of tests/schemas is compiled for each vocabulary, written, read and cross-checked.
Times are milliseconds of processor time. Exit 1 if one does not come back as it was.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.data import shared_data

from sslm.answer_schemas.schema import Schema
from sslm.answer_schemas.vocabulary import schema_vocabulary
from sslm.convert.vocabulary import vocabulary_from_gguf
from sslm.formats.gguf.file import read_gguf
from sslm.schema.documents.options import FreeKeyChoice, SchemaOptions
from sslm.schema.regular.spacing import Spacing
from sslm.schema.schema_compiler import compile_schema
from sslm.text.tokenizer import Tokenizer

FOLDER = Path(__file__).parents[1] / "tests" / "schemas"
VOCABULARIES = ("vocab/ggml-vocab-starcoder.gguf", "vocab/ggml-vocab-qwen2.gguf")
COLUMNS = ("states", "masks", "dense", "bytes", "front_ms", "compile_ms", "load_ms", "check_ms")


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and its milliseconds."""
    start = time.process_time()
    found = work()
    return found, 1000 * (time.process_time() - start)


def measured(
    source: Path, tokenizer: Tokenizer, path: Path, options: dict[str, Any]
) -> dict[str, Any]:
    """Compile, write, read and check one schema."""
    _, front = timed(lambda: compile_schema(source.read_bytes(), SchemaOptions(**options)))
    schema, compiling = timed(lambda: Schema.compile(source, tokenizer=tokenizer, **options))
    schema.save(path)
    found, loading = timed(lambda: Schema.load(path))
    _, checking = timed(lambda: found.cross_check(tokenizer))
    return {
        "schema": source.stem,
        "is_same": found == schema,
        "states": schema.state_count,
        "masks": schema.mask_count,
        "dense": schema.mask_count * ((tokenizer.vocab_size + 31) // 32 * 4),
        "bytes": schema.size_bytes,
        "front_ms": front,
        "compile_ms": compiling,
        "load_ms": loading,
        "check_ms": checking,
    }


def measure(vocabulary: Path, only: str, options: dict[str, Any]) -> dict[str, Any]:
    """Measure the schemas with *only* in their names with one vocabulary."""
    tokenizer = Tokenizer(vocabulary_from_gguf(read_gguf(vocabulary.read_bytes()).metadata))
    _, content = timed(lambda: schema_vocabulary(tokenizer))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.sslms"
        sources = [source for source in sorted(FOLDER.glob("*.json")) if only in source.name]
        rows = [measured(source, tokenizer, path, options) for source in sources]
    return {
        "vocabulary": vocabulary.name,
        "tokens": tokenizer.vocab_size,
        "vocabulary_ms": content,
        "median": {name: statistics.median(row[name] for row in rows) for name in COLUMNS},
        "sum": {name: sum(row[name] for row in rows) for name in COLUMNS},
        "most": {name: max(row[name] for row in rows) for name in COLUMNS},
        "schemas": rows,
    }


def print_table(found: dict[str, Any]) -> None:
    """Print what was measured with one vocabulary."""
    print(f"{found['vocabulary']}: {found['tokens']} tokens, {found['vocabulary_ms']:.0f} ms")
    print(f"{'schema':24}" + "".join(f"{name:>12}" for name in COLUMNS))
    for name, row in [
        *((row["schema"], row) for row in found["schemas"]),
        ("median", found["median"]),
        ("most", found["most"]),
        ("sum", found["sum"]),
    ]:
        print(f"{name:24}" + "".join(f"{row[column]:12.0f}" for column in COLUMNS))


def main() -> int:
    """Measure; return 1 if a schema did not come back."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--vocabulary", type=Path, action="append", help="of a GGUF file")
    parser.add_argument("--only", default="", help="only schemas with this in their name")
    parser.add_argument("--spacing", choices=get_args(Spacing), default="compact")
    parser.add_argument("--free-keys", choices=get_args(FreeKeyChoice), default="allow")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    vocabularies = arguments.vocabulary or [shared_data(name) for name in VOCABULARIES]
    options = {"spacing": arguments.spacing, "free_keys": arguments.free_keys}
    results = [measure(vocabulary, arguments.only, options) for vocabulary in vocabularies]
    if arguments.json:
        print(json.dumps(results, indent=1))
    else:
        for found in results:
            print_table(found)
    return 0 if all(row["is_same"] for found in results for row in found["schemas"]) else 1


if __name__ == "__main__":
    sys.exit(main())
