"""The folder that every case starts in: small models, schemas and files of requests."""

import json
import os
import shutil
from pathlib import Path
from typing import Final

from tests.converted import stories_artifact, stories_int4_artifact, talking_artifact
from tests.data import shared_data

_RIVER: Final = {
    "type": "object",
    "properties": {"river": {"enum": ["Rhine", "Nile"]}, "deep": {"type": "boolean"}},
    "required": ["river", "deep"],
    "additionalProperties": False,
}
_ORDER: Final = {
    "type": "object",
    "properties": {
        "item": {"type": "string", "maxLength": 12},
        "count": {"type": "integer", "minimum": 1, "maximum": 99},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 3},
    },
    "required": ["item", "count"],
}
_SCHEMAS: Final[dict[str, object]] = {
    "river.json": _RIVER,
    "order.json": _ORDER,
    "word.json": {"type": "string", "pattern": "^[a-z]{2,8}$"},
    "number.json": {"type": "number", "minimum": 0, "maximum": 10, "multipleOf": 0.5},
    "empty.json": {"allOf": [{"const": 1}, {"const": 2}]},
    "unknown.json": {"type": "object", "$dynamicRef": "#here", "contentMediaType": "text/html"},
    "broken.json": {"type": "objekt"},
}


def _line(custom_id: str, url: str, **body: object) -> str:
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body})


def _requests() -> str:
    chat, text = "/v1/chat/completions", "/v1/completions"
    hello = [{"role": "user", "content": "Hello"}]
    format_ = {"type": "json_schema", "json_schema": {"name": "river", "schema": _RIVER}}
    return "\n".join(
        [
            _line("plain", text, model="stories", prompt="Once upon a time", max_tokens=8),
            _line("drawn", text, prompt="Lily", max_tokens=8, temperature=0.8, top_p=0.9, seed=3),
            _line("row-seed", text, prompt="Lily", max_tokens=8, temperature=0.8),
            _line("twice", text, prompt="Tom", max_tokens=4, n=2, temperature=1),
            _line("stopped", text, prompt="Once upon a time", max_tokens=20, stop=["."]),
            _line("logprobs", text, prompt="One day", max_tokens=3, logprobs=2),
            _line("schema", text, prompt="A river: ", max_tokens=40, response_format=format_),
            _line("chat", chat, messages=hello, max_tokens=5),
            _line("bad-option", text, prompt="x", temperature=-1),
            _line("unknown-key", text, prompt="x", best_of=3),
            _line("too-long", text, prompt="x " * 2000, max_tokens=3),
            _line("no-prompt", text, max_tokens=3),
            "",
        ]
    )


def make_inputs(folder: Path) -> None:
    """Write the inputs; the names are part of the recorded outputs."""
    folder.mkdir()
    for name, path in {
        "stories.sslm": stories_artifact(),
        "int4.sslm": stories_int4_artifact(),
        "talker.sslm": talking_artifact(),
        "stories.gguf": shared_data("stories260K/stories260K-F32.gguf"),
        "alice.txt": shared_data("text/alice29.txt"),
    }.items():
        shutil.copyfile(path, folder / name)
    damaged = bytearray((folder / "stories.sslm").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (folder / "damaged.sslm").write_bytes(damaged)
    (folder / "short.sslm").write_bytes(damaged[:100])
    (folder / "short.gguf").write_bytes((folder / "stories.gguf").read_bytes()[:5000])
    (folder / "text.sslm").write_text("no model\n")
    (folder / "tale.txt").write_text("Once upon a time, there was a little girl named Lily.\n" * 4)
    (folder / "requests.jsonl").write_text(_requests())
    (folder / "bad.jsonl").write_text("{}\nnot json\n")
    for name, document in _SCHEMAS.items():
        (folder / name).write_text(json.dumps(document))


def copy_inputs(folder: Path, target: Path) -> None:
    """Make *target* a folder with the same files, which share their bytes until one is replaced."""
    target.mkdir()
    for path in folder.iterdir():
        os.link(path, target / path.name)
