"""Work in a child that a fork makes."""

import os
import signal
import sys
import traceback
from collections.abc import Callable

SECONDS_MAX = 120


def in_child(work: Callable[[], None]) -> None:
    """Fork, do *work* in the child, and fail if it fails, hangs or dies."""
    sys.stdout.flush()
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            # Whoever runs the tests may have a handler, which this process has inherited.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS_MAX)
            work()
            code = 0
        except BaseException:
            os.write(writing, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read().decode(errors="replace")
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0, told
