"""What the tests of the catalog share."""

import hashlib
import shutil
from pathlib import Path

import pytest

from sslm.catalog.cache import Cache
from sslm.catalog.known_models import KNOWN_MODELS, KnownModel
from sslm.convert import conversion
from sslm.convert.conversion import ConversionReport
from sslm.progress import StageProgress
from tests.converted import stories_artifact
from tests.unit.catalog.local_package import known_stories, write_wheel


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSLM_CACHE_DIR", "SSLM_OFFLINE", "HF_HUB_OFFLINE", "PIP_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with the package."""
    folder = tmp_path / "packages"
    write_wheel(folder)
    return folder


@pytest.fixture
def known(packages: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """A known model that the package carries."""
    model = known_stories(next(packages.iterdir()))
    monkeypatch.setitem(KNOWN_MODELS, model.name, model)
    return model


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """An empty cache."""
    return Cache(tmp_path / "cache")


@pytest.fixture
def _quick_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convert by copying what was converted before: the sources of these tests are all one."""

    def convert_gguf(
        source: Path, out: Path, *, weights: str, on_progress: StageProgress
    ) -> ConversionReport:
        on_progress("convert", 0, 1)
        shutil.copy(stories_artifact(), out)
        on_progress("convert", 1, 1)
        return ConversionReport(
            path=str(out),
            model_id="",
            file_sha256=hashlib.sha256(out.read_bytes()).hexdigest(),
            file_size_bytes=out.stat().st_size,
            source_sha256=hashlib.sha256(source.read_bytes()).hexdigest(),
        )

    monkeypatch.setattr(conversion, "convert_gguf", convert_gguf)
