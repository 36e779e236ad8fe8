"""A folder in which each answer of a chat has a record of its own."""

from pathlib import Path

from sslm.artifact.write_errors import named_write_errors
from sslm.errors.artifact import UnwritableFileError


class RecordFolder:
    """Names the records of one chat, after those that are there.

    Args:
        folder: Made if it is not there.

    Raises:
        UnwritableFileError: If it can neither be made nor be looked into.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            with named_write_errors(folder):
                folder.mkdir(exist_ok=True)
                found = list(folder.glob("*.sslmr"))
        except (UnwritableFileError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            if isinstance(error.__cause__, FileExistsError):
                reason = "it is no folder; name one, in which each answer gets a file of its own"
            raise UnwritableFileError(str(folder), reason) from error
        numbers = [int(path.stem) for path in found if path.stem.isdecimal()]
        self._number = max(numbers, default=0)

    def next_path(self) -> Path:
        """Return the name of the next answer's record, which is free.

        An answer that fails or is interrupted leaves no record, and its number is not used again.
        """
        self._number += 1
        return self._folder / f"{self._number:04}.sslmr"
