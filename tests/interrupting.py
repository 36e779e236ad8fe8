"""Calls that an interrupt cuts short, at each line in turn."""

import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any


def interrupted_at_line(line: int, act: Callable[[], object], *modules: ModuleType) -> bool:
    """Interrupt a call when it begins the n-th line within the modules; False if it has fewer."""
    files = {module.__file__ for module in modules}
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        if frame.f_code.co_filename not in files:
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
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(previous)
    return False
