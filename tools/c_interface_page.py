"""Write the page of published calls and refusals, docs/c-interface.md, from the marks of tests.

    python -m tools.c_interface_page [--check]

A test says what it covers by a mark, whose arguments are plain words:

    @pytest.mark.published_call("sslm_prefill", refusal="SSLM_TOKEN_ID_OUT_OF_RANGE", here="…")

*here* names what does it in this package, and *case* says what is particular about it, if anything.
With ``--check`` nothing is written; the exit code tells whether the page is up to date.
"""

import argparse
import ast
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.published_calls import CALLS, CAUSES, LATER

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "c-interface.md"
MARK: Final = "pytest.mark.published_call"
ALL_CALLS: Final = {name: causes for calls in CALLS.values() for name, causes in calls.items()}

WIDTH: Final = 140
TITLE: Final = "# The C interface: calls and refusals"
INTRODUCTION: Final = (
    """
    `python -m tools.c_interface_page` writes this page from the marks of the tests. It lists only
    rows that a test shows, or says why they come later.
    """,
    """
    SuperSLM publishes a CPU interface in C, `sslm_*`, with {call_count} calls and {cause_count}
    causes of refusal. This package covers {covered_calls} of the calls and {covered_causes} of the
    causes in Python. Each cause has its own number (`sslm.Status`); callers catch classes
    (`sslm.errors`). Each test of a refusal shows two things. The sequences and their pool are as
    they were before the call: a save, all counters and the pages. The next answer is that of a lone
    sequence on the reference backend. Tests run on the reference and on the native backend, with a
    small llama and with a recurrent model, unless a thing exists only once. Null handles are left
    to the C ABI, since only a caller in C can pass one.
    """,
)


class MarkError(Exception):
    """A mark says what the table cannot show."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What one test covers.

    Args:
        call: The call.
        refusal: Why it refuses, or empty if it does what it is for.
        case: What is particular, or empty.
        here: What does it in this package.
        test: Path of the test, and its name.
    """

    call: str
    refusal: str
    case: str
    here: str
    test: str


def read_marks(folder: Path) -> list[Mark]:
    """Return the marks of all tests below a folder, in the order of their files and lines.

    Raises:
        MarkError: If one names what is unknown, or has other arguments.
    """
    marks = []
    for path in sorted(folder.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if MARK not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                test = f"{path.relative_to(folder.parent).as_posix()}::{node.name}"
                marks += [_mark(call, test) for call in _marks_of(node)]
    return marks


def _marks_of(function: ast.FunctionDef) -> Iterator[ast.Call]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == MARK:
            yield decorator


def _mark(call: ast.Call, test: str) -> Mark:
    try:
        names = [ast.literal_eval(argument) for argument in call.args]
        words = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        mark = Mark(**({"refusal": "", "case": "", "call": names[0], "test": test} | words))
    except (ValueError, TypeError, IndexError) as error:
        raise MarkError(f"{test}: {ast.unparse(call)}: {error}") from error
    if len(names) != 1 or mark.call not in ALL_CALLS:
        raise MarkError(f"{test}: {names} is no call")
    if mark.refusal and mark.refusal not in ALL_CALLS[mark.call]:
        raise MarkError(f"{test}: {mark.call} does not refuse with {mark.refusal}")
    return mark


def reason_for_later(call: str, refusal: str = "") -> str | None:
    """Return why a call, or one of its refusals, is not covered yet, or None if it is due."""
    names = (call, refusal, f"{call} {refusal}")
    return next((LATER[name] for name in names if name in LATER), None)


def missing(marks: list[Mark]) -> list[str]:
    """Return what is due and has no test, and what is said to come later and has one."""
    tested = {(mark.call, mark.refusal) for mark in marks}
    wrong = []
    for call, causes in ALL_CALLS.items():
        for refusal in ("", *causes):
            name = f"{call} {refusal}".strip()
            is_tested, is_later = (call, refusal) in tested, reason_for_later(call, refusal)
            if not is_tested and not is_later:
                wrong.append(f"{name} has no test")
            if is_tested and is_later:
                wrong.append(f"{name} has a test and is listed as coming later")
    return wrong


def render(marks: list[Mark]) -> str:
    """Return the page."""
    covered = [cause for cause in CAUSES if any(mark.refusal == cause for mark in marks)]
    counts = {
        "call_count": len(_interface(ALL_CALLS)),
        "cause_count": len(CAUSES),
        "covered_calls": len(_interface(mark.call for mark in marks)),
        "covered_causes": len(covered),
    }
    texts = [textwrap.fill(" ".join(text.split()).format(**counts), WIDTH) for text in INTRODUCTION]
    parts = ["\n\n".join((TITLE, *texts)), "\n"]
    for subject, calls in CALLS.items():
        rows = [row for call, causes in calls.items() for row in _call_rows(call, causes, marks)]
        parts.append(f"\n## {subject}\n\n| call or refusal | here | test |\n|---|---|---|\n")
        parts += [f"| {' | '.join(row)} |\n" for row in rows]
    parts.append("\n## Causes of refusal\n\n| cause | here |\n|---|---|\n")
    parts += [f"| `{cause}` | {_classes(cause, marks)} |\n" for cause in CAUSES]
    return "".join(parts)


def _interface(names: Iterable[str]) -> set[str]:
    """Return those that are calls of the interface, and no work ahead of time."""
    return {name for name in names if name.startswith("sslm_")}


def _call_rows(
    call: str, causes: tuple[str, ...], marks: list[Mark]
) -> Iterator[tuple[str, str, str]]:
    for refusal in ("", *causes):
        name = f"`{call}`: `{refusal}`" if refusal else f"`{call}`"
        found = [mark for mark in marks if (mark.call, mark.refusal) == (call, refusal)]
        for mark in found:
            what = f"{name}, {mark.case}" if mark.case else name
            path, _, test = mark.test.partition("::")
            yield what, _code(mark.here), f"[{test}](../{path})"
        reason = reason_for_later(call, refusal)
        # One row says that a whole call comes later.
        if not found and reason and not (refusal and call in LATER):
            yield name, "not yet", reason


def _code(here: str) -> str:
    """Show names as code, and leave words that explain them."""
    name, colon, rest = here.partition(": ")
    return f"`{name}`{colon}{rest}"


def _classes(cause: str, marks: list[Mark]) -> str:
    found = dict.fromkeys(_code(mark.here) for mark in marks if mark.refusal == cause)
    return ", ".join(found) or f"not yet: {LATER.get(cause, 'no test')}"


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if it differs")
    arguments = parser.parse_args()
    marks = read_marks(ROOT / "tests")
    wrong = missing(marks)
    for line in wrong:
        print(line, file=sys.stderr)
    page = render(marks)
    if arguments.check:
        return int(bool(wrong) or PAGE.read_text(encoding="utf-8") != page)
    PAGE.write_text(page, encoding="utf-8", newline="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
