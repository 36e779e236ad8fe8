"""What the README shows works as it is printed."""

import re
from pathlib import Path

import pytest

from sslm.convert.conversion import convert_gguf
from tests.gguf_files import random_llama_gguf

README = Path(__file__).parents[1] / "README.md"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message.role + ': ' + message.content }}\n{% endfor %}"
)


@pytest.fixture
def model_path(tmp_path: Path) -> Path:
    source = tmp_path / "m.gguf"
    random_llama_gguf(
        source,
        seed=1,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        intermediate_size=48,
        vocab_size=300,
        tied=True,
        biases=False,
        extra_metadata={"tokenizer.chat_template": CHAT_TEMPLATE},
    )
    convert_gguf(source, tmp_path / "m.sslm")
    return tmp_path / "m.sslm"


def test_the_python_example_runs(
    model_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model of a few thousand random weights stands in for the default one."""
    monkeypatch.chdir(model_path.parent)
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert example.count('"smollm2-135m"') == 1
    exec(compile(example.replace('"smollm2-135m"', repr(str(model_path))), "README", "exec"), {})
    assert capsys.readouterr().out.rstrip().endswith("True")


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", README.read_text())
    assert len(links) > 3
    for link in links:
        assert (README.parent / link).exists(), link


def test_every_command_is_named() -> None:
    from sslm.cli.app import app

    text = README.read_text()
    for command in app.registered_commands:
        assert command.name is not None
        assert re.search(rf"\b{command.name}\b", text), command.name
