"""The registry of families, on both of its sides."""

from dataclasses import replace
from pathlib import Path

import pytest

from sslm.convert.families.registry import SOURCE_FAMILIES, source_family
from sslm.errors.model import UnsupportedArchitectureError
from sslm.model.families import FAMILIES, build_program, family_named, weight_shapes
from tests.tiny_models import tiny_llama
from tests.unit.model.test_config import CONFIG


def test_a_family_has_one_name_for_models_and_for_sources() -> None:
    assert "llama" in FAMILIES
    assert set(FAMILIES) == set(SOURCE_FAMILIES)
    assert all(name == family.name for name, family in FAMILIES.items())
    assert all(name == family.name for name, family in SOURCE_FAMILIES.items())


def test_an_unknown_family_is_refused_with_those_that_there_are() -> None:
    expected = r"'gpt2' is not supported; .*: llama"
    for find in (family_named, source_family):
        with pytest.raises(UnsupportedArchitectureError, match=expected):
            find("gpt2")
    with pytest.raises(UnsupportedArchitectureError, match=expected):
        weight_shapes(replace(CONFIG, architecture="gpt2"))


@pytest.mark.parametrize("name", FAMILIES)
def test_conversion_knows_every_weight_of_a_family(name: str) -> None:
    config = replace(
        CONFIG,
        architecture=name,
        tie_word_embeddings=False,
        has_qkv_bias=True,
        has_o_bias=True,
        has_mlp_bias=True,
    )
    family, shapes = source_family(name), weight_shapes(config)
    assert len({family.gguf_name(weight) for weight in shapes}) == len(shapes)
    in_layers = {
        weight.split(".", 2)[2]: shape
        for weight, shape in shapes.items()
        if weight.startswith("layers.")
    }
    # Every matrix of a layer multiplies an input, and something before it can be divided by the
    # factors that the columns are multiplied by.
    assert set(family.inputs) == {local for local, shape in in_layers.items() if len(shape) == 2}
    assert set(family.divided) <= set(in_layers)
    assert set(family.divided.values()) == set(family.inputs.values())


def test_a_program_is_built_by_the_family_of_its_configuration(tmp_path: Path) -> None:
    model = tiny_llama(tmp_path)
    program = build_program(model.config, model.fraction_bits, model.tensors)
    assert program.vocab_size == model.config.vocab_size
    other = replace(model.config, architecture="gpt2")
    with pytest.raises(UnsupportedArchitectureError):
        build_program(other, model.fraction_bits, model.tensors)
