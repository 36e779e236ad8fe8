"""Building for a machine: a wheel, from a source distribution, or nothing but the objects.

Both compile with the pinned zig and with warnings as errors, in folders that go afterwards.
"""

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sslm_build import zig_settings
from sslm_build.compiler import ZIGLANG
from tools.wheel_targets import Target

ROOT: Final = Path(__file__).parents[1]
SDIST: Final = "import sslm_build; print(sslm_build.build_sdist({!r}))"
FIND_ZIG: Final = "from sslm_build.compiler import zig_program; print(zig_program())"
SETTINGS: Final = {
    "cmake.define.CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
    "cmake.define.SSLM_WARNINGS_AS_ERRORS": "ON",
}
"""Of every build, whatever becomes of it."""
DEFINE: Final = "cmake.define."
EPOCH_S: Final = "1735689600"
"""The time that files in an archive get: the same for every build (2025-01-01)."""


class BuildFailedError(Exception):
    """A program that was called to build something failed; the message has its last lines."""

    def __init__(self, what: str, output: str) -> None:
        super().__init__(what, output)

    def __str__(self) -> str:
        what, output = self.args
        last = "\n".join(output.splitlines()[-30:])
        return f"{what} failed:\n{last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWheel:
    """A wheel, with how its files were compiled.

    Args:
        path: Of the wheel.
        commands: Text of compile_commands.json.
    """

    path: Path
    commands: str


class Workshop:
    """A temporary folder with a Python that has what the build needs.

    Args:
        folder: Empty, and removed by the caller.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = _clean_environment() | {
            "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", EPOCH_S),
            "ZIG_GLOBAL_CACHE_DIR": str(folder / "zig"),
        }

    @property
    def python(self) -> Path:
        """Return the interpreter."""
        return environment_python(self.folder / "python")

    def prepare(self) -> None:
        """Install the build's requirements."""
        with (ROOT / "pyproject.toml").open("rb") as file:
            requirements = tomllib.load(file)["build-system"]["requires"]
        venv.create(self.folder / "python", with_pip=True)
        self._call("installing what the build needs", *_pip("install"), *requirements, ZIGLANG)

    def pack_sources(self) -> Path:
        """Return the source distribution that the wheels are built from."""
        (self.folder / "sdist").mkdir()
        code = SDIST.format(str(self.folder / "sdist"))
        hooks = {"PYTHONPATH": str(ROOT / "build_backend")}
        self._call("packing the sources", "-c", code, cwd=ROOT, more=hooks)
        return next((self.folder / "sdist").glob("*.tar.gz"))

    def unpack(self, sdist: Path, name: str) -> Path:
        """Unpack the sources into a folder of that name, and return where they lie."""
        with tarfile.open(sdist) as archive:
            archive.extractall(self.folder / name, filter="data")
        return next((self.folder / name).iterdir())

    def build(self, sources: Path, target: Target) -> BuiltWheel:
        """Build a wheel with zig.

        Raises:
            BuildFailedError: If it cannot be built, a warning included.
        """
        build_path = sources.parent / f"build-{target.name}"
        out_path = sources.parent / f"wheel-{target.name}"
        settings = {
            "zig-target": target.zig_target,
            "wheel.tags": target.wheel_tag,
            "build-dir": str(build_path),
            **SETTINGS,
        }
        words = [word for name, value in settings.items() for word in ("-C", f"{name}={value}")]
        pip = [*_pip("wheel"), "--no-deps", "--no-build-isolation", "--check-build-dependencies"]
        # Of another build only the system's libraries are taken: what is ours is compiled again.
        own_cache = {"ZIG_LOCAL_CACHE_DIR": str(sources.parent / "zig")}
        arguments = [*pip, *words, "-w", str(out_path), str(sources)]
        self._call(f"building {target.name}", *arguments, more=own_cache)
        commands = (build_path / "compile_commands.json").read_text(encoding="utf-8")
        return BuiltWheel(path=next(out_path.glob("*.whl")), commands=commands)

    def compile(self, sources: Path, target: Target) -> int:
        """Compile every object that a wheel's library is linked from, and link nothing.

        Returns:
            How many there are.

        Raises:
            BuildFailedError: If one cannot be compiled, a warning included.
        """
        build_path = self.folder / f"objects-{target.name}"
        settings = zig_settings(dict(SETTINGS), target.zig_target, self._zig())
        defines = [
            f"-D{name.removeprefix(DEFINE)}={value}"
            for name, value in settings.items()
            if name.startswith(DEFINE)
        ]
        # What CMake tries of the compiler is not linked either. Warnings are the front end's, so
        # nothing is made faster: that is most of the time.
        defines += [
            "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",
            "-DCMAKE_BUILD_TYPE=Debug",
        ]
        own_cache = {"ZIG_LOCAL_CACHE_DIR": str(build_path / "zig")}
        what = f"compiling {target.name}"
        configure = ["-G", "Ninja", "-S", str(sources), "-B", str(build_path), *defines]
        self._call(what, *_program("cmake"), *configure, more=own_cache)
        commands = json.loads((build_path / "compile_commands.json").read_text(encoding="utf-8"))
        objects = [Path(entry["output"]).relative_to(build_path) for entry in commands]
        ninja = [*_program("ninja"), "-C", str(build_path), "-j", "1", *map(str, objects)]
        self._call(what, *ninja, more=own_cache)
        return len(objects)

    def _zig(self) -> Path:
        hooks = {"PYTHONPATH": str(ROOT / "build_backend")}
        return Path(self._call("looking for zig", "-c", FIND_ZIG, more=hooks).strip())

    def _call(
        self, what: str, *words: str, cwd: Path | None = None, more: dict[str, str] | None = None
    ) -> str:
        # Programs of the environment, such as cmake, are found by name.
        path = f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        environment = self._environment | {"PATH": path} | (more or {})
        return call(what, [str(self.python), *words], environment, cwd=cwd or self.folder)


def call(
    what: str, command: list[str], environment: dict[str, str], *, cwd: Path | None = None
) -> str:
    """Run a program and return what it printed.

    Raises:
        BuildFailedError: If it failed; *what* says what it was for.
    """
    done = subprocess.run(
        command,
        env=environment,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildFailedError(what, done.stdout)
    return done.stdout


def environment_python(folder: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    if sys.platform == "win32":
        return folder / "Scripts" / "python.exe"
    return folder / "bin" / "python"


def _clean_environment() -> dict[str, str]:
    """Return the variables without those that would change what is built or found."""
    changing = ("PYTHON", "CMAKE_", "SKBUILD_", "ZIG_", "SSLM_")
    exact = {"CC", "CFLAGS", "LDFLAGS", "CPPFLAGS", "VIRTUAL_ENV"}
    return {
        name: value
        for name, value in os.environ.items()
        if name not in exact and not name.startswith(changing)
    }


def clean_environment(**more: str) -> dict[str, str]:
    """Return the variables that a wheel's Python is started with, and *more*."""
    return _clean_environment() | more


def _pip(command: str) -> list[str]:
    return ["-m", "pip", command, "--quiet", "--disable-pip-version-check"]


def _program(name: str) -> list[str]:
    """Return the words after ``python`` that run a program which a package brings."""
    return ["-m", name]
