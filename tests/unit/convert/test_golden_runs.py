"""Golden runs of chat templates that make no prompt for the golden message."""

from pathlib import Path

import pytest

from sslm.artifact import read_artifact
from sslm.convert.calibration_text import GOLDEN_PROMPTS
from sslm.convert.conversion import convert_gguf
from tests.gguf_files import random_llama_gguf


@pytest.mark.parametrize(
    "template",
    [
        "{% include 'other' %}",
        "{{ messages[0].content }}{{ strftime_now('%Y') }}",
        "{% if %}",
        "{{ raise_exception('no') }}",
        "{{ messages[0].content | upper }}<s>",
        "{% for a in range(10 ** 12) %}{% endfor %}",
        "{{ '' }}",
    ],
)
def test_a_template_without_a_prompt_has_no_golden_run(tmp_path: Path, template: str) -> None:
    source = random_llama_gguf(
        tmp_path / "source.gguf",
        seed=4,
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=20,
        vocab_size=270,
        tied=False,
        extra_metadata={"tokenizer.chat_template": template},
    )
    convert_gguf(source, tmp_path / "out.sslm")
    with read_artifact(tmp_path / "out.sslm") as artifact:
        assert artifact.chat_template == template
        assert artifact.golden is not None
        assert [run.text for run in artifact.golden.runs] == list(GOLDEN_PROMPTS)
