"""``sslm.load``: what a name or a path opens."""

import hashlib
from pathlib import Path

import pytest

import sslm
from sslm.catalog.cache import Cache, conversion_key
from sslm.catalog.known_models import DEFAULT_NAME, KNOWN_MODELS, KnownModel
from sslm.catalog.pulling import pull
from sslm.errors.catalog import CachedModelError, OfflineError, UnknownModelError
from sslm.errors.engine import ModelHashMismatchError, NotAnArtifactError
from sslm.errors.reading import UnreadableFileError
from tests.converted import STORIES_SOURCE, stories_artifact


def test_a_path_is_opened_where_it_lies(cache: Cache) -> None:
    path = stories_artifact()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with sslm.load(path, sha256=digest, cache_dir=cache.folder) as model:
        assert model.path == path
        assert model.file_sha256 == digest
    assert not cache.folder.exists()


def test_a_file_name_with_the_ending_is_a_path(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here.sslm").write_bytes(stories_artifact().read_bytes())
    monkeypatch.chdir(tmp_path)
    with sslm.load("here.sslm", cache_dir=cache.folder) as model:
        assert model.generate("Once upon a time", max_tokens=1).token_ids
    with pytest.raises(UnreadableFileError):
        sslm.load("./here", cache_dir=cache.folder)


def test_a_pulled_model_is_opened_by_its_name(cache: Cache) -> None:
    pulled = pull(stories_artifact(), cache_dir=cache.folder)
    with sslm.load("stories260k", cache_dir=cache.folder) as model:
        assert model.path == pulled.path
    with pytest.raises(ModelHashMismatchError):
        sslm.load("stories260k", sha256="0" * 64, cache_dir=cache.folder)


@pytest.mark.usefixtures("_quick_conversion")
def test_a_known_model_that_is_not_there_would_be_fetched(
    known: KnownModel, packages: Path, cache: Cache
) -> None:
    with pytest.raises(OfflineError):
        sslm.load(known.name, download=False, cache_dir=cache.folder)
    pull(next(packages.iterdir()), cache_dir=cache.folder)
    with sslm.load(known.name, download=False, cache_dir=cache.folder) as model:
        assert model.threads == 1


def test_an_unknown_name_gets_the_nearest_one(cache: Cache) -> None:
    pull(stories_artifact(), cache_dir=cache.folder)
    with pytest.raises(UnknownModelError) as caught:
        sslm.load("smolm2-135M", cache_dir=cache.folder)
    assert caught.value.nearest == "smollm2-135m"
    assert caught.value.available == "smollm2-135m, stories260k"


def test_no_name_is_offered_that_is_nothing_like_the_one_asked_for(cache: Cache) -> None:
    with pytest.raises(UnknownModelError) as caught:
        sslm.load("nobody", cache_dir=cache.folder)
    assert str(caught.value) == (
        "there is no model 'nobody'. Available: smollm2-135m. "
        "A path needs a separator (./nobody) or the ending .sslm"
    )


@pytest.mark.parametrize("name", ["", "..", "a\0b"])
def test_no_name_leaves_the_cache(name: str, cache: Cache) -> None:
    with pytest.raises(UnknownModelError):
        sslm.load(name, cache_dir=cache.folder)


def test_a_gguf_file_has_to_be_converted(cache: Cache) -> None:
    for source in (STORIES_SOURCE, str(STORIES_SOURCE), "model.gguf"):
        with pytest.raises(NotAnArtifactError, match="sslm convert"):
            sslm.load(source, cache_dir=cache.folder)


def test_a_damaged_cached_model_is_named_with_the_way_out(cache: Cache) -> None:
    pulled = pull(stories_artifact(), cache_dir=cache.folder)
    pulled.path.write_bytes(pulled.path.read_bytes()[:-1])
    with pytest.raises(CachedModelError, match="`sslm rm stories260k`, then pull") as caught:
        sslm.load("stories260k", cache_dir=cache.folder)
    assert caught.value.path == str(pulled.path)


def test_another_model_under_a_known_name_is_refused(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default model's cached file is replaced by another sound artifact."""
    known = KNOWN_MODELS[DEFAULT_NAME]
    key = conversion_key(known.source.sha256, {"weights": known.weights})
    path = cache.path_of(known.name, key)
    path.parent.mkdir(parents=True)
    path.write_bytes(stories_artifact().read_bytes())
    with pytest.raises(CachedModelError, match="model_id"):
        sslm.load(cache_dir=cache.folder)
    # Pulling does not take it for the known model either.
    monkeypatch.setenv("SSLM_OFFLINE", "1")
    with pytest.raises(OfflineError):
        pull(known.name, cache_dir=cache.folder)
