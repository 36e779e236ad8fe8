"""A fuzz target with every kind of defect, to see that each is found."""

import mmap
import os
import time
from typing import Final

from fuzz.target import Outcomes, Target, require

from sslm.errors.base import ArgumentError


def _burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


class _PanicException(BaseException):
    pass


def run(data: bytes, outcomes: Outcomes) -> None:
    """Do harm if the input asks for it."""
    with outcomes.refusals(ArgumentError):
        match data[:2]:
            case b"ex":
                raise KeyError("a lost key")
            case b"pa":
                raise _PanicException
            case b"br":
                require(is_kept=False, promise="a toy does no harm")
            case b"sl":
                _burn(0.3)
            case b"la":
                # Straight from the system: what was freed before would be taken again first.
                mmap.mmap(-1, 80 << 20)[:] = b"x" * (80 << 20)
            case b"cr":
                os._exit(99)
            case _:
                outcomes.reached("nothing")


TARGET: Final = Target(
    name="tests.fuzz_toy",
    subject="nothing",
    run=run,
    modules=("sslm.text.templates.date",),
    size_bytes_max=8,
    reaches=("nothing",),
)
