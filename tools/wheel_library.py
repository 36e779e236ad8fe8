"""What is known about a shared library from its bytes: ELF, PE or Mach-O."""

import io
import re
from dataclasses import dataclass
from typing import Final

import lief

_CPUS: Final = {
    lief.ELF.ARCH.X86_64: "x86_64",
    lief.ELF.ARCH.AARCH64: "aarch64",
    lief.PE.Header.MACHINE_TYPES.AMD64: "x86_64",
    lief.PE.Header.MACHINE_TYPES.ARM64: "aarch64",
    lief.MachO.Header.CPU_TYPE.X86_64: "x86_64",
    lief.MachO.Header.CPU_TYPE.ARM64: "aarch64",
}
_MAGICS: Final = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_LINKER_NAMES: Final = frozenset({"_mh_dylib_header", "__dso_handle"})
"""Exported from every library of macOS that zig links; they are places, not functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """What a library says of itself.

    Args:
        suffix: Of the files of its format.
        cpu: What it runs on.
        exports: Names of the functions that it offers, as C calls them.
        needs: Names of the libraries that it asks for.
        oldest_system: Two numbers: the newest version of glibc that it asks for, or the oldest
            macOS that it promises to run on; None on Windows.
        other_versions: Versions of symbols that are not glibc's.
        is_signed: Whether it carries a signature, without which macOS runs no arm64 code.
    """

    suffix: str
    cpu: str
    exports: frozenset[str]
    needs: frozenset[str]
    oldest_system: tuple[int, int] | None
    other_versions: frozenset[str]
    is_signed: bool


def parse_library(data: bytes) -> Library | None:
    """Return what the library says, or None if the bytes are no library."""
    if not data.startswith(_MAGICS):
        return None
    binary = lief.parse(io.BytesIO(data))
    if isinstance(binary, lief.ELF.Binary):
        return _elf(binary)
    if isinstance(binary, lief.PE.Binary):
        return _pe(binary)
    if isinstance(binary, lief.MachO.Binary):
        return _macho(binary)
    return None


def _elf(binary: lief.ELF.Binary) -> Library:
    versions = {
        str(symbol.name)
        for requirement in binary.symbols_version_requirement
        for symbol in requirement.get_auxiliary_symbols()
    }
    numbers = [re.fullmatch(r"GLIBC_([0-9]+)\.([0-9]+)(?:\.[0-9]+)?", name) for name in versions]
    glibc = [(int(match[1]), int(match[2])) for match in numbers if match is not None]
    return Library(
        suffix=".so",
        cpu=_CPUS.get(binary.header.machine_type, str(binary.header.machine_type)),
        exports=frozenset(str(symbol.name) for symbol in binary.exported_symbols),
        needs=frozenset(str(name) for name in binary.libraries),
        oldest_system=max(glibc, default=None),
        other_versions=frozenset(name for name in versions if not name.startswith("GLIBC_")),
        is_signed=False,
    )


def _pe(binary: lief.PE.Binary) -> Library:
    table = binary.get_export() if binary.has_exports else None
    entries = table.entries if table is not None else ()
    return Library(
        suffix=".dll",
        cpu=_CPUS.get(binary.header.machine, str(binary.header.machine)),
        exports=frozenset(str(entry.name) for entry in entries),
        needs=frozenset(str(entry.name).lower() for entry in binary.imports),
        oldest_system=None,
        other_versions=frozenset(),
        is_signed=False,
    )


def _macho(binary: lief.MachO.Binary) -> Library:
    version = binary.build_version
    names = frozenset(str(symbol.name).removeprefix("_") for symbol in binary.exported_symbols)
    own_name = lief.MachO.LoadCommand.TYPE.ID_DYLIB
    return Library(
        suffix=".dylib",
        cpu=_CPUS.get(binary.header.cpu_type, str(binary.header.cpu_type)),
        exports=names - _LINKER_NAMES,
        needs=frozenset(str(lib.name) for lib in binary.libraries if lib.command != own_name),
        oldest_system=(version.minos[0], version.minos[1]) if version is not None else None,
        other_versions=frozenset(),
        is_signed=binary.has_code_signature,
    )
