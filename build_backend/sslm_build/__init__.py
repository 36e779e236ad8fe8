"""Build with scikit-build-core; where the machine has no C compiler, with that of ziglang.

The hooks of PEP 517 and PEP 660. A config setting of its own, ``zig-target``, builds for another
machine: ``tools/build_wheels.py`` uses it. All other settings go to scikit-build-core.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scikit_build_core import build as scikit

from sslm_build.compiler import (
    ZIGLANG,
    CompilerMissingError,
    found_compiler,
    this_machine,
    zig_program,
    zig_target,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = dict[str, str | list[str]]

TARGET_SETTING: Final = "zig-target"
_TOOLCHAIN: Final = Path(__file__).with_name("zig.cmake")
_CACHE_VARIABLES: Final = ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")
_COMPILER_SETTINGS: Final = ("CMAKE_C_COMPILER", "CMAKE_TOOLCHAIN_FILE")


def chosen_target(settings: Settings) -> str | None:
    """Return what zig is to build for, or None if the machine's own compiler does it.

    Raises:
        CompilerMissingError: If there is no compiler, and zig is not for this machine.
    """
    asked = settings.get(TARGET_SETTING)
    if asked is not None:
        return str(asked)
    if any(
        name in f"{key}={value}" for key, value in settings.items() for name in _COMPILER_SETTINGS
    ):
        return None
    machine = this_machine(os.environ)
    return None if found_compiler(machine) is not None else zig_target(machine)


def zig_settings(settings: Settings, target: str, zig: Path) -> Settings:
    """Return the settings with which scikit-build-core builds with zig."""
    ours: Settings = {
        "cmake.define.CMAKE_TOOLCHAIN_FILE": _TOOLCHAIN.as_posix(),
        "cmake.define.SSLM_ZIG": zig.as_posix(),
        "cmake.define.SSLM_ZIG_TARGET": target,
        # It has stripped already, and the machine's strip, if any, may not know the format.
        "install.strip": "false",
        # Not where a build with another compiler may have left its own answers.
        "build-dir": "",
    }
    return ours | settings


@contextmanager
def _prepared(config_settings: Settings | None) -> Iterator[Settings]:
    """Choose the compiler; while it works, zig's cache is in a folder that goes afterwards."""
    settings = dict(config_settings or {})
    try:
        target = chosen_target(settings)
        zig = zig_program() if target is not None else None
    except CompilerMissingError as error:
        sys.exit(str(error))
    settings = _others(settings)
    if target is None or zig is None:
        yield settings
        return
    print(f"*** C compiler: {ZIGLANG}, for {target}", flush=True)  # noqa: T201
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="sslm-zig-", ignore_cleanup_errors=True) as folder:
        for name in _CACHE_VARIABLES:
            os.environ.setdefault(name, folder)
        os.environ.setdefault("CMAKE_GENERATOR", "Ninja")
        try:
            yield zig_settings(settings, target, zig)
        finally:
            os.environ.clear()
            os.environ.update(before)


def _others(config_settings: Settings | None) -> Settings:
    """Return the settings without our own, which scikit-build-core would refuse."""
    return {k: v for k, v in (config_settings or {}).items() if k != TARGET_SETTING}


def _zig_requirement(config_settings: Settings | None) -> list[str]:
    try:
        return [] if chosen_target(dict(config_settings or {})) is None else [ZIGLANG]
    except CompilerMissingError as error:
        sys.exit(str(error))


def get_requires_for_build_wheel(config_settings: Settings | None = None) -> list[str]:
    """Ask for ziglang only where there is no compiler, or for another machine."""
    needed = scikit.get_requires_for_build_wheel(_others(config_settings))
    return [*needed, *_zig_requirement(config_settings)]


def get_requires_for_build_editable(config_settings: Settings | None = None) -> list[str]:
    """Ask for ziglang only where there is no compiler, or for another machine."""
    needed = scikit.get_requires_for_build_editable(_others(config_settings))
    return [*needed, *_zig_requirement(config_settings)]


def get_requires_for_build_sdist(config_settings: Settings | None = None) -> list[str]:
    """Ask for what a source distribution takes, which is no compiler."""
    return scikit.get_requires_for_build_sdist(_others(config_settings))


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings | None = None
) -> str:
    """Write the metadata of a wheel, which is the same with any compiler."""
    return scikit.prepare_metadata_for_build_wheel(metadata_directory, _others(config_settings))


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: Settings | None = None
) -> str:
    """Write the metadata of an editable wheel."""
    return scikit.prepare_metadata_for_build_editable(metadata_directory, _others(config_settings))


def build_sdist(sdist_directory: str, config_settings: Settings | None = None) -> str:
    """Pack the sources, these hooks included."""
    return scikit.build_sdist(sdist_directory, _others(config_settings))


def build_wheel(
    wheel_directory: str,
    config_settings: Settings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel, with the compiler that there is."""
    with _prepared(config_settings) as settings:
        return scikit.build_wheel(wheel_directory, settings, metadata_directory)


def build_editable(
    wheel_directory: str,
    config_settings: Settings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the library for an installation that runs the sources where they are."""
    with _prepared(config_settings) as settings:
        return scikit.build_editable(wheel_directory, settings, metadata_directory)
