"""The rules of style that a program can check, over the sources of the repository.

The files are those of the checkout, whatever package is installed. Each list of exceptions gives
its reasons, and an exception that nothing needs any more fails too.
"""

import ast
import re
import subprocess
from collections.abc import Callable, Container, Iterator, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.conftest import LONG_MODULE

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "src" / "sslm"
NATIVE: Final = ROOT / "native"

MODULE_LINES_MAX: Final = 500
MODULE_LINES_AIM: Final = 300
FUNCTION_LINES_MAX: Final = 70
NATIVE_LINE_CHARS_MAX: Final = 120

UNNAMED_SUBJECTS: Final = {"utils", "helpers", "common", "misc", "manager"}


class Exemption(NamedTuple):
    """A module that need not follow a rule, and why."""

    module: str
    reason: str


LONG_MODULES: Final = (
    Exemption("limits", "every hard bound in one table, each with its reason"),
    Exemption("native_interface", "what a tool writes from the C header"),
)
"""Modules that read better whole."""

SWALLOWING: Final = (
    Exemption("catalog/hub_child", "a process of its own, which tells its parent what ended it"),
    Exemption("cli/app", "the edge, where every error becomes an exit code"),
    Exemption("backends/native/hook", "nothing may pass through C; the run raises it"),
)
"""Modules that catch whatever is raised and do not raise it at once."""

TWO_SUBJECTS: Final = (
    Exemption("opening/runner", "a plan cannot run without the memory it is admitted for"),
    Exemption("errors/engine", "opening and using are what one object offers"),
    Exemption("errors/native", "the two sides of one boundary"),
    Exemption("program/buffers", "read and write: what ops do with one buffer"),
    Exemption("text/templates/allowlist", "one list, of names from two sources"),
    Exemption("text/tokenizer", "there and back is one mapping"),
)
"""Modules whose first line has an "and" although their subject is one."""

FLOAT_EDGES: Final = (
    Exemption("backends/reference/attention", "float64 BLAS for integer sums proven below 2**53"),
    Exemption("backends/reference/kernels", "float64 BLAS for integer sums proven below 2**53"),
    Exemption("backends/reference/panels", "weights as float64 for that BLAS"),
    *(
        Exemption(f"bench/{name}", "times and speeds, which decide nothing")
        for name in ("ceiling", "frame_times", "measuring", "plot")
    ),
    Exemption("cli/commands/bench", "shows those"),
    Exemption("answering/generation", "milliseconds of a run, which decide nothing"),
    Exemption("serving/openai_logprobs", "six exact decimal places as JSON numbers"),
    Exemption("runtime/guards", "seconds for which a thread waits for its turn"),
    Exemption("formats/gguf/tensors", "dequantizes a source file's blocks to float32"),
)
"""Modules outside ``convert/`` that may compute with floats. docs/internals.md lists them."""

NATIVE_WORDS: Final = ("float", "double", "malloc", "calloc", "realloc", "printf", "fprintf")
NATIVE_EXEMPTIONS: Final[tuple[Exemption, ...]] = ()
"""Native files that may allocate or print, by path below ``native/``."""

DOCUMENTS: Final = {".py", ".c", ".h", ".md", ".toml", ".txt", ".json", ".yml", ".yaml", ".cfg", ""}


def _modules() -> dict[str, Path]:
    paths = {path.relative_to(PACKAGE).with_suffix(""): path for path in PACKAGE.rglob("*.py")}
    return {name.as_posix(): path for name, path in sorted(paths.items())}


def _native_files() -> dict[str, Path]:
    paths = sorted(path for path in NATIVE.rglob("*") if path.suffix in {".c", ".h"})
    return {path.relative_to(NATIVE).as_posix(): path for path in paths}


def _tracked_files() -> list[str]:
    """Return what git tracks, or all that lies in an unpacked source distribution."""
    if (ROOT / ".git").exists():
        listing = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
        found = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True, text=True)
        return found.stdout.rstrip("\0").split("\0")
    made = re.compile(r"\.venv|\.\w+_cache|\.hypothesis|build$|dist$|.*\.egg-info")
    folders = [path for path in ROOT.iterdir() if path.is_dir() and not made.match(path.name)]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [path.relative_to(ROOT).as_posix() for path in (*files, *ROOT.glob("*"))]


def _tracked_texts() -> Iterator[tuple[str, str]]:
    """Yield path and text of every text file that git tracks, this one left out."""
    for name in _tracked_files():
        path = ROOT / name
        if path.suffix in DOCUMENTS and path.is_file() and path != Path(__file__):
            yield name, path.read_text(encoding="utf-8")


MODULES: Final = _modules()
NATIVE_FILES: Final = _native_files()

each_module = pytest.mark.parametrize("module", MODULES)
each_native_file = pytest.mark.parametrize("native_file", NATIVE_FILES)


def _tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def _exempt(exemptions: tuple[Exemption, ...]) -> set[str]:
    return {exemption.module for exemption in exemptions}


def test_there_is_something_to_check() -> None:
    """An empty list of files would pass every other test here."""
    assert "errors/status" in MODULES
    assert any(name.endswith(".c") for name in NATIVE_FILES)


@each_module
def test_a_module_stops_at_500_lines(
    module: str, record_property: Callable[[str, object], None]
) -> None:
    count = len(MODULES[module].read_text(encoding="utf-8").splitlines())
    if count > MODULE_LINES_AIM:
        record_property(LONG_MODULE, f"{module} {count}")
    assert count <= MODULE_LINES_MAX or module in _exempt(LONG_MODULES)


@each_module
def test_a_function_stops_at_70_lines(module: str) -> None:
    sizes = {
        node.name: (node.end_lineno or 0) - node.lineno + 1
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: size for name, size in sizes.items() if size > FUNCTION_LINES_MAX} == {}


@each_module
def test_a_module_is_named_after_its_subject(module: str) -> None:
    assert not UNNAMED_SUBJECTS & set(module.split("/"))


@each_module
def test_everything_public_says_what_it_is(module: str) -> None:
    tree = _tree(module)
    assert ast.get_docstring(tree)
    assert [name for name, node in _public(tree) if not ast.get_docstring(node)] == []


Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _public(parent: ast.Module | ast.ClassDef) -> Iterator[tuple[str, Documented]]:
    """Yield public classes, functions and methods; overloads are described once, below them."""
    for node in parent.body:
        if not isinstance(node, Documented) or node.name.startswith("_"):
            continue
        if not any(ast.unparse(mark).endswith("overload") for mark in node.decorator_list):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _public(node)


def _joins_subjects(module: str) -> bool:
    """Tell whether the first line names two things; what follows a comma or a colon explains."""
    if module.rpartition("/")[2] == "__init__":
        return False  # A package holds several subjects.
    first_line = (ast.get_docstring(_tree(module)) or "").partition("\n")[0]
    return " and " in re.split(r"[:;.,](?:\s|$)", first_line, maxsplit=1)[0]


def test_a_module_has_one_subject() -> None:
    assert {module for module in MODULES if _joins_subjects(module)} == _exempt(TWO_SUBJECTS)


def _floats(module: str) -> Iterator[str]:
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            yield f"line {node.lineno}: {node.value!r}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "float":
            yield f"line {node.lineno}: float()"
        if isinstance(node, ast.Attribute) and re.match(r"float|double|longdouble|half", node.attr):
            yield f"line {node.lineno}: {node.attr}"
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
            yield f"line {node.lineno}: /="
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not _joins_paths(node):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def _joins_paths(node: ast.BinOp) -> bool:
    """Tell a path from a quotient: a text on the right, or a place on the left."""
    if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Div):
        return _joins_paths(node.left)
    if isinstance(node.right, ast.JoinedStr):
        return True
    if isinstance(node.right, ast.Constant) and isinstance(node.right.value, str):
        return True
    return bool(re.search(r"(path|directory|folder|root|home)(\(.*\))?$", ast.unparse(node.left)))


def test_modules_that_may_be_long_are_long() -> None:
    long = {
        module
        for module, path in MODULES.items()
        if len(path.read_text(encoding="utf-8").splitlines()) > MODULE_LINES_MAX
    }
    assert long == _exempt(LONG_MODULES)


def test_no_import_leads_back() -> None:
    """Imports within functions, and those for types alone, count too."""
    names = {".".join(("sslm", *name.split("/"))): path for name, path in _modules().items()}
    modules = {name.removesuffix(".__init__"): path for name, path in names.items()}
    graph = {name: _imported(path, modules) - {name} for name, path in modules.items()}
    # Raises CycleError, which names the modules.
    TopologicalSorter(graph).prepare()


def _imported(path: Path, modules: Container[str]) -> set[str]:
    """Return the modules of the package that a module imports, whenever it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update(one if one in modules else node.module for one in inner)
    return {one for one in found if one in modules}


def test_floats_stay_at_the_edges() -> None:
    found = {module: list(_floats(module)) for module in MODULES}
    outside = {m: floats for m, floats in found.items() if floats and not m.startswith("convert/")}
    edges = _exempt(FLOAT_EDGES)
    assert {m: floats for m, floats in outside.items() if m not in edges} == {}
    assert edges - set(outside) == set()


@each_module
def test_exceptions_live_in_the_errors_package(module: str) -> None:
    if module.startswith("errors/"):
        return
    bases = [
        (node.name, ast.unparse(base))
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    ]
    assert [pair for pair in bases if re.search(r"(Error|Exception)$", pair[1])] == []


# Spelled in two parts, so that this file may hold them.
UNFINISHED: Final = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b|issue\s*#|\bhttp:" r"//")
ELSEWHERE: Final = re.compile(
    r"(?<![\w.])/(?:work|root|home/\w+|Users/\w+)/|[A-Z]:\\Users"
    r"|\bpy"
    r"pi\.org|python"
    r"hosted\.org|registry\.npm|\bcrates\.io|\banaconda\.org"
    r"|\bproxy\.golang|index"
    r"-url|INDEX"
    r"_URL"
)


def _lines(text: str, pattern: re.Pattern[str]) -> list[str]:
    lines = enumerate(text.splitlines(), 1)
    return [f"line {number}: {line.strip()}" for number, line in lines if pattern.search(line)]


@each_module
def test_a_module_is_finished(module: str) -> None:
    assert _lines(MODULES[module].read_text(encoding="utf-8"), UNFINISHED) == []


@each_native_file
def test_a_native_file_is_finished(native_file: str) -> None:
    assert _lines(NATIVE_FILES[native_file].read_text(encoding="utf-8"), UNFINISHED) == []


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    found = {name: _lines(text, ELSEWHERE) for name, text in _tracked_texts()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@each_native_file
def test_a_native_line_has_at_most_120_characters(native_file: str) -> None:
    lines = NATIVE_FILES[native_file].read_text(encoding="utf-8").splitlines()
    long = [index for index, line in enumerate(lines, 1) if len(line) > NATIVE_LINE_CHARS_MAX]
    assert long == []


def _without_comments(source: str) -> str:
    """Blank the comments and texts of a C file, keeping its lines."""
    skipped = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return skipped.sub(lambda match: "\n" * match[0].count("\n"), source)


def test_native_code_has_no_floats_and_takes_no_memory() -> None:
    word = re.compile(rf"\b({'|'.join(NATIVE_WORDS)})\b")
    found = {
        name: _lines(_without_comments(path.read_text(encoding="utf-8")), word)
        for name, path in NATIVE_FILES.items()
    }
    exempt = _exempt(NATIVE_EXEMPTIONS)
    assert {name: lines for name, lines in found.items() if lines and name not in exempt} == {}
    assert {name for name in exempt if not found.get(name)} == set()


def test_what_says_nothing_of_the_input_passes_through() -> None:
    """Memory that is short, a stack that is full and interrupts pass through every ``except``."""
    found = {
        module: [
            handler.lineno
            for node in ast.walk(_tree(module))
            if isinstance(node, ast.Try | ast.TryStar)
            for index, handler in enumerate(node.handlers)
            if _swallows(handler, node.handlers[:index])
        ]
        for module in MODULES
    }
    caught = {module: lines for module, lines in found.items() if lines}
    allowed = _exempt(SWALLOWING)
    assert {module: lines for module, lines in caught.items() if module not in allowed} == {}
    assert allowed - set(caught) == set()


def _swallows(handler: ast.ExceptHandler, before: Sequence[ast.ExceptHandler]) -> bool:
    """Tell whether what must pass may end in a handler that catches nearly everything."""
    names = _caught(handler)
    if names.isdisjoint({"", "Exception", "BaseException"}):
        return False
    if isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None:
        return False
    passed = {name for one in before if _only_raises(one) for name in _caught(one)}
    needed = {"MemoryError", "RecursionError"}
    if names & {"", "BaseException"}:
        needed |= {"KeyboardInterrupt", "SystemExit"}
    return not needed <= passed


def _caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {""}
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(kind) for kind in kinds}


def _only_raises(handler: ast.ExceptHandler) -> bool:
    first = handler.body[0]
    return isinstance(first, ast.Raise) and first.exc is None
