"""Nothing opens a socket but a fetch that was asked for: no import, no command, no telemetry."""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.first_use import SHAPE

import sslm
from tests.gguf_files import random_llama_gguf

PROGRAM = """
import contextlib, io, json, sys

opened = []
sys.addaudithook(lambda event, args: event.startswith("socket.") and opened.append(event))
import sslm

folder = sys.argv[1]
from sslm.cli.app import app, run

commands = {
    "convert": [f"{folder}/source.gguf", "-o", f"{folder}/tiny.sslm"],
    "pull": [f"{folder}/tiny.sslm"],
    "list": [],
    "generate": ["abc", "-m", "tiny", "--max-tokens", "2"],
    "chat": ["-m", "tiny", "--max-tokens", "2"],
    "prove": ["abc", "-m", "tiny", "--max-tokens", "2"],
    "inspect": [f"{folder}/tiny.sslm"],
    "verify": ["tiny"],
    "doctor": [],
    "tokenize": ["abc", "-m", "tiny"],
    "rm": ["tiny"],
}
known = {one.name: one for one in app.registered_commands}
codes = {}
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as noted:
    for name in [*commands, *sorted(set(known) - set(commands))]:
        if name == "rm":
            with sslm.load("tiny", threads=2) as model:
                model.generate("abc", max_tokens=2)
                model.footprint(sequences=2)
        codes[name] = run([name, *commands.get(name, ["--help"])])
    codes["default"] = run(["generate", "abc"])
    codes["hub"] = run(["pull", "hf:org/repo"])
print(json.dumps({"opened": opened, "codes": codes, "noted": noted.getvalue()}))
"""


def test_nothing_opens_a_socket_when_fetching_is_forbidden(tmp_path: Path) -> None:
    random_llama_gguf(tmp_path / "source.gguf", seed=5, **SHAPE)
    environment = {
        "PYTHONPATH": str(Path(str(sslm.__file__)).parents[1]),
        "SSLM_CACHE_DIR": str(tmp_path / "cache"),
        "SSLM_OFFLINE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={name: value for name, value in os.environ.items() if name[:5] != "SSLM_"}
        | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["opened"] == []
    refused = {name: code for name, code in found["codes"].items() if code}
    # A random model has no chat template; the others would have to fetch.
    assert refused == {"chat": 4, "default": 6, "hub": 6}, found["noted"]
