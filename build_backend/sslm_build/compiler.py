"""Which C compiler builds the library: the machine's own, or that of the PyPI package ziglang."""

import importlib.util
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ZIGLANG: Final = "ziglang==0.17.1"
"""Pinned: another compiler could not change a result, but two builds would differ."""

COMPILER_NAMES: Final = ("cc", "gcc", "clang")
"""What CMake looks for, as far as it understands the sources, in CMake's order."""

_GLIBC: Final = "2.17"
_MACOS: Final = "11.0"
_ZIG_CPUS: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_CHOSEN_BY_CMAKE: Final = ("CMAKE_C_COMPILER", "CMAKE_TOOLCHAIN_FILE")

NO_COMPILER: Final = """\
No C compiler was found (looked for {names}, and CC is not set), and the package ziglang, which has
one, {reason}.
Install a compiler and try again:
  Debian, Ubuntu   apt-get install gcc libc6-dev
  Fedora           dnf install gcc
  Alpine           apk add gcc musl-dev
  macOS            xcode-select --install
  Windows          MinGW-w64 or LLVM, and set CC to its gcc or clang
or set CC to one that lies elsewhere."""


class CompilerMissingError(Exception):
    """There is nothing to compile with; the message says what to install."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return NO_COMPILER.format(names=", ".join(COMPILER_NAMES), reason=self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the choice depends on.

    Args:
        system: As ``sys.platform`` calls it.
        cpu: As ``platform.machine`` calls it.
        is_64_bit: Whether this Python is.
        is_musl: Whether its C library is musl.
        environment: Variables.
        which: Returns the path of a program, or None.
        has_developer_tools: Whether the ``cc`` of macOS is more than an offer to install one.
    """

    system: str
    cpu: str
    is_64_bit: bool
    is_musl: bool
    environment: Mapping[str, str]
    which: Callable[[str], str | None]
    has_developer_tools: Callable[[], bool]


def this_machine(environment: Mapping[str, str]) -> Machine:
    """Describe the machine that this runs on."""
    return Machine(
        system=sys.platform,
        cpu=platform.machine(),
        is_64_bit=sys.maxsize > 2**32,
        is_musl=sys.platform == "linux" and platform.libc_ver()[0] != "glibc",
        environment=environment,
        which=shutil.which,
        has_developer_tools=_has_developer_tools,
    )


def _has_developer_tools() -> bool:
    found = subprocess.run(["/usr/bin/xcode-select", "-p"], capture_output=True, check=False)
    return found.returncode == 0


def found_compiler(machine: Machine) -> str | None:
    """Return what CMake will compile with, by its own choice or the caller's, or None.

    On Windows only ``CC`` counts: the compiler that CMake would find there does not understand the
    sources.
    """
    if machine.environment.get("CC"):
        return machine.environment["CC"]
    if machine.environment.get("CMAKE_TOOLCHAIN_FILE"):
        return machine.environment["CMAKE_TOOLCHAIN_FILE"]
    for word in shlex.split(machine.environment.get("CMAKE_ARGS", "")):
        if any(name in word for name in _CHOSEN_BY_CMAKE):
            return word
    if machine.system == "win32":
        return None
    for name in COMPILER_NAMES:
        path = machine.which(name)
        if path is not None and not _is_offer(machine, path):
            return path
    return None


def _is_offer(machine: Machine, path: str) -> bool:
    """Tell a compiler from the programs of macOS that only offer to install one."""
    is_apple = machine.system == "darwin" and path.startswith("/usr/bin/")
    return is_apple and not machine.has_developer_tools()


def zig_target(machine: Machine) -> str:
    """Return what zig calls this machine: its CPU's baseline, and the oldest system that will do.

    Raises:
        CompilerMissingError: If ziglang is not for this machine.
    """
    cpu = _ZIG_CPUS.get(machine.cpu.lower())
    if cpu is not None and machine.is_64_bit:
        if machine.system == "linux":
            return f"{cpu}-linux-musl" if machine.is_musl else f"{cpu}-linux-gnu.{_GLIBC}"
        if machine.system == "darwin":
            return f"{cpu}-macos.{_MACOS}"
        if machine.system == "win32":
            return f"{cpu}-windows-gnu"
    bits = 64 if machine.is_64_bit else 32
    raise CompilerMissingError(
        f"is not used on {machine.system} {machine.cpu} with a {bits}-bit Python"
    )


def zig_program() -> Path:
    """Return the program that the package ziglang brings.

    Raises:
        CompilerMissingError: If the package is not installed.
    """
    spec = importlib.util.find_spec("ziglang")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    for folder in folders:
        for name in ("zig", "zig.exe"):
            if (Path(folder) / name).is_file():
                return Path(folder) / name
    raise CompilerMissingError(f"is not installed: {ZIGLANG}")
