"""The test data is whole, small, licensed, and read without writing beside it."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.data import ARCHIVE, DATA, shared_data

SIZE_BYTES_MAX = 15_000_000
ROOT = Path(__file__).parents[1]
LISTED = dict(
    re.findall(r"^\| `(\S+)` \| ([0-9a-f]{64}) \|$", (DATA / "README.md").read_text(), re.M)
)
QWEN2 = "vocab/ggml-vocab-qwen2.gguf"
IN_PUBLIC_DOMAIN = {"text"}

PRINTS_THE_SUM = f"""
import hashlib
from tests.data import shared_data
path = shared_data({QWEN2!r})
print(path, hashlib.sha256(path.read_bytes()).hexdigest())
"""


def _files() -> set[str]:
    return {path.relative_to(DATA).as_posix() for path in DATA.rglob("*") if path.is_file()}


def test_the_page_lists_every_file() -> None:
    unpacked = {re.sub(r"(?<!\.tar)\.xz$", "", name) for name in _files()}
    assert set(LISTED) == {
        name for name in unpacked if Path(name).name not in {"README.md", "LICENSE"}
    }


@pytest.mark.parametrize("name", LISTED)
def test_a_file_is_the_listed_one(name: str) -> None:
    path = DATA / name if name.endswith(ARCHIVE) else shared_data(name)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == LISTED[name]


def test_every_folder_has_its_licence() -> None:
    licensed = {name.partition("/")[0] for name in _files() if name.endswith("/LICENSE")}
    assert licensed | IN_PUBLIC_DOMAIN == {name.partition("/")[0] for name in LISTED}


def test_all_of_it_is_small() -> None:
    assert sum((DATA / name).stat().st_size for name in _files()) <= SIZE_BYTES_MAX


def test_archives_unpack_to_folders() -> None:
    assert len(list(shared_data("templates").glob("*.jinja"))) == 80
    suite = shared_data("json-schema-test-suite/tests/draft2020-12")
    assert (suite / "optional" / "format" / "date.json").is_file()
    assert shared_data("json-schema-test-suite/tests/draft2020-12/allOf.json").parent == suite


@pytest.mark.parametrize("name", ["vocab/none.gguf", "templates/none.jinja", "nowhere/at-all"])
def test_what_is_not_there_is_named(name: str) -> None:
    with pytest.raises(FileNotFoundError, match=re.escape(name)):
        shared_data(name)


def test_processes_unpack_side_by_side_and_leave_nothing(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PRINTS_THE_SUM]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    lines = [process.communicate()[0].split() for process in running]
    assert [digest for _, digest in lines] == [LISTED[QWEN2]] * 3
    assert len({path for path, _ in lines}) == 3
    assert all(Path(path).is_relative_to(tmp_path) for path, _ in lines)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
def test_a_forked_child_leaves_the_files_of_its_parent() -> None:
    code = f"""
import os, sys
from tests.data import shared_data
path = shared_data({QWEN2!r})
if (child := os.fork()) == 0:
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
assert path.is_file()
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
