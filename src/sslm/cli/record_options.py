"""The options that write a request down."""

from pathlib import Path
from typing import Annotated, Final

import typer

RECORD_OPTION: Final = "--record"

RecordOption = Annotated[
    Path | None,
    typer.Option(
        RECORD_OPTION,
        metavar="FILE",
        help="Write the request to a file, for sslm replay; it contains the prompt.",
    ),
]
RecordSegmentsOption = Annotated[
    bool,
    typer.Option(
        "--record-segments",
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
