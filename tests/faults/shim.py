"""The preloaded library that lets the n-th call of a kind fail, and the handle to it."""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("shim.c")
KINDS: Final = ("allocation", "write", "short_write", "fsync", "rename", "lock", "open", "read")
"""What may fail, in the order of the numbers in ``shim.c``."""

ERRNOS: Final = {
    "allocation": errno.ENOMEM,
    "write": errno.EIO,
    "short_write": 0,
    "fsync": errno.EIO,
    "rename": errno.EIO,
    "lock": errno.ENOLCK,
    "open": errno.EMFILE,
    "read": errno.EIO,
}
"""What the system says when a call of a kind fails."""

NEVER: Final = 1 << 60
_STACK_BYTES: Final = 1 << 14


def is_supported() -> bool:
    """Tell whether the library can be built here."""
    is_glibc = hasattr(os, "confstr") and "CS_GNU_LIBC_VERSION" in os.confstr_names
    return sys.platform == "linux" and is_glibc and shutil.which("cc") is not None


def build(folder: Path) -> Path:
    """Compile the library into a folder; return its path."""
    library = folder / "sslm_faults.so"
    words = ["cc", "-shared", "-fPIC", "-O1", "-g", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(words, check=True)
    return library


class Shim:
    """The library that this process was started with."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._arm = self._library.sslm_fault_arm
        self._arm.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_int]
        self.disarm = self._library.sslm_fault_disarm
        self.disarm.restype = ctypes.c_long
        self._failed = self._library.sslm_fault_failed
        self._failed.restype = ctypes.c_long

    def arm(self, kind: str, n: int, *, length: int = 1) -> None:
        """Let the calls n … n + length - 1 of a kind fail, counted from 0 and from now on."""
        self._arm(KINDS.index(kind), n, length, ERRNOS[kind])

    @property
    def failed(self) -> int:
        """How many calls failed since it was armed."""
        return int(self._failed())

    def stack(self) -> list[str]:
        """Return the functions that the failed call came through, innermost first."""
        text = ctypes.create_string_buffer(_STACK_BYTES)
        self._library.sslm_fault_stack(text, ctypes.c_size_t(_STACK_BYTES))
        return text.value.decode(errors="replace").split()
