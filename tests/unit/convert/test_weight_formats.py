"""Which matrix has which width, and which may not have four bits."""

from dataclasses import replace
from pathlib import Path

import pytest

from sslm.convert.source import GgufModelSource
from sslm.convert.weight_formats import INT8_WEIGHTS, WeightFormats
from sslm.errors.program import AccumulatorBoundError
from sslm.errors.runtime import OptionRangeError
from sslm.program.tensors import Encoding
from tests.data import shared_data

STORIES: Path = shared_data("stories260K/stories260K-F32.gguf")


def test_layers_and_vocabulary_are_chosen_apart() -> None:
    formats = WeightFormats("int4", "int8")
    assert formats.encoding("layers.3.q_proj") is Encoding.PANEL_INT4
    assert formats.encoding("embed") is Encoding.PANEL_INT8
    assert [formats.is_int4(name) for name in ("layers.0.o_proj", "lm_head")] == [True, False]
    assert formats.options() == {"weights": "int4", "head_weights": "int8"}
    assert WeightFormats("int8", "int4").options() == {"weights": "int8", "head_weights": "int4"}
    # What int8 artifacts say of themselves is part of their pinned bytes.
    assert INT8_WEIGHTS.options() == {"weights": "int8"}
    assert not INT8_WEIGHTS.is_any_int4


@pytest.mark.parametrize(("layers", "head"), [("int2", "int8"), ("int4", "INT8"), ("", "int8")])
def test_unknown_formats_are_refused(layers: str, head: str) -> None:
    with pytest.raises(OptionRangeError, match="int8 or int4"):
        WeightFormats(layers, head)


def test_matrices_too_wide_for_exact_sums_are_refused() -> None:
    with GgufModelSource.open(STORIES) as source:
        config = replace(source.config, intermediate_size=16384)
    WeightFormats("int4", "int4").check_columns(config)
    wider = replace(config, intermediate_size=16385)
    INT8_WEIGHTS.check_columns(wider)
    WeightFormats("int8", "int4").check_columns(wider)
    with pytest.raises(AccumulatorBoundError) as caught:
        WeightFormats("int4", "int8").check_columns(wider)
    assert (caught.value.found, caught.value.highest) == (16385, 16384)
