"""Taking models out of the cache: those that are named, and nothing outside it."""

import os
from pathlib import Path

import pytest

from sslm.catalog.cache import Cache
from sslm.catalog.origins import origin_path, read_origin
from sslm.catalog.removing import remove
from sslm.errors.artifact import UnwritableFileError
from sslm.errors.catalog import ModelInUseError, UnknownCachedModelError

KEY = "0123456789abcdef"
OTHER_KEY = "fedcba9876543210"


@pytest.fixture
def filled(cache: Cache) -> Cache:
    for name, key in (("alpha", KEY), ("alpha", OTHER_KEY), ("beta", KEY), ("betamax", KEY)):
        with cache.work_folder() as folder:
            (folder / "draft").write_bytes(b"model")
            cache.keep(folder / "draft", name, key, origin={"kind": "file", "file": "x"})
    return cache


def names(cache: Cache) -> list[str]:
    return [f"{model.name}-{model.key}" for model in cache.models()]


def test_a_name_stands_for_all_its_conversions(filled: Cache) -> None:
    removed = remove(["alpha"], cache_dir=filled.folder)
    assert [(model.name, model.size_bytes) for model in removed] == [("alpha", 5), ("alpha", 5)]
    assert names(filled) == [f"beta-{KEY}", f"betamax-{KEY}"]
    assert len(list((filled.folder / "models").iterdir())) == 4


def test_a_name_with_its_key_stands_for_one(filled: Cache) -> None:
    remove([f"alpha-{KEY}", "beta"], cache_dir=filled.folder)
    assert names(filled) == [f"alpha-{OTHER_KEY}", f"betamax-{KEY}"]


def test_all_are_removed_on_request(filled: Cache) -> None:
    assert len(remove(None, cache_dir=filled.folder)) == 4
    assert list((filled.folder / "models").iterdir()) == []
    assert remove(None, cache_dir=filled.folder) == []


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("alhpa", "alpha"), ("bet", "beta or betamax"), ("BETA", "beta or betamax"), ("", None)],
)
def test_an_unknown_name_removes_nothing(name: str, nearest: str | None, filled: Cache) -> None:
    before = names(filled)
    with pytest.raises(UnknownCachedModelError) as caught:
        remove(["alpha", name], cache_dir=filled.folder)
    assert caught.value.nearest == nearest
    assert ("did you mean" in str(caught.value)) == (nearest is not None)
    assert caught.value.available == "alpha, beta, betamax"
    assert names(filled) == before


def test_an_empty_cache_is_not_made(cache: Cache) -> None:
    assert remove(None, cache_dir=cache.folder) == []
    with pytest.raises(UnknownCachedModelError):
        remove(["a"], cache_dir=cache.folder)
    assert not cache.folder.exists()


def test_links_are_neither_followed_nor_removed(filled: Cache, tmp_path: Path) -> None:
    precious = tmp_path / "precious.sslm"
    precious.write_bytes(b"precious")
    link = filled.folder / "models" / f"gamma-{KEY}.sslm"
    link.symlink_to(precious)
    assert filled.ignored() == [link]
    assert filled.find("gamma") is None
    with pytest.raises(UnknownCachedModelError):
        remove(["gamma"], cache_dir=filled.folder)
    remove(None, cache_dir=filled.folder)
    assert precious.read_bytes() == b"precious"
    assert filled.ignored() == [link]


def test_a_folder_of_models_that_is_a_link_is_not_entered(cache: Cache, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"alpha-{KEY}.sslm").write_bytes(b"precious")
    cache.folder.mkdir()
    (cache.folder / "models").symlink_to(elsewhere)
    assert cache.models() == []
    with pytest.raises(UnwritableFileError, match="models in it is a link"):
        remove(None, cache_dir=cache.folder)
    assert (elsewhere / f"alpha-{KEY}.sslm").read_bytes() == b"precious"


def test_a_link_in_place_of_the_lock_is_not_followed(filled: Cache, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    (filled.folder / "lock").unlink()
    (filled.folder / "lock").symlink_to(precious)
    with pytest.raises(UnwritableFileError):
        remove(["alpha"], cache_dir=filled.folder)
    assert precious.read_bytes() == b"precious"


def test_an_open_model_stays_usable_where_the_system_allows_it(filled: Cache) -> None:
    model = filled.find("beta")
    assert model is not None
    with model.path.open("rb") as file:
        remove(["beta"], cache_dir=filled.folder)
        assert file.read() == b"model"


def test_an_open_model_is_named_where_the_system_does_not(
    filled: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Windows does it."""
    model = filled.find("beta")
    assert model is not None

    def unlink(name: str, *, dir_fd: int | None = None) -> None:
        raise PermissionError(13, f"in use: {name} {dir_fd}")

    monkeypatch.setattr(os, "unlink", unlink)
    monkeypatch.setattr(os, "name", "nt")
    with pytest.raises(ModelInUseError, match="'beta' is open"):
        filled.remove(model)


def test_notes_without_a_model_are_removed_by_the_next_who_works(filled: Cache) -> None:
    model = filled.find("beta")
    assert model is not None
    assert read_origin(model.path) == {"kind": "file", "file": "x"}
    model.path.unlink()
    (filled.folder / "models" / "mine.origin.json").write_bytes(b"")
    with filled.locked("a test"):
        assert not origin_path(model.path).exists()
    assert (filled.folder / "models" / "mine.origin.json").exists()


@pytest.mark.parametrize(
    "content", [b"", b"no JSON", b"[]", b'{"a": 1}', b"[" * 9000, b" " * (1 << 15), b"\xff"]
)
def test_a_note_that_cannot_be_read_is_none(content: bytes, filled: Cache) -> None:
    model = filled.models()[0]
    origin_path(model.path).write_bytes(content)
    assert read_origin(model.path) == {}
