"""The commands that documents, docstrings and ``--help`` texts print."""

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ("*.md", "docs/*.md", "tests/**/*.md", "fuzz/**/*.md")
PROGRAMS: Final = tuple(
    f"{folder}/**/*.py" for folder in ("benchmarks", "tools", "fuzz", "examples", "tests")
)

_INLINE: Final = re.compile(r"``([^`]+)``|`([^`]+)`")
_ASSIGNMENT: Final = re.compile(r"[A-Z_]+=\S*$")
_PYTHON: Final = re.compile(r"(\S+/)?(python3?|PYTHON)$")
_RUNS_OURS: Final = re.compile(r"(\S+/)?(python3?|PYTHON) (-[mX] \S+|\S+\.py)")
_TOOL: Final = re.compile(r"(\.venv/bin/)?(sslm|pytest|ruff|mypy|lint-imports|cmake) \S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command as it is printed.

    Attributes:
        place: The file that prints it.
        words: Its words, from the program on, without the brackets of what may be left out.
    """

    place: str
    words: tuple[str, ...]

    @property
    def is_python(self) -> bool:
        """Whether Python runs a script or a module of ours."""
        return _PYTHON.match(self.words[0]) is not None

    @property
    def program(self) -> tuple[str, ...]:
        """Return what Python is told to run: ``-m benchmarks.saves`` or a path."""
        words = list(self.words[1:])
        while words[:1] == ["-X"]:
            del words[:2]
        return tuple(words[:2] if words[:1] == ["-m"] else words[:1])

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options behind the program."""
        start = self.words.index(self.program[-1]) + 1 if self.is_python else 1
        behind = self.words[start:]
        return tuple(word.partition("=")[0] for word in behind if re.match(r"--?[A-Za-z]", word))

    @property
    def paths(self) -> Iterator[str]:
        """Yield what has to be in the checkout."""
        folders = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "build"}
        for word in self.words:
            path = word.removesuffix("...").rstrip("/")
            if path.partition("/")[0] in folders and "/" in path and path.isprintable():
                yield path


def documented() -> list[Command]:
    """Return all commands of all pages and docstrings, each once."""
    found: dict[tuple[str, ...], Command] = {}
    for place, text in _texts():
        for line in _lines(text):
            for words in commands_of(line):
                found.setdefault(words, Command(place=place, words=words))
    return list(found.values())


def _texts() -> Iterator[tuple[str, str]]:
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    for pattern in PROGRAMS:
        for path in sorted(ROOT.glob(pattern)):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            yield path.relative_to(ROOT).as_posix(), ast.get_docstring(tree) or ""


def _lines(text: str) -> Iterator[str]:
    """Yield what is printed as code: indented, between fences, or within a line."""
    text = text.replace("\\\n", " ")
    is_fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif is_fenced or line.startswith("    "):
            yield line.strip()
        else:
            yield from (long or short for long, short in _INLINE.findall(line))


def commands_of(line: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command of a line of code that we can tell to be one."""
    line = re.split(r"\s#\s|\s{3,}", line.removeprefix("$ "))[0]
    # What may be left out counts as said: ``[--json]``, but not the bracket of ``sslm[hf]``.
    line = re.sub(r"(?<=\s)\[|\](?=\s|$)", " ", line.replace("...", ""))
    for part in re.split(r"&&|\||;", line):
        try:
            words = shlex.split(part.partition(" < ")[0].partition(" > ")[0])
        except ValueError:  # A quotation mark that is not closed: prose.
            continue
        while words and _ASSIGNMENT.match(words[0]):
            del words[0]
        line_of_program = " ".join(words[:3])
        if "\\0" in part:  # What a digest begins with.
            continue
        if _RUNS_OURS.match(line_of_program) or _TOOL.match(line_of_program):
            yield tuple(words)
