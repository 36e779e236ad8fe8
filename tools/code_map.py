"""Report how large the packages of ``src/sslm`` are, and how many files a request crosses.

    python -m tools.code_map [--model MODEL.sslm] [--json]

Code lines have neither comments nor docstrings nor blanks. With a model, two answers and one
schema are run under a profiler, on the sources that Python imports.
"""

import argparse
import ast
import io
import json
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Final

SOURCES: Final = Path(__file__).parents[1] / "src" / "sslm"
GENERATED: Final = frozenset({"native_interface.py"})
"""What tools write."""
THIN_LINES_MAX: Final = 39
_BLANK: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a package is.

    Args:
        files: Modules, ``__init__.py`` included.
        thin_files: Modules of fewer than 40 lines, ``__init__.py`` left out.
        lines: All lines.
        code_lines: Lines with code on them.
    """

    files: int = 0
    thin_files: int = 0
    lines: int = 0
    code_lines: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(
            files=self.files + other.files,
            thin_files=self.thin_files + other.thin_files,
            lines=self.lines + other.lines,
            code_lines=self.code_lines + other.code_lines,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """What a call went through.

    Args:
        calls: Calls of Python functions of the package.
        functions: Different ones.
        files: Different files that these are in.
    """

    calls: int
    functions: int
    files: int


def code_line_count(text: str) -> int:
    """Return how many lines of a module hold code: no comment, docstring or blank."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _BLANK:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def size_of(path: Path) -> Size:
    """Return the size of one module."""
    text = path.read_text(encoding="utf-8")
    line_count = len(text.splitlines())
    is_thin = line_count <= THIN_LINES_MAX and path.name != "__init__.py"
    return Size(
        files=1, thin_files=int(is_thin), lines=line_count, code_lines=code_line_count(text)
    )


def package_sizes(sources: Path = SOURCES) -> dict[str, Size]:
    """Return the size of each package, by its path; modules beside the packages are ``.``."""
    sizes: dict[str, Size] = {}
    for path in sorted(sources.rglob("*.py")):
        if path.name not in GENERATED:
            package = path.parent.relative_to(sources).as_posix()
            sizes[package] = sizes.get(package, Size()) + size_of(path)
    return sizes


def journey_of(call: Callable[[], object]) -> Journey:
    """Return what a call goes through, in its own thread."""
    import sslm

    package = str(Path(str(sslm.__file__)).parent)
    seen: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(package):
            seen[code.co_filename, code.co_qualname] += 1

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Journey(calls=seen.total(), functions=len(seen), files=len({file for file, _ in seen}))


def journeys(path: Path) -> Iterator[tuple[str, Journey]]:
    """Yield the ways of calls on a model, which have all run once before."""
    import sslm

    document = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    with sslm.Model(path) as model:

        def answer(count: int) -> Callable[[], object]:
            return lambda: model.generate([1], max_tokens=count)

        def schema() -> object:
            return sslm.Schema.compile(document, tokenizer=model.tokenizer)

        for call in (answer(4), schema):
            call()
        for count in (4, 5):
            yield f"generate, {count} tokens", journey_of(answer(count))
        yield "Schema.compile, one key", journey_of(schema)


def main(arguments: list[str] | None = None) -> None:
    """Print sizes, and ways if there is a model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, help="a .sslm file, to profile calls on")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    sizes = package_sizes()
    total = sum(sizes.values(), Size())
    ways = dict(journeys(options.model)) if options.model else {}
    if options.json:
        facts = {
            "packages": {name: asdict(size) for name, size in sizes.items()},
            "total": asdict(total),
            "journeys": {name: asdict(way) for name, way in ways.items()},
        }
        print(json.dumps(facts, indent=2))
        return
    print(f"{'package':<24}{'files':>7}{'thin':>6}{'lines':>8}{'code':>8}")
    for name, size in [*sizes.items(), ("all", total)]:
        row = f"{size.files:>7}{size.thin_files:>6}{size.lines:>8}{size.code_lines:>8}"
        print(f"{name:<24}{row}")
    for name, way in ways.items():
        print(f"{name}: {way.calls} calls, {way.functions} functions, {way.files} files")


if __name__ == "__main__":
    main()
