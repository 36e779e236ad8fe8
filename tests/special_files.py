"""Files that are none, for tests of what may be replaced: always in a folder of the test."""

import os
import stat
from pathlib import Path

KINDS = ("a pipe", "a link to a file", "a link to nothing", "a device")


def make_special(kind: str, path: Path) -> None:
    """Make what is no regular file; as a user who may make no device, a pipe instead of one."""
    if kind == "a link to a file":
        (path.parent / "linked").write_bytes(b"precious")
        path.symlink_to(path.parent / "linked")
    elif kind == "a link to nothing":
        path.symlink_to(path.parent / "nothing")
    elif kind == "a pipe" or not _made_device(path):
        os.mkfifo(path)


def kind_of(path: Path) -> int:
    """Return the kind of file that lies at a path, without following a link."""
    return stat.S_IFMT(path.lstat().st_mode)


def _made_device(path: Path) -> bool:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except OSError:
        return False
    return True
