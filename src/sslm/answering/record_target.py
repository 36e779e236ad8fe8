"""Where the record of a request goes."""

from dataclasses import dataclass
from pathlib import Path

from sslm.arguments import checked_path, require_bool
from sslm.errors.runtime import OptionRangeError


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTarget:
    """Where a record goes, and what it is to hold.

    Args:
        path: The file's name.
        has_segments: Whether it has digests of every segment.
    """

    path: Path
    has_segments: bool


def record_target(record: object, has_segments: object) -> RecordTarget | None:
    """Return where a caller wants a record, or None for nowhere.

    Raises:
        OptionRangeError: If *record* is no path, or *has_segments* not True or False, or True
            without a record.
    """
    require_bool("record_segments", has_segments)
    if record is not None:
        return RecordTarget(path=checked_path("record", record), has_segments=bool(has_segments))
    if has_segments:
        raise OptionRangeError("record_segments", "True", "False without record")
    return None
