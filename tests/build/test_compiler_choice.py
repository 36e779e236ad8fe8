"""The build takes ziglang where there is no C compiler, and only there."""

import importlib.util
import platform
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import sslm_build
from sslm_build.compiler import ZIGLANG, CompilerMissingError, Machine, found_compiler, zig_target

ROOT: Final = Path(__file__).parents[2]


def _machine(
    *programs: str,
    system: str = "linux",
    cpu: str = "x86_64",
    is_64_bit: bool = True,
    is_musl: bool = False,
    has_developer_tools: bool = True,
    **environment: str,
) -> Machine:
    places = {Path(program).name: program for program in programs}
    return Machine(
        system=system,
        cpu=cpu,
        is_64_bit=is_64_bit,
        is_musl=is_musl,
        environment=environment,
        which=places.get,
        has_developer_tools=lambda: has_developer_tools,
    )


@pytest.mark.parametrize(
    ("machine", "found"),
    [
        pytest.param(_machine(), None, id="nothing"),
        pytest.param(_machine("/usr/bin/c99", "/usr/bin/g++"), None, id="no C compiler"),
        pytest.param(_machine("/usr/bin/gcc", "/usr/bin/cc"), "/usr/bin/cc", id="as CMake would"),
        pytest.param(_machine("/opt/gcc"), "/opt/gcc", id="gcc alone"),
        pytest.param(_machine("/opt/clang"), "/opt/clang", id="clang alone"),
        pytest.param(_machine(CC="icx -m64"), "icx -m64", id="CC counts unseen"),
        pytest.param(_machine("/usr/bin/cc", CC=""), "/usr/bin/cc", id="empty CC"),
        pytest.param(_machine(CMAKE_TOOLCHAIN_FILE="/t.cmake"), "/t.cmake", id="toolchain"),
        pytest.param(
            _machine(CMAKE_ARGS="-G Ninja -DCMAKE_C_COMPILER=/opt/cc"),
            "-DCMAKE_C_COMPILER=/opt/cc",
            id="CMake's arguments",
        ),
        pytest.param(_machine(CMAKE_ARGS="-DCMAKE_BUILD_TYPE=Debug"), None, id="others of them"),
        pytest.param(_machine("C:/gcc.exe", "C:/cl", system="win32"), None, id="Windows"),
        pytest.param(_machine(system="win32", CC="clang"), "clang", id="Windows with CC"),
        pytest.param(
            _machine("/usr/bin/cc", system="darwin", has_developer_tools=False),
            None,
            id="macOS offers to install one",
        ),
        pytest.param(
            _machine("/usr/bin/cc", system="darwin"), "/usr/bin/cc", id="macOS with its tools"
        ),
        pytest.param(
            _machine("/usr/bin/cc", "/opt/gcc", system="darwin", has_developer_tools=False),
            "/opt/gcc",
            id="macOS with another compiler",
        ),
    ],
)
def test_a_compiler_counts_where_cmake_would_use_it(machine: Machine, found: str | None) -> None:
    assert found_compiler(machine) == found


@pytest.mark.parametrize(
    ("machine", "target"),
    [
        (_machine(), "x86_64-linux-gnu.2.17"),
        (_machine(cpu="aarch64"), "aarch64-linux-gnu.2.17"),
        (_machine(is_musl=True), "x86_64-linux-musl"),
        (_machine(system="darwin", cpu="arm64"), "aarch64-macos.11.0"),
        (_machine(system="win32", cpu="AMD64"), "x86_64-windows-gnu"),
    ],
)
def test_zig_builds_for_the_machine_it_is_on(machine: Machine, target: str) -> None:
    assert zig_target(machine) == target


@pytest.mark.parametrize(
    ("machine", "what"),
    [
        (_machine(cpu="s390x"), "linux s390x with a 64-bit Python"),
        (_machine(is_64_bit=False), "linux x86_64 with a 32-bit Python"),
        (_machine(system="sunos5"), "sunos5 x86_64 with a 64-bit Python"),
    ],
)
def test_where_zig_is_not_for_the_machine_the_error_says_what_to_install(
    machine: Machine, what: str
) -> None:
    with pytest.raises(CompilerMissingError) as raised:
        zig_target(machine)
    assert what in str(raised.value)
    assert "apt-get install gcc" in str(raised.value)
    assert "CC" in str(raised.value)


@pytest.fixture
def bare_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Leave an empty folder on PATH, and no variable that chooses a compiler."""
    for name in ("CC", "CMAKE_ARGS", "CMAKE_TOOLCHAIN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(ROOT)
    return tmp_path


def _add_compiler(folder: Path) -> None:
    (folder / "cc").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "cc").chmod(0o755)


HOOKS: Final = (
    sslm_build.get_requires_for_build_wheel,
    sslm_build.get_requires_for_build_editable,
)
each_hook = pytest.mark.parametrize("hook", HOOKS)


@each_hook
@pytest.mark.skipif(sys.platform != "linux", reason="the programs are made for Linux")
def test_ziglang_is_asked_for_only_without_a_compiler(
    hook: Callable[..., list[str]], bare_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ZIGLANG in hook()
    assert ZIGLANG not in hook({"cmake.define.CMAKE_C_COMPILER": "/opt/cc"})
    monkeypatch.setenv("CC", "/opt/cc")
    assert ZIGLANG not in hook()
    monkeypatch.delenv("CC")
    _add_compiler(bare_path)
    assert ZIGLANG not in hook()
    assert ZIGLANG in hook({"zig-target": "aarch64-linux-gnu.2.17"})


@each_hook
def test_no_compiler_and_no_zig_ends_with_what_to_do(
    hook: Callable[..., list[str]], bare_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(SystemExit, match=r"(?s)riscv64.*apt-get install gcc"):
        hook()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other rules")
def test_a_build_without_the_package_says_so(
    bare_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"is not installed: ziglang==[0-9.]+\n"):
        sslm_build.build_wheel(str(tmp_path))


def test_the_callers_settings_win() -> None:
    settings = sslm_build.zig_settings({"build-dir": "mine"}, "a-linux-gnu", Path("/z/zig"))
    assert settings["build-dir"] == "mine"
    assert settings["cmake.define.SSLM_ZIG"] == "/z/zig"
    assert settings["cmake.define.SSLM_ZIG_TARGET"] == "a-linux-gnu"


def test_a_source_distribution_brings_the_hooks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    name = sslm_build.build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / name) as archive:
        files = {member.name.partition("/")[2] for member in archive.getmembers()}
    hooks = {"__init__.py", "compiler.py", "zig.cmake"}
    assert {f"build_backend/sslm_build/{hook}" for hook in hooks} <= files
    assert {"CMakeLists.txt", "native/src/system_threads.c"} <= files
