"""Names of models: what may become part of a file name."""

from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from sslm.catalog.cache import Cache
from sslm.catalog.names import checked_name, is_device, name_of_file
from sslm.errors.catalog import ModelNameError
from tests.unit.catalog.hostile_names import HOSTILE_NAMES, is_plain_on_windows

KEY = "0123456789abcdef"


@pytest.mark.parametrize("name", ["a", "smollm2-135m", "qwen2.5_0.5b", "0", "a" * 64, "console"])
def test_a_plain_name_stays_as_it_is(name: str, cache: Cache) -> None:
    assert checked_name(name) == name
    path = cache.path_of(name, KEY)
    assert path.parent == cache.folder / "models"
    assert is_plain_on_windows(path.name)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a..b", "../a", "a/b", "a\\b", "A", "-a", "a-", ".a", "a.", "a b", "a\n", "é"],
)
def test_what_could_leave_the_folder_is_no_name(name: str) -> None:
    with pytest.raises(ModelNameError):
        checked_name(name)


@pytest.mark.parametrize("name", ["a" * 65, "a:b", "a\0b"])
def test_what_some_system_could_not_write_is_no_name(name: str) -> None:
    with pytest.raises(ModelNameError):
        checked_name(name)


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES.keys())
def test_a_hostile_name_is_no_name(name: str, cache: Cache) -> None:
    with pytest.raises(ModelNameError):
        checked_name(name)
    with pytest.raises(ModelNameError):
        cache.path_of(name, KEY)


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES.keys())
@pytest.mark.parametrize("system", [PurePosixPath, PureWindowsPath])
def test_a_file_with_a_hostile_name_becomes_a_plain_one_or_nothing(
    name: str, system: type[PurePosixPath | PureWindowsPath], cache: Cache
) -> None:
    """The file's owner may have put it where they like: only its last part counts."""
    for path in (system(name), system(name + ".gguf")):
        try:
            kept = cache.path_of(name_of_file(path), KEY)
        except ModelNameError:
            continue
        assert kept.parent == cache.folder / "models"
        assert kept.name.isascii()
        assert kept.name == kept.name.lower()
        assert is_plain_on_windows(kept.name)
        assert is_plain_on_windows(kept.name.removesuffix(f"-{KEY}.sslm"))


@pytest.mark.parametrize("name", ["CON", "prn", "Aux.txt", "nul.tar.gz", "COM9", "lpt1.", "con .x"])
def test_devices_of_windows_are_known(name: str) -> None:
    assert is_device(name)
    assert PureWindowsPath(name).is_reserved()


def test_a_file_is_called_by_its_stem() -> None:
    path = Path("/models/SmolLM2 135M-Instruct.Q4_1.gguf")
    assert name_of_file(path) == "smollm2-135m-instruct.q4_1"


@pytest.mark.parametrize("stem", ["模型", "\u212aon", "con", "COM1.Q4_1"])
def test_a_file_with_an_impossible_stem_has_to_be_renamed(stem: str) -> None:
    with pytest.raises(ModelNameError, match="rename the file"):
        name_of_file(Path(f"{stem}.gguf"))
