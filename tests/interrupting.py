"""Calls that an interrupt cuts short, at each line in turn."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

import sslm

_PACKAGE: Final = str(Path(sslm.__file__).parent)


def interrupted_at_line(
    line: int,
    act: Callable[[], object],
    is_watched: Callable[[CodeType], bool],
    errors: list[BaseException] | None = None,
) -> bool:
    """Interrupt a call when it begins the n-th line of what is watched.

    Args:
        line: Which one, from 1.
        act: The call.
        is_watched: Tells of a function's code whether its lines count.
        errors: Where the interrupt goes, with all that its traceback holds.

    Returns:
        Whether there were so many lines.
    """
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        if not is_watched(frame.f_code):
            return None
        if event == "line":
            seen += 1
            if seen == line:
                raise KeyboardInterrupt
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except KeyboardInterrupt as error:
        if errors is not None:
            errors.append(error)
        return True
    finally:
        sys.settrace(previous)
    return False


def is_code_of(*modules: ModuleType) -> Callable[[CodeType], bool]:
    """Return what tells whether code stands in one of the modules."""
    files = {module.__file__ for module in modules}
    return lambda code: code.co_filename in files


def is_code_of_package(code: CodeType) -> bool:
    """Tell whether code stands in the package."""
    return code.co_filename.startswith(_PACKAGE)
