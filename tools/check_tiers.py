"""Prove of a built library that no CPU tier's instructions can run on a CPU without them.

    python tools/check_tiers.py [LIBRARY.so] [--json]

The library of the installed package if none is named; a stripped one will do. Its code is taken
apart (with objdump of binutils for x86-64, llvm-objdump for AArch64) and walked. What exported
functions reach, by calls or by taking an address, must be code for the baseline CPU. A tier's
kernels are reached through its table alone, so constant data must hold one table for each tier,
each must reach nothing beyond its tier, and each must reach the instruction that its tier is named
for. A function that the linker
took from one tier's objects for all would be that tier's code in another's reach. Exit 1 if
anything is wrong.
"""

import argparse
import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.cpu_extensions import UNKNOWN
from tools.disassembly import Code, DisassemblyError, read_code

TABLE_SIZE: Final = 13
"""Entries of a tier's table: SSLM_OP_COUNT of sslm_native.h, and what tells log-probabilities."""

_AVX2: Final = frozenset({"sse3", "ssse3", "sse4.1", "sse4.2", "avx2"})
TIERS: Final = {
    "x86_64": {
        "scalar": frozenset[str](),
        "avx2": _AVX2,
        "avxvnni": _AVX2 | {"avxvnni"},
        "avx512vnni": _AVX2 | {"avx512", "avx512vnni"},
        "amx": _AVX2 | {"avx512", "avx512vnni", "amx"},
    },
    "aarch64": {"scalar": frozenset[str](), "neon": frozenset({"dotprod"})},
}
"""CPU -> tier -> the extensions that it may use, smallest first."""

NAMED: Final = {
    "avx2": "avx2",
    "avxvnni": "avxvnni",
    "avx512vnni": "avx512vnni",
    "neon": "dotprod",
    "amx": "amx",
    "sha": "sha",
    "reading": "avx512",
}
"""What each must use, or it would not be what its name says."""

SHA: Final = frozenset({"sse3", "ssse3", "sse4.1", "sha"})
"""Of SHA-256, which is chosen by its address and not by a tier."""

READING: Final = frozenset({"avx2", "avx512"})
"""Of the loop that only reads, which is chosen in the same way."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one way into the library reaches.

    Args:
        name: The tier, "baseline", "sha" or "reading".
        functions: How many.
        extensions: Instructions beyond the baseline, by extension.
    """

    name: str
    functions: int
    extensions: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Report:
    """The parts of a library, and what is wrong with it."""

    library: str
    cpu: str
    parts: tuple[Part, ...]
    problems: tuple[str, ...]


def reach(code: Code, roots: Iterable[int]) -> set[int]:
    """Return the addresses of the functions that *roots* come to by calls, themselves included."""
    reached: set[int] = set()
    waiting = list(roots)
    while waiting:
        address = waiting.pop()
        if address not in reached:
            reached.add(address)
            waiting += code.functions[address].targets
    return reached


def reach_all(code: Code, roots: Iterable[int]) -> set[int]:
    """Return what *roots* come to by calls, or by taking addresses on the way."""
    reached, waiting = set[int](), set(roots)
    while waiting:
        reached |= reach(code, waiting)
        taken = {address for start in reached for address in code.functions[start].addresses}
        waiting = taken - reached
    return reached


def check(code: Code, name: str) -> Report:
    """Return the parts of a library's code, each held to what it may use."""
    parts, problems = [], []
    baseline = reach(code, code.exported)
    chosen = {taken for start in baseline for taken in code.functions[start].addresses}
    by_address = reach_all(code, chosen)
    hashing = {start for start in by_address if code.functions[start].extensions["sha"]}
    reading = {start for start in by_address if code.functions[start].extensions["avx512"]}
    others = baseline | by_address - hashing - reading
    parts.append(_part(code, "baseline", others))
    problems += _excess(code, "baseline", others, frozenset())
    problems += [f"code of no function uses {extension}" for extension in code.outside.extensions]
    parts.append(_part(code, "sha", hashing))
    problems += _excess(code, "sha", hashing, SHA)
    if code.cpu == "x86_64":
        parts.append(_part(code, "reading", reading))
        problems += _excess(code, "reading", reading, READING)
    reached = baseline | by_address
    tiers, tier_problems = _check_tables(code)
    for tier, functions in tiers:
        parts.append(_part(code, tier, functions))
        problems += _excess(code, tier, functions, TIERS[code.cpu].get(tier, frozenset()))
        reached |= functions
    problems += tier_problems
    problems += [
        f"no {NAMED[part.name]} instruction in {part.name}"
        for part in parts
        if part.name in NAMED and not part.extensions.get(NAMED[part.name])
    ]
    problems += [
        f"{function.name} uses {', '.join(function.extensions)}, and nobody was seen to call it"
        for start, function in code.functions.items()
        if start not in reached and function.extensions
    ]
    return Report(library=name, cpu=code.cpu, parts=tuple(parts), problems=tuple(problems))


def _check_tables(code: Code) -> tuple[list[tuple[str, set[int]]], list[str]]:
    """Return each tier that has a table, with its functions; and what is wrong with the tables."""
    if not code.pointers or len(code.pointers) % TABLE_SIZE:
        return [], [f"{len(code.pointers)} pointers are no tables of {TABLE_SIZE} kernels"]
    found: list[tuple[str, set[int]]] = []
    for start in range(0, len(code.pointers), TABLE_SIZE):
        functions = reach_all(code, code.pointers[start : start + TABLE_SIZE])
        used = {e for address in functions for e in code.functions[address].extensions}
        fitting = [tier for tier, allowed in TIERS[code.cpu].items() if used <= allowed]
        found.append((fitting[0] if fitting else f"table {len(found)}", functions))
    counts = Counter(tier for tier, _ in found)
    problems = [
        f"{counts[tier]} tables have the instructions of {tier}, expected one"
        for tier in TIERS[code.cpu]
        if counts[tier] != 1
    ]
    return found, problems


def _part(code: Code, name: str, functions: set[int]) -> Part:
    extensions = sum((code.functions[start].extensions for start in functions), Counter[str]())
    return Part(name=name, functions=len(functions), extensions=dict(sorted(extensions.items())))


def _excess(code: Code, part: str, functions: set[int], allowed: frozenset[str]) -> list[str]:
    return [
        f"{part} reaches {code.functions[start].name}, which uses {extension}"
        for start in sorted(functions)
        for extension in sorted(code.functions[start].extensions)
        if extension not in allowed or extension.startswith(UNKNOWN)
    ]


def installed_library() -> Path:
    """Return the path of the installed package's library."""
    spec = importlib.util.find_spec("sslm")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    for folder in folders:
        if (Path(folder) / "_native.so").is_file():
            return Path(folder) / "_native.so"
    sys.exit("no _native.so beside the package's modules: name a library")


def main() -> int:
    """Print the report and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("library", type=Path, nargs="?", help="default: the installed package's")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    path = options.library or installed_library()
    try:
        report = check(read_code(path), str(path))
    except DisassemblyError as error:
        sys.exit(str(error))
    if options.json:
        print(json.dumps(asdict(report)))
    else:
        _print_text(report)
    return 1 if report.problems else 0


def _print_text(report: Report) -> None:
    print(
        f"{report.library} ({report.cpu})\n"
        f"{'reached through':<16} {'functions':>9}  instructions beyond the baseline"
    )
    for part in report.parts:
        uses = ", ".join(f"{count} {name}" for name, count in part.extensions.items()) or "none"
        print(f"{part.name:<16} {part.functions:>9}  {uses}")
    for problem in report.problems:
        print(f"    {problem}")
    print("LEAK" if report.problems else "ok")


if __name__ == "__main__":
    sys.exit(main())
