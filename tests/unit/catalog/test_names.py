"""Names of models: what may become part of a file name."""

from pathlib import Path

import pytest

from sslm.catalog.names import checked_name, name_of_file
from sslm.errors.catalog import ModelNameError


@pytest.mark.parametrize("name", ["a", "smollm2-135m", "qwen2.5_0.5b", "0", "a" * 64])
def test_a_plain_name_stays_as_it_is(name: str) -> None:
    assert checked_name(name) == name


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


def test_a_file_is_called_by_its_stem() -> None:
    path = Path("/models/SmolLM2 135M-Instruct.Q4_1.gguf")
    assert name_of_file(path) == "smollm2-135m-instruct.q4_1"


def test_a_file_with_an_impossible_stem_has_to_be_renamed() -> None:
    with pytest.raises(ModelNameError, match="rename the file"):
        name_of_file(Path("模型.gguf"))
