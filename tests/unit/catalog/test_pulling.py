"""Pulling: files of one's own get a name in the cache."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sslm
from sslm.catalog.cache import Cache
from sslm.catalog.known_models import KnownModel
from sslm.catalog.origins import read_origin
from sslm.catalog.pulling import pull
from sslm.errors.base import ArtifactError
from sslm.errors.catalog import ModelNameError, PackageUnknownError, UnknownModelError
from sslm.errors.engine import ModelHashMismatchError
from sslm.errors.reading import UnreadableFileError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.status import Status
from tests.causes import raises
from tests.converted import STORIES_SOURCE, stories_artifact, talking_artifact
from tests.unit.catalog.local_package import without_network

pytestmark = pytest.mark.usefixtures("_quick_conversion")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_gguf_file_is_converted_under_its_own_name(cache: Cache) -> None:
    pulled = pull(STORIES_SOURCE, sha256=_sha256(STORIES_SOURCE), cache_dir=cache.folder)
    assert pulled.name == "stories260k-f32"
    assert pulled.path.read_bytes() == stories_artifact().read_bytes()
    assert pull(STORIES_SOURCE, cache_dir=cache.folder) == pulled


def test_an_artifact_is_copied(cache: Cache) -> None:
    pulled = pull(stories_artifact(), cache_dir=cache.folder)
    assert pulled.name == "stories260k"
    assert pulled.path.read_bytes() == stories_artifact().read_bytes()
    assert sorted(path.name for path in cache.folder.iterdir()) == ["lock", "models"]


def test_a_name_goes_to_what_was_pulled_last(cache: Cache, tmp_path: Path) -> None:
    first = pull(stories_artifact(), cache_dir=cache.folder)
    source = tmp_path / "stories260K.gguf"
    shutil.copy(STORIES_SOURCE, source)
    second = pull(source, cache_dir=cache.folder)
    assert (second.name, second.key == first.key) == (first.name, False)
    assert cache.models() == [second, first]


def test_a_known_model_is_pulled_by_name(known: KnownModel, packages: Path, cache: Cache) -> None:
    pulled = pull(known.name, cache_dir=cache.folder, pip_arguments=without_network(packages))
    assert pulled.name == known.name
    digest = _sha256(pulled.path)
    assert pull(known.name, sha256=digest.upper(), cache_dir=cache.folder) == pulled
    with pytest.raises(ModelHashMismatchError):
        pull(known.name, sha256="0" * 64, cache_dir=cache.folder)


def test_a_hash_that_is_none_is_refused_before_anything_is_done(
    known: KnownModel, cache: Cache
) -> None:
    for asked in (known.name, STORIES_SOURCE, "hf:org/repo"):
        with pytest.raises(OptionRangeError, match="64 hex digits"):
            pull(asked, sha256="abc", cache_dir=cache.folder)
    with pytest.raises(OptionRangeError, match="64 hex digits"):
        sslm.load(known.name, sha256="abc", cache_dir=cache.folder)
    assert not cache.folder.exists()


def test_the_whole_line_of_sha256sum_will_do(cache: Cache) -> None:
    with pytest.raises(ModelHashMismatchError):
        pull(stories_artifact(), sha256=f"{'0' * 64}  model.sslm\n", cache_dir=cache.folder)
    line = f"{_sha256(stories_artifact()).upper()}  model.sslm\n"
    assert pull(stories_artifact(), sha256=line, cache_dir=cache.folder).name == "stories260k"


@pytest.mark.parametrize("kind", ["package", "source"])
def test_what_a_known_model_is_made_from_becomes_it(
    kind: str, known: KnownModel, packages: Path, cache: Cache
) -> None:
    """Where there is no network, the file that was brought by hand is enough."""
    path = next(packages.iterdir()) if kind == "package" else STORIES_SOURCE
    pulled = pull(path, download=False, cache_dir=cache.folder)
    assert pulled.name == known.name
    assert pulled.path.read_bytes() == stories_artifact().read_bytes()


def test_a_file_that_is_not_the_one_asked_for_is_not_read(cache: Cache) -> None:
    with pytest.raises(ModelHashMismatchError):
        pull(STORIES_SOURCE, sha256="0" * 64, cache_dir=cache.folder)
    assert not cache.folder.exists()


def test_a_file_may_not_take_the_name_of_a_known_model(
    known: KnownModel, cache: Cache, tmp_path: Path
) -> None:
    path = tmp_path / f"{known.name}.sslm"
    shutil.copy(stories_artifact(), path)
    with pytest.raises(ModelNameError, match="another model that is known"):
        pull(path, cache_dir=cache.folder)


def test_a_package_that_is_not_known_is_not_opened(packages: Path, cache: Cache) -> None:
    with pytest.raises(PackageUnknownError):
        pull(next(packages.iterdir()), cache_dir=cache.folder)


def test_a_damaged_artifact_is_not_kept(cache: Cache, tmp_path: Path) -> None:
    path = tmp_path / "damaged.sslm"
    path.write_bytes(stories_artifact().read_bytes()[:-1])
    with pytest.raises(ArtifactError):
        pull(path, cache_dir=cache.folder)
    path.write_bytes(b"GGUF" + bytes(100))
    with raises(Status.SSLM_MAGIC):
        pull(path, cache_dir=cache.folder)
    assert list((cache.folder / "models").iterdir()) == []


@pytest.mark.parametrize("name", ["nobody", "nobody.bin", ""])
def test_what_is_neither_name_nor_model_file_is_refused(name: str, cache: Cache) -> None:
    with pytest.raises(UnknownModelError):
        pull(name, cache_dir=cache.folder)


def test_a_file_that_is_not_there_has_its_own_error(cache: Cache, tmp_path: Path) -> None:
    for path in (tmp_path / "a.gguf", tmp_path):
        with pytest.raises(UnreadableFileError):
            pull(path, cache_dir=cache.folder)


def test_whoever_waited_looks_again(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process makes the very model between the first look and the lock."""
    work_folder = Cache.work_folder

    @contextmanager
    def slow(self: Cache, *arguments: Any) -> Iterator[Path]:
        monkeypatch.setattr(Cache, "work_folder", work_folder)
        pull(STORIES_SOURCE, cache_dir=cache.folder)
        with work_folder(self, *arguments) as folder:
            yield folder

    monkeypatch.setattr(Cache, "work_folder", slow)
    work: list[str] = []
    pulled = pull(
        STORIES_SOURCE,
        cache_dir=cache.folder,
        on_progress=lambda what, done, total: work.append(what),
    )
    assert cache.models() == [pulled]
    assert "convert" not in work


def test_another_file_of_the_name_stays(cache: Cache, tmp_path: Path) -> None:
    first = pull(stories_artifact(), cache_dir=cache.folder)
    other = tmp_path / stories_artifact().name
    shutil.copy(talking_artifact(), other)
    second = pull(other, cache_dir=cache.folder)
    assert first.name == second.name
    assert [model.key for model in cache.models()] == [second.key, first.key]
    # Pulled again, without any work, the first is what the name means.
    pull(stories_artifact(), cache_dir=cache.folder)
    assert [model.key for model in cache.models()] == [first.key, second.key]


def test_a_damaged_file_is_made_anew(cache: Cache) -> None:
    pulled = pull(STORIES_SOURCE, cache_dir=cache.folder)
    good = pulled.path.read_bytes()
    pulled.path.write_bytes(good[:-1])
    pull(STORIES_SOURCE, cache_dir=cache.folder)
    assert pulled.path.read_bytes() == good


def test_origins_are_noted(cache: Cache, known: KnownModel, packages: Path) -> None:
    pulled = pull(stories_artifact(), cache_dir=cache.folder)
    expected = {"kind": "file", "file": "stories260K.sslm", "sha256": _sha256(stories_artifact())}
    assert read_origin(pulled.path) == expected
    added = pull(next(packages.iterdir()), cache_dir=cache.folder)
    assert read_origin(added.path)["package"] == known.requirement
