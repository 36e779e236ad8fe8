"""The stable numbers of every outcome."""

from enum import IntEnum


class Status(IntEnum):
    """What happened, as one number for the C ABI, JSON output and logs.

    Append only: a shipped number is never reused, renumbered or given a second meaning.
    1xx argument, 2xx artifact or other file, 3xx state, 4xx resource, 5xx numeric, 6xx schema,
    7xx network, 9xx our own defect.
    """

    OK = 0

    INTERNAL = 900
