"""A wheel that is not what it says is refused, by the name of the check that it fails."""

import base64
import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from tools.wheel_check import (
    Expected,
    WheelDefectError,
    check_tiers,
    check_wheel,
    declared_functions,
    expected_of,
)
from tools.wheel_library import parse_library
from tools.wheel_targets import TARGETS, Target

from sslm.native_library import load_library

HERE: Final = "/srv/build-place"
INFO: Final = "sslm-{}.dist-info"

pytestmark = pytest.mark.skipif(
    load_library().path.suffix != ".so", reason="the wheels are made around a library of Linux"
)


@pytest.fixture(scope="module")
def target() -> Target:
    library = parse_library(load_library().path.read_bytes())
    assert library is not None
    (found,) = (t for t in TARGETS if t.library == "_native.so" and t.cpu == library.cpu)
    return found


@pytest.fixture(scope="module")
def expected(target: Target) -> Expected:
    return expected_of(target, [HERE])


Files = dict[str, bytes]


@pytest.fixture
def files(expected: Expected) -> Files:
    """Return what belongs into the wheel, around the library that is installed here."""
    info = INFO.format(expected.version)
    metadata = f"Metadata-Version: 2.2\nName: sslm\nVersion: {expected.version}\n"
    tag = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {expected.target.wheel_tag}\n"
    return {
        **expected.sources,
        "sslm/_native.so": _without_newer_symbols(),
        f"{info}/METADATA": f"{metadata}Requires-Python: >=3.11\n".encode(),
        f"{info}/WHEEL": tag.encode(),
    }


def _without_newer_symbols() -> bytes:
    """Return the installed library; it may ask for a newer glibc than a wheel's, being built here.

    The name of a version is changed in the table of texts alone, which is enough for who reads it.
    """
    data = load_library().path.read_bytes()
    for minor in range(18, 60):
        data = data.replace(b"GLIBC_2.%d\0" % minor, b"GLIBC_2.14\0")
    return data


def _record(files: Mapping[str, bytes], info: str) -> bytes:
    lines = [f"{name},{_sha256(data)},{len(data)}" for name, data in files.items()]
    return "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()


def _sha256(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


def _write(
    folder: Path, files: Files, expected: Expected, *, tag: str = "", record: bytes | None = None
) -> Path:
    info = INFO.format(expected.version)
    path = folder / f"sslm-{expected.version}-{tag or expected.target.wheel_tag}.whl"
    whole = files | {f"{info}/RECORD": _record(files, info) if record is None else record}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in whole.items():
            archive.writestr(name, data)
    return path


def test_a_right_wheel_passes(tmp_path: Path, files: Files, expected: Expected) -> None:
    passed = check_wheel(_write(tmp_path, files, expected), expected)
    assert {"tag", "record", "files", "exports", "needs", "system", "paths"} <= set(passed)


def _add_library(files: Files) -> None:
    files["sslm/_other.so"] = files["sslm/_native.so"]


def _hide_library(files: Files) -> None:
    """Give a library a name that says nothing: its bytes do."""
    files["sslm/data.bin"] = files["sslm/_native.so"]


def _change_source(files: Files) -> None:
    files["sslm/__init__.py"] += b"\n"


def _drop_source(files: Files) -> None:
    del files["sslm/limits.py"]


def _add_file(files: Files) -> None:
    files["sslm/secret.txt"] = b""


def _leak_path(files: Files) -> None:
    files["sslm/_native.so"] += HERE.encode()


def _leak_wide_path(files: Files) -> None:
    files["sslm/_native.so"] += HERE.encode("utf-16-le")


def _no_library(files: Files) -> None:
    files["sslm/_native.so"] = b"#!/bin/sh\n"


def _rename_export(files: Files) -> None:
    old, new = b"sslm_native_sha256\0", b"sslm_native_sha257\0"
    files["sslm/_native.so"] = files["sslm/_native.so"].replace(old, new)


def _need_another(files: Files) -> None:
    files["sslm/_native.so"] = files["sslm/_native.so"].replace(b"libc.so.6\0", b"libx.so.6\0")


def _need_newer_system(files: Files) -> None:
    changed = files["sslm/_native.so"].replace(b"GLIBC_2.14\0", b"GLIBC_2.99\0")
    files["sslm/_native.so"] = changed.replace(b"GLIBC_2.17\0", b"GLIBC_2.99\0")


def _need_private_symbols(files: Files) -> None:
    changed = files["sslm/_native.so"].replace(b"GLIBC_2.14\0", b"GLOBC_2.14\0")
    files["sslm/_native.so"] = changed.replace(b"GLIBC_2.17\0", b"GLOBC_2.17\0")


def _other_version(files: Files) -> None:
    name = next(name for name in files if name.endswith("/METADATA"))
    files[name] = files[name].replace(b"Version: 0", b"Version: 9")


def _other_inner_tag(files: Files) -> None:
    name = next(name for name in files if name.endswith("/WHEEL"))
    files[name] += b"Tag: py3-none-any\n"


@pytest.mark.parametrize(
    ("tamper", "check"),
    [
        (_add_library, "files"),
        (_hide_library, "files"),
        (_change_source, "files"),
        (_drop_source, "files"),
        (_add_file, "files"),
        (_leak_path, "paths"),
        (_leak_wide_path, "paths"),
        (_rename_export, "exports"),
        (_need_another, "needs"),
        (_need_newer_system, "system"),
        (_need_private_symbols, "system"),
        (_other_version, "metadata"),
        (_other_inner_tag, "tag"),
    ],
)
def test_a_tampered_wheel_is_refused_by_name(
    tmp_path: Path,
    files: Files,
    expected: Expected,
    tamper: Callable[[Files], None],
    check: str,
) -> None:
    """The record is written anew after the change: hashes do not excuse."""
    tamper(files)
    with pytest.raises(WheelDefectError) as raised:
        check_wheel(_write(tmp_path, files, expected), expected)
    assert raised.value.check == check
    assert str(raised.value).startswith(f"{check}: found ")


@pytest.mark.parametrize("tag", ["py3-none-any", "cp311-cp311-linux_x86_64", "py3-none-win_amd64"])
def test_a_wrong_tag_is_refused(tmp_path: Path, files: Files, expected: Expected, tag: str) -> None:
    with pytest.raises(WheelDefectError, match=r"^tag: "):
        check_wheel(_write(tmp_path, files, expected, tag=tag), expected)


def test_a_changed_record_is_refused(tmp_path: Path, files: Files, expected: Expected) -> None:
    info = INFO.format(expected.version)
    right = _record(files, info)
    wrong = [
        right.replace(b"sslm/limits.py,sha256=", b"sslm/limits.py,sha256=A"),
        right.replace(b"sslm/limits.py,", b"sslm/limit.py,"),
        right + b"sslm/nothing.py,,\n",
        b"",
    ]
    for record in wrong:
        with pytest.raises(WheelDefectError, match=r"^record: "):
            check_wheel(_write(tmp_path, files, expected, record=record), expected)


def test_a_library_of_another_machine_is_refused(
    tmp_path: Path, files: Files, target: Target
) -> None:
    """The tag and everything else say the other machine; the library does not."""
    other = next(t for t in TARGETS if t.library == target.library and t.cpu != target.cpu)
    expected = expected_of(other)
    name = f"{INFO.format(expected.version)}/WHEEL"
    files[name] = files[name].replace(target.wheel_tag.encode(), other.wheel_tag.encode())
    with pytest.raises(WheelDefectError, match=r"^library: "):
        check_wheel(_write(tmp_path, files, expected), expected)


def test_what_is_no_archive_is_refused(tmp_path: Path, expected: Expected) -> None:
    path = tmp_path / "sslm-0.1.0-py3-none-any.whl"
    path.write_bytes(b"no archive")
    with pytest.raises(WheelDefectError, match=r"^files: "):
        check_wheel(path, expected)


def test_the_headers_functions_are_those_the_library_exports(expected: Expected) -> None:
    library = parse_library(load_library().path.read_bytes())
    assert library is not None
    assert declared_functions("int32_t sslm_native_one(void);\n/* sslm_native_two( */") == {
        "sslm_native_one"
    }
    assert library.exports == expected.exports
    assert "sslm_native_plan_open" in expected.exports


def _commands(*files: str) -> str:
    entries = [file.partition(" ") for file in files]
    return json.dumps([{"file": file, "command": f"zig cc {words}"} for file, _, words in entries])


PLAIN: Final = "run.c -mcpu=baseline"
SCALAR: Final = "add.c -mcpu=baseline -DSSLM_TIER=scalar"


def test_tiers_are_those_of_the_cpu(target: Target) -> None:
    assert check_tiers(_commands(PLAIN, SCALAR), target) == ("scalar",)
    x86 = next(t for t in TARGETS if t.cpu == "x86_64")
    avx2 = "add.c -mcpu=baseline -mavx2 -DSSLM_TIER=avx2"
    assert check_tiers(_commands(SCALAR, avx2), x86) == ("avx2", "scalar")


@pytest.mark.parametrize(
    "commands",
    [
        _commands(PLAIN, SCALAR, "add.c -mcpu=baseline -DSSLM_TIER=other"),
        _commands(PLAIN),
        _commands(SCALAR, "run.c -mcpu=baseline -mavx2"),
        _commands("add.c -mcpu=baseline -march=native -DSSLM_TIER=scalar"),
        _commands(SCALAR, "run.c -O3"),
    ],
)
def test_a_tier_of_another_cpu_or_a_leak_is_refused(target: Target, commands: str) -> None:
    with pytest.raises(WheelDefectError, match=r"^tiers: "):
        check_tiers(commands, target)
