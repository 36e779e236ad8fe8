"""Every command that a document, a docstring or a help text prints is one that runs here.

Programs are started as they are printed, with ``--help``, in the checkout and with the installed
package; options must be known to them. Nothing is measured: the checks take no model.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import typer.main

from sslm.cli.app import app
from tests.documented_commands import ROOT, Command, commands_of, documented

Program = tuple[str, ...]
OUR_FOLDERS = ("benchmarks", "examples", "fuzz", "tests", "tools")
PEERS_FOLDER = ROOT / "benchmarks" / "versus"
"""Programs that run in the environment of a peer, as their docstrings say."""
TIME_LIMIT_S = 120
COMMANDS = documented()


def _is_ours(command: Command) -> bool:
    return command.is_python and re.split(r"[./]", command.program[-1])[0] in OUR_FOLDERS


OURS = sorted({command.program for command in COMMANDS if _is_ours(command)})


def _run(words: Program) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment | {"COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def helps() -> dict[Program, subprocess.CompletedProcess[str]]:
    """Return what each program prints when it is asked for help; two are asked at a time."""
    with ThreadPoolExecutor(2) as pool:
        outcomes = pool.map(lambda program: _run((*program, "--help")), OURS)
        return dict(zip(OURS, outcomes, strict=True))


Helps = dict[Program, subprocess.CompletedProcess[str]]


def test_there_are_commands_to_check() -> None:
    """An empty list would pass every other test here."""
    assert {"README.md", "docs/verification.md"} <= {command.place for command in COMMANDS}
    assert {("-m", "benchmarks.schema_suite"), ("benchmarks/schema_masks.py",)} <= set(OURS)
    assert len(OURS) > 50


@pytest.mark.parametrize("program", OURS, ids=" ".join)
def test_a_program_runs_as_it_is_printed(program: Program, helps: Helps) -> None:
    done = helps[program]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")


@pytest.mark.parametrize("program", OURS, ids=" ".join)
def test_a_program_has_the_options_that_are_printed(program: Program, helps: Helps) -> None:
    known = set(re.findall(r"(?<!\w)--?[A-Za-z][\w-]*", helps[program].stdout))
    printed = [command for command in COMMANDS if command.is_python and command.program == program]
    unknown = {c.place: o for c in printed for o in c.options if o not in known}
    assert unknown == {}


@pytest.mark.parametrize("program", OURS, ids=" ".join)
def test_the_example_of_a_help_text_is_of_its_program(program: Program, helps: Helps) -> None:
    known = set(re.findall(r"(?<!\w)--?[A-Za-z][\w-]*", helps[program].stdout))
    for example in re.findall(r"^\w*[Ee]xample: (.*)", helps[program].stdout, re.MULTILINE):
        (words,) = commands_of(example)
        command = Command(place="help", words=words)
        assert command.program == program
        assert set(command.options) <= known


def test_a_program_of_a_peer_lies_where_it_is_documented() -> None:
    others = {c.program[-1] for c in COMMANDS if c.is_python and c.program[-1].endswith(".py")}
    peers = {name for name in others if "/" not in name}
    assert peers == {"score_llama_cpp.py", "serve_llama_cpp.py", "serve_schemas.py"}
    assert all((PEERS_FOLDER / name).is_file() for name in peers)


def test_every_path_of_a_command_is_there() -> None:
    missing = {path: c.place for c in COMMANDS for path in c.paths if not (ROOT / path).exists()}
    assert missing == {}


def _leaves(command: Any, names: Program = ()) -> Iterator[tuple[Program, Any]]:
    yield names, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _leaves(inner, (*names, name))


SSLM = dict(_leaves(typer.main.get_command(app)))


@pytest.mark.parametrize(
    "command",
    [command for command in COMMANDS if Path(command.words[0]).name == "sslm"],
    ids=lambda command: " ".join(command.words),
)
def test_sslm_has_the_command_and_its_options(command: Command) -> None:
    names = [word.rstrip(",") for word in command.words[1:]]
    if names[0] in {"COMMAND", "help"}:
        return
    chosen = max((n for n in SSLM if n == tuple(names[: len(n)])), key=len)
    assert chosen, f"{command.place}: there is no command {names[0]}"
    family = [c for n, c in SSLM.items() if n[: len(chosen)] == chosen]
    options = {o for c in family for p in c.params for o in (*p.opts, *p.secondary_opts)}
    assert set(command.options) - {"--help"} <= options


RUN_BY_PATH = """
import contextlib, io, json, runpy, sys
from pathlib import Path

path_before, failures = sys.path[1:], {}
for path in sys.argv[1:]:
    sys.path[:] = [str(Path(path).resolve().parent), *path_before]
    for name in [n for n in sys.modules if n.partition(".")[0] in ("benchmarks", "tests")]:
        del sys.modules[name]
    sys.argv[:] = [path, "--help"]
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_path(path, run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            failures[path] = f"exit {ended.code}"
    except Exception as error:
        failures[path] = repr(error)
    if not out.getvalue().startswith("usage: "):
        failures.setdefault(path, "no help")
print(json.dumps(failures))
"""


def test_benchmarks_run_by_their_paths_too() -> None:
    """The usage in a help text names the file, whatever the page says; all in one process."""
    modules = [program[-1] for program in OURS if program[-1].startswith("benchmarks.")]
    paths = [module.replace(".", "/") + ".py" for module in modules]
    done = _run(("-c", RUN_BY_PATH, *paths))
    assert (done.stderr, json.loads(done.stdout)) == ("", {})
    assert "benchmarks/schema_suite.py" in paths
