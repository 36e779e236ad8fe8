"""The machines that wheels are built for."""

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Ways(Enum):
    """How far a wheel can be tried on the machine that builds it."""

    NATIVE = "native"
    EMULATED = "qemu"
    COMPILED = "compiled only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One machine.

    Args:
        name: What the command calls it.
        cpu: As zig and Linux call it.
        platform_tag: Of its wheel. A manylinux tag promises the oldest glibc, which the check holds
            to what the library asks for.
        zig_target: As zig calls it.
        library: Name of the library's file.
        allowed_libraries: What the library may ask the system for, by the beginning of the name.
    """

    name: str
    cpu: str
    platform_tag: str
    zig_target: str
    library: str
    allowed_libraries: tuple[str, ...]

    @property
    def wheel_tag(self) -> str:
        """Return the whole tag."""
        return f"py3-none-{self.platform_tag}"


_GLIBC_LIBRARIES: Final = ("libc.so.6", "libpthread.so.0", "ld-linux-")
_WINDOWS_LIBRARIES: Final = ("kernel32.dll", "api-ms-win-crt-")

TARGETS: Final = (
    Target(
        name="linux-x86_64",
        cpu="x86_64",
        platform_tag="manylinux_2_17_x86_64",
        zig_target="x86_64-linux-gnu.2.17",
        library="_native.so",
        allowed_libraries=_GLIBC_LIBRARIES,
    ),
    Target(
        name="linux-aarch64",
        cpu="aarch64",
        platform_tag="manylinux_2_17_aarch64",
        zig_target="aarch64-linux-gnu.2.17",
        library="_native.so",
        allowed_libraries=_GLIBC_LIBRARIES,
    ),
    Target(
        name="windows-x86_64",
        cpu="x86_64",
        platform_tag="win_amd64",
        zig_target="x86_64-windows-gnu",
        library="_native.dll",
        allowed_libraries=_WINDOWS_LIBRARIES,
    ),
    Target(
        name="macos-arm64",
        cpu="aarch64",
        platform_tag="macosx_11_0_arm64",
        zig_target="aarch64-macos.11.0",
        library="_native.dylib",
        allowed_libraries=("/usr/lib/libSystem.B.dylib",),
    ),
)

PINNED_DIGEST: Final = "2f3dcac805ffc5519b5e0b00e4bba3e87da2cb51e91b1edd791581906726df4d"
"""Of the answer that tools/digest_check.py asks for; the same on every machine, for good."""
