"""Whether a wheel is what its name says, and nothing more.

Each check has a name; a wheel that fails one is refused with :class:`WheelDefectError`, which says
which, what was found and what was expected.
"""

import base64
import csv
import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from packaging.utils import parse_wheel_filename

from tools.check_tiers import TIERS, check
from tools.disassembly import DISASSEMBLERS, read_code
from tools.wheel_library import Library, parse_library
from tools.wheel_targets import Target

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = "sslm"

CHOSEN_AT_RUN_TIME: Final = ("sha256_shani.c", "sha256_arm.c", "read_ceiling_avx512.c")
"""Sources outside the tiers that are compiled for newer CPUs than the baseline."""

_BUILT_SUFFIXES: Final = (
    ".so",
    ".dll",
    ".dylib",
    ".pyd",
    ".a",
    ".lib",
    ".o",
    ".obj",
    ".pdb",
    ".exe",
)


class WheelDefectError(Exception):
    """A wheel failed a check.

    Args:
        check: Name of the check.
        found: What is wrong.
        expected: What would be right.
    """

    def __init__(self, check: str, found: str, expected: str) -> None:
        super().__init__(check, found, expected)
        self.check = check

    def __str__(self) -> str:
        return "{}: found {}; expected {}".format(*self.args)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a wheel is held to.

    Args:
        target: The machine that it is for.
        version: Of the package.
        exports: The functions that the header declares.
        sources: Files of the package, by path in the wheel, with their bytes; the library left out.
        foreign_paths: Folders of the machine that built it: none may be named inside.
    """

    target: Target
    version: str
    exports: frozenset[str]
    sources: Mapping[str, bytes]
    foreign_paths: tuple[str, ...]


def declared_functions(header: str) -> frozenset[str]:
    """Return the names of the functions that the C header declares."""
    return frozenset(re.findall(r"^\w[\w *]*?\b(sslm_native_\w+)\(", header, re.MULTILINE))


def expected_of(
    target: Target, foreign_paths: Iterable[str] = (), *, sources: Path = ROOT
) -> Expected:
    """Return what the wheel for a machine has to be, built from a folder of sources."""
    package = sources / "src" / PACKAGE
    version = re.search(r'^VERSION.* = "(.*)"', (package / "version.py").read_text("utf-8"), re.M)
    if version is None:
        raise AssertionError("version.py has no version")
    files = {
        f"{PACKAGE}/{path.relative_to(package).as_posix()}": path.read_bytes()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
        if not path.name.endswith(_BUILT_SUFFIXES)
    }
    header = (sources / "native" / "include" / "sslm_native.h").read_bytes()
    return Expected(
        target=target,
        version=version[1],
        exports=declared_functions(header.decode()),
        sources=files,
        foreign_paths=tuple(foreign_paths),
    )


def check_wheel(path: Path, expected: Expected) -> tuple[str, ...]:
    """Return the names of all checks, which the wheel passed.

    Raises:
        WheelDefectError: If it did not.
    """
    files = _read(path)
    info = f"{PACKAGE}-{expected.version}.dist-info"
    library = expected.target.library
    _check_tag(path, files, info, expected)
    _check_record(files, info)
    _check_metadata(files, info, expected)
    _check_files(files, info, expected)
    _check_library(_parsed(files[f"{PACKAGE}/{library}"]), expected)
    _check_paths(files, expected.foreign_paths)
    return ("tag", "record", "metadata", "files", "library", "exports", "needs", "system", "paths")


def _read(path: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if len(set(names)) != len(names):
                raise WheelDefectError("files", "a name twice in the archive", "each once")
            return {name: archive.read(name) for name in names}
    except zipfile.BadZipFile as error:
        raise WheelDefectError("files", str(error), "a zip archive") from error


def _require(check: str, found: object, expected: object) -> None:
    if found != expected:
        raise WheelDefectError(check, str(found), str(expected))


def _check_tag(path: Path, files: Mapping[str, bytes], info: str, expected: Expected) -> None:
    tag = expected.target.wheel_tag
    name, version, _, tags = parse_wheel_filename(path.name)
    _require("tag", (name, str(version)), (PACKAGE, expected.version))
    _require("tag", sorted(map(str, tags)), [tag])
    message = HeaderParser().parsestr(files.get(f"{info}/WHEEL", b"").decode())
    _require("tag", message.get_all("Tag"), [tag])
    _require("tag", message["Root-Is-Purelib"], "false")


def _check_record(files: Mapping[str, bytes], info: str) -> None:
    record = f"{info}/RECORD"
    rows = list(csv.reader(files.get(record, b"").decode().splitlines()))
    _require("record", sorted(row[0] for row in rows), sorted(files))
    for name, digest, size in rows:
        if name == record:
            _require("record", (digest, size), ("", ""))
            continue
        sha256 = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=")
        right = f"{name} sha256={sha256.decode()} {len(files[name])}"
        _require("record", f"{name} {digest} {size}", right)


def _check_metadata(files: Mapping[str, bytes], info: str, expected: Expected) -> None:
    message = HeaderParser().parsestr(files.get(f"{info}/METADATA", b"").decode())
    _require("metadata", (message["Name"], message["Version"]), (PACKAGE, expected.version))
    _require("metadata", message["Requires-Python"], ">=3.11")


def _check_files(files: Mapping[str, bytes], info: str, expected: Expected) -> None:
    library = f"{PACKAGE}/{expected.target.library}"
    built = sorted(n for n, data in files.items() if _is_built(n, data))
    _require("files", f"built files {built}", f"built files {[library]}")
    others = {name for name in files if name != library and not name.startswith(f"{info}/")}
    _require("files", sorted(others ^ set(expected.sources)), [])
    changed = sorted(name for name in others if files[name] != expected.sources[name])
    _require(
        "files",
        f"other bytes than the sources' in {changed}",
        "other bytes than the sources' in []",
    )


def _is_built(name: str, data: bytes) -> bool:
    return name.endswith(_BUILT_SUFFIXES) or parse_library(data) is not None


def _parsed(data: bytes) -> Library:
    library = parse_library(data)
    if library is None:
        raise WheelDefectError("library", "neither ELF nor PE nor Mach-O", "a shared library")
    return library


def _check_library(library: Library, expected: Expected) -> None:
    target = expected.target
    suffix = "." + target.library.partition(".")[2]
    _require("library", (library.suffix, library.cpu), (suffix, target.cpu))
    _require("exports", sorted(library.exports), sorted(expected.exports))
    foreign = sorted(n for n in library.needs if not n.startswith(target.allowed_libraries))
    _require("needs", foreign, [])
    _require("system", sorted(library.other_versions), [])
    promised = _promised_system(target)
    if library.suffix == ".so":
        if library.oldest_system is None or promised is None or library.oldest_system > promised:
            raise WheelDefectError(
                "system", f"glibc {library.oldest_system}", f"at most {promised}"
            )
    else:
        _require("system", library.oldest_system, promised)
    if library.suffix == ".dylib":
        _require("system", f"signed {library.is_signed}", "signed True")


def _promised_system(target: Target) -> tuple[int, int] | None:
    match = re.match(r"(?:manylinux|macosx)_([0-9]+)_([0-9]+)_", target.platform_tag)
    return (int(match[1]), int(match[2])) if match is not None else None


def _check_paths(files: Mapping[str, bytes], foreign_paths: Iterable[str]) -> None:
    for name, data in files.items():
        for path in foreign_paths:
            for spelled in (path.encode(), path.encode("utf-16-le")):
                if spelled in data:
                    raise WheelDefectError("paths", f"{path} in {name}", "no path of this machine")


def check_tiers(commands: str, target: Target) -> tuple[str, ...]:
    """Return the CPU tiers that were compiled, from the build's compile_commands.json.

    Raises:
        WheelDefectError: If there is a tier of another CPU, or a file outside the tiers that was
            not compiled for the CPU's baseline.
    """
    tiers = set()
    for entry in json.loads(commands):
        words = entry["command"].split()
        tier = next((w.partition("=")[2] for w in words if w.startswith("-DSSLM_TIER=")), None)
        if tier is not None:
            tiers.add(tier)
        # A flag "-mno-..." forbids instructions.
        for_cpu = [word for word in words if re.match(r"-m(?!cpu=baseline$|no-)", word)]
        is_plain = tier in {None, "scalar"} and not entry["file"].endswith(CHOSEN_AT_RUN_TIME)
        if is_plain:
            _require("tiers", f"{entry['file']} with {for_cpu}", f"{entry['file']} with []")
        _require("tiers", "-mcpu=baseline" in words, True)
    foreign = sorted(tiers - set(TIERS[target.cpu]))
    _require("tiers", foreign, [])
    _require("tiers", "scalar" in tiers, True)
    return tuple(sorted(tiers))


def check_disassembly(wheel: Path, target: Target, folder: Path) -> bool:
    """Take the library apart and return True, or False where this machine has nothing to do it.

    Only ELF can be taken apart; the others are built from the same objects' commands.

    Args:
        wheel: That passed the other checks.
        target: Its machine.
        folder: Where the library is put.

    Raises:
        WheelDefectError: If an instruction of a tier can be reached on a CPU without it.
    """
    if not target.library.endswith(".so") or shutil.which(DISASSEMBLERS[target.cpu][0]) is None:
        return False
    with zipfile.ZipFile(wheel) as archive:
        path = Path(archive.extract(f"{PACKAGE}/{target.library}", folder))
    _require("disassembly", list(check(read_code(path), path.name).problems), [])
    return True
