"""Golden runs: which prompts a model gets, without running anything that its file brings."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sslm.artifact import Golden, read_artifact
from sslm.convert.calibration_text import GOLDEN_CHAT, GOLDEN_PROMPTS
from sslm.convert.conversion import convert_gguf
from sslm.engine.model import Model
from sslm.errors.base import SslmError
from sslm.errors.convert import NoCalibrationError
from tests.gguf_files import Typed, byte_tokens, random_llama_gguf
from tests.unit.text.chat_templates import CHATML

ENDLESS = "{% for a in range(10 ** 12) %}{{ a }}{% endfor %}"
UNUSABLE = {
    "refused": "{% include 'other' %}",
    "not Jinja": "{% if %}",
    "fails": "{{ 1 // 0 }}",
    "endless": ENDLESS,
    "too long to compile": "{{ a }}" * 9000,
}


def _source(folder: Path, **changes: Any) -> Path:
    shape = {
        "seed": 4,
        "hidden_size": 24,
        "num_hidden_layers": 1,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "intermediate_size": 20,
        "vocab_size": 270,
        "tied": False,
    }
    return random_llama_gguf(folder / "source.gguf", **(shape | changes))


def _golden(folder: Path, **changes: Any) -> Golden:
    convert_gguf(_source(folder, **changes), folder / "out.sslm")
    with read_artifact(folder / "out.sslm") as artifact:
        assert artifact.golden is not None
        return artifact.golden


def test_the_conversation_is_what_the_default_models_template_makes(tmp_path: Path) -> None:
    out = tmp_path / "out.sslm"
    convert_gguf(_source(tmp_path, extra_metadata={"tokenizer.chat_template": CHATML}), out)
    message = {"role": "user", "content": "What is the largest planet?"}
    with Model(out) as model:
        ids = model.tokenizer.encode_with_controls(GOLDEN_CHAT)
        assert model.chat([message], max_tokens=1).usage.prompt_tokens == len(ids)
        golden = model.artifact.golden
        assert golden is not None
        assert [run.text for run in golden.runs] == [*GOLDEN_PROMPTS, None]
        assert golden.runs[2].prompt_token_ids == tuple(ids[:48])


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_template_that_cannot_be_used_changes_nothing_but_chat(tmp_path: Path, name: str) -> None:
    source = _source(tmp_path, extra_metadata={"tokenizer.chat_template": UNUSABLE[name]})
    out = tmp_path / "out.sslm"
    convert_gguf(source, out)
    with Model(out) as model:
        assert model.artifact.chat_template == UNUSABLE[name]
        assert model.verify().ok
        assert model.generate("a", max_tokens=1).token_ids
        with pytest.raises(SslmError):
            model.chat([{"role": "user", "content": "a"}], max_tokens=1)


def test_converting_and_looking_render_no_template(tmp_path: Path) -> None:
    """The template engine is not even imported, in any of the commands that only look."""
    out = tmp_path / "out.sslm"
    source = _source(tmp_path, extra_metadata={"tokenizer.chat_template": ENDLESS})
    commands = [
        ["inspect", str(source)],
        ["convert", str(source), "-o", str(out)],
        ["inspect", str(out)],
        ["verify", str(out)],
        ["tokenize", "-m", str(out), "a"],
        ["generate", "-m", str(out), "--max-tokens", "1", "a"],
    ]
    code = (
        "import ast, sys\n"
        "from sslm.cli.app import run\n"
        "for command in ast.literal_eval(sys.argv[1]):\n"
        "    assert run(command) == 0, command\n"
        "    assert 'jinja2' not in sys.modules, command\n"
    )
    subprocess.run([sys.executable, "-c", code, repr(commands)], check=True, capture_output=True)


def _without_bytes(*missing: str) -> dict[str, Any]:
    """A vocabulary in which other tokens stand in the place of some bytes."""
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *byte_tokens()]
    for index, byte in enumerate(missing):
        tokens[tokens.index(byte)] = "ee" + "e" * index
    return {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * 3 + [1] * 256,
        "tokenizer.ggml.merges": Typed("array", [], "string"),
    }


def test_prompts_that_the_vocabulary_cannot_spell_are_left_out(tmp_path: Path) -> None:
    """Both golden prompts and the conversation have one of these; a calibration text has not."""
    golden = _golden(tmp_path, vocab_size=259, extra_metadata=_without_bytes("F"))
    assert [run.text for run in golden.runs] == [GOLDEN_PROMPTS[1]]


def test_where_nothing_can_be_spelled_the_first_token_is_run(tmp_path: Path) -> None:
    metadata = _without_bytes("F", "O") | {"tokenizer.chat_template": CHATML}
    golden = _golden(tmp_path, vocab_size=259, extra_metadata=metadata)
    assert [(run.text, run.prompt_token_ids) for run in golden.runs] == [(None, (0,))]
    with Model(tmp_path / "out.sslm") as model:
        assert model.verify().ok


def test_a_vocabulary_that_spells_no_calibration_text_is_refused(tmp_path: Path) -> None:
    metadata = _without_bytes("e", "Ġ")
    with pytest.raises(NoCalibrationError):
        convert_gguf(
            _source(tmp_path, vocab_size=259, extra_metadata=metadata), tmp_path / "out.sslm"
        )
