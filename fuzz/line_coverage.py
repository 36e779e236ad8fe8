"""Which lines of a target's modules its corpus reaches, without instrumenting them."""

import importlib
import pkgutil
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from fuzz.execution import PeakMemory, execute
from fuzz.target import Outcomes, Target

_IS_FUNCTION = 0x02
"""The flag of code that has locals of its own: bodies of functions, not of modules or classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleLines:
    """Lines inside functions of one module.

    Args:
        module: Its name.
        lines: All of them that have code.
        reached: Those that were run.
    """

    module: str
    lines: frozenset[int]
    reached: frozenset[int]

    @property
    def missed(self) -> list[str]:
        """Return the lines that were not run, neighbours joined: ``12-15``."""
        spans: list[list[int]] = []
        for line in sorted(self.lines):
            if line in self.reached:
                spans.append([])
            elif spans and spans[-1]:
                spans[-1].append(line)
            else:
                spans.append([line])
        return [
            str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans if span
        ]


def replay_lines(
    target: Target, inputs: Iterable[bytes], *, seconds_max: float
) -> tuple[list[ModuleLines], int]:
    """Run inputs and note the lines they reach; return these, and how many inputs were run.

    Errors and findings are those of the search and end only their input.
    """
    functions = {name: _functions(name) for name in module_names(target.modules)}
    tracer = _Tracer({code.co_filename for codes in functions.values() for code in codes})
    outcomes, memory, start, done = Outcomes(), PeakMemory(), time.monotonic(), 0
    previous = sys.gettrace()
    sys.settrace(tracer.on_call)
    try:
        for data in inputs:
            if done and time.monotonic() - start > seconds_max:
                break
            execute(target, data, outcomes, memory)
            done += 1
    finally:
        sys.settrace(previous)
    found = []
    for name, codes in functions.items():
        if not codes:
            continue
        lines = {line for code in codes for line in _lines(code)}
        reached = tracer.reached.get(codes[0].co_filename, set())
        found.append(
            ModuleLines(module=name, lines=frozenset(lines), reached=frozenset(reached & lines))
        )
    return found, done


class _Tracer:
    """Notes the lines that run in given files."""

    def __init__(self, files: set[str]) -> None:
        self.reached: dict[str, set[int]] = {file: set() for file in files}

    def on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Take note of a call; watch the lines of it if its file is one of those."""
        del event, argument
        lines = self.reached.get(frame.f_code.co_filename)
        if lines is None:
            return None
        lines.add(frame.f_lineno)

        def on_line(frame: FrameType, event: str, argument: Any) -> Any:
            del event, argument
            lines.add(frame.f_lineno)
            return on_line

        return on_line


def module_names(names: Iterable[str]) -> Iterator[str]:
    """Yield modules and all modules in packages of these names."""
    for name in names:
        module = importlib.import_module(name)
        yield name
        for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
            yield found.name


def _functions(name: str) -> list[CodeType]:
    module = importlib.import_module(name)
    path = Path(str(module.__file__))
    body = compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)
    return list(_inner_functions(body))


def _inner_functions(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if one.co_flags & _IS_FUNCTION:
                yield one
            yield from _inner_functions(one)


def _lines(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line}
