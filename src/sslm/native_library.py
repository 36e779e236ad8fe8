"""The C library's handle: its prototypes, and the CPU tiers that run on this machine."""

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from sslm.errors.native import (
    NativeLibraryAbiError,
    NativeLibraryLoadError,
    NativeLibraryMissingError,
)
from sslm.native_interface import ffi

TIERS: Final = ("scalar", "avx2", "avxvnni", "avx512vnni", "neon", "amx")
"""Names of all tiers, slowest first on each kind of CPU; an index is the library's number."""

_FEATURES: Final = ("avx2", "avx512", "avx512vnni", "sha", "avxvnni", "dotprod", "amx")
_SUFFIXES: Final = {"darwin": ".dylib", "win32": ".dll"}


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """The loaded library.

    Args:
        ffi: The cffi instance that knows the structs.
        lib: The functions and constants.
        path: Where the library was found.
    """

    ffi: Any
    lib: Any
    path: Path


def _find_library() -> Path:
    name = "_native" + _SUFFIXES.get(sys.platform, ".so")
    # An editable installation has its sources and what was built from them in two folders.
    folders = [Path(folder) for folder in sys.modules["sslm"].__path__]
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise NativeLibraryMissingError(name, tuple(str(folder) for folder in folders))


@cache
def load_library() -> NativeLibrary:
    """Load the shared library, once.

    Raises:
        NativeLibraryMissingError: If it is not beside the package's modules.
        NativeLibraryLoadError: If the system refuses it.
        NativeLibraryAbiError: If it was built from another version.
    """
    path = _find_library()
    try:
        lib = ffi.dlopen(str(path))
        found = int(lib.sslm_native_abi())
    except (OSError, AttributeError) as error:
        raise NativeLibraryLoadError(str(path), str(error)) from error
    if found != lib.SSLM_NATIVE_ABI:
        raise NativeLibraryAbiError(str(path), found, lib.SSLM_NATIVE_ABI)
    return NativeLibrary(ffi, lib, path)


def cpu_features() -> tuple[str, ...]:
    """Return the CPU features that matter here, those that the operating system supports too."""
    bits = load_library().lib.sslm_native_cpu_features()
    return tuple(name for index, name in enumerate(_FEATURES) if bits >> index & 1)


def is_available(tier: str) -> bool:
    """Tell whether this machine runs the tier of a name; False for names of none.

    Of ``amx`` this asks the system for the use of tiles, which lasts as long as the process.
    """
    return tier in TIERS and bool(load_library().lib.sslm_native_tier_available(TIERS.index(tier)))


def available_tiers() -> tuple[str, ...]:
    """Return the names of the tiers that run on this machine, slowest first."""
    return tuple(tier for tier in TIERS if is_available(tier))


def best_tier() -> str:
    """Return the fastest tier of this machine."""
    return available_tiers()[-1]


def read_through(buffer: Any) -> int:
    """Read every byte as fast as one thread can, and return the exclusive or of the 64-bit words.

    What the speed of reading weights is measured against. Other threads run meanwhile.

    Args:
        buffer: Anything with contiguous bytes; its words are little-endian, and the last one is
            filled up with zeros.
    """
    library = load_library()
    pointer, view = borrow(library.ffi, "uint8_t *", buffer)
    with view:
        return int(library.lib.sslm_native_read_ceiling(pointer, view.nbytes))


def borrow(
    ffi: Any, kind: str, buffer: Any, *, is_writable: bool = False
) -> tuple[Any, memoryview]:
    """Return a C pointer to a buffer's bytes, and a view to hold as long as the pointer is used.

    The view keeps the bytes where they are, even if *buffer* is itself a view and is released. What
    ``from_buffer`` returns is not kept: a garbage cycle that holds it beside its memoryview, such
    as an exception's traceback, crashes the collector of CPython 3.11.

    Args:
        ffi: Of the library.
        kind: The pointer's type, such as ``int32_t *``.
        buffer: Anything with contiguous bytes.
        is_writable: Whether C writes to it.
    """
    view = memoryview(buffer)
    return ffi.cast(kind, ffi.from_buffer(view, require_writable=is_writable)), view
