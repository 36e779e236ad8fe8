"""The options that write a request down."""

from pathlib import Path
from typing import Annotated, Final

import typer

from sslm.cli.options.values import output_option, refusal

RECORD_OPTION: Final = "--record"
_SEGMENTS_OPTION: Final = "--record-segments"

RecordOption = Annotated[
    Path | None,
    output_option(
        RECORD_OPTION,
        metavar="FILE",
        about="Write the request to a file, for sslm replay; it contains the prompt.",
    ),
]
RecordSegmentsOption = Annotated[
    bool,
    typer.Option(
        _SEGMENTS_OPTION,
        help="Let the record tell segments apart, too: larger, and takes more time.",
    ),
]
RecordFolderOption = Annotated[
    Path | None,
    typer.Option(
        RECORD_OPTION,
        metavar="FOLDER",
        help="Write each answer to a file of its own in this folder: 0001.sslmr and so on.",
    ),
]


def require_recordable(record: Path | None, *, has_segments: bool, n: int | None = None) -> None:
    """Refuse options of a record that contradict, before a model is opened.

    Args:
        record: Where it is to be.
        has_segments: Whether it is to have digests of segments.
        n: How many answers there are to be, None for one that is no list.

    Raises:
        typer.BadParameter: If it is of several answers, or there is none to have segments.
    """
    if record is not None and n is not None:
        raise refusal("it is given", "one answer, so no --n", param_hint=RECORD_OPTION)
    if has_segments and record is None:
        expected = "a file of the record, too (--record FILE)"
        raise refusal("it is given", expected, param_hint=_SEGMENTS_OPTION)
