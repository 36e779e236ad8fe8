"""What people type: names, numbers, dates, stop strings, whole command lines."""

import contextlib
import datetime
import io
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

import typer

from fuzz.choices import Choices
from fuzz.target import Outcomes, Target, require
from sslm.answering.request import Request, stop_strings
from sslm.arguments import checked_int
from sslm.catalog.cache import Cache, conversion_key
from sslm.catalog.hub_reference import PREFIX, parse_reference
from sslm.catalog.names import checked_name, name_of_file
from sslm.catalog.origins import encode_origin, origin_path, read_origin
from sslm.catalog.resolving import is_path, unknown_model
from sslm.cli import app
from sslm.cli.exit_codes import INTERNAL
from sslm.cli.options.model import size_bytes, thread_count
from sslm.cli.options.text_input import decode_text
from sslm.cli.screen.output import shown
from sslm.convert.families.registry import SOURCE_FAMILIES
from sslm.errors.base import ArgumentError, ArtifactError
from sslm.limits import THREAD_COUNT_MAX
from sslm.model.config import binary32_bits, binary32_from_bits
from sslm.text.message import Message
from sslm.text.templates.date import format_date

_ENVIRONMENT: Final = {"SSLM_OFFLINE": "1", "SSLM_MODEL": "./absent/none.sslm"}
_COMMANDS: Final = ("tokenize", "inspect", "verify", "generate", "chat", "prove", "list")
_FIELDS: Final = ("role", "content", "name")


def _check_name(text: str) -> None:
    name = checked_name(text)
    require(name == text, "a name that is accepted is taken as it is")
    path = Cache(Path("cache")).path_of(name, "0" * 16)
    require(PureWindowsPath(path.name).name == path.name, "a name is one part of a path")
    require(not PureWindowsPath(path.name).is_reserved(), "no cached file has a reserved name")
    require(path.parent == Path("cache/models"), "a cached file lies in its folder")
    require(not is_path(name) or name.endswith((".sslm", ".gguf")), "a name is no path")


def _check_file_name(text: str) -> None:
    for kind in (PurePosixPath, PureWindowsPath):
        name = name_of_file(kind(text))
        require(checked_name(name) == name, "a file's name is a name")


def _check_unknown(text: str) -> None:
    require(bool(str(unknown_model(text, _cache()))), "an unknown name is explained")
    require(isinstance(is_path(text), bool), "a text is a path or not")


def _check_threads(text: str) -> None:
    with contextlib.suppress(typer.BadParameter):
        require(1 <= thread_count(text) <= THREAD_COUNT_MAX, "threads are in range")


def _check_stops(text: str) -> None:
    Request(
        prompt_ids=(0,),
        max_tokens=1,
        stop=stop_strings(text.split("\n")),
        stop_token_ids=frozenset(),
    )


def _check_date(text: str) -> None:
    layout, _, number = text.rpartition(" ")
    with contextlib.suppress(ValueError, OverflowError):
        date = datetime.date.fromordinal(int(number[:9]) if number.isdecimal() else 1)
        format_date(date, layout)


def _check_message(text: str) -> None:
    parts = text.split("\n")
    Message.from_mapping(dict(zip(_FIELDS, parts, strict=False)))


def _check_number(text: str) -> None:
    bits = int(text) if text.isdecimal() and len(text) < 11 else -1
    for value in (text, bits):
        with contextlib.suppress(ArgumentError):
            found = checked_int("fuzzed", value, lowest=1, highest=9)
            require(found in range(1, 10), "an option is in its range")
    number = binary32_from_bits("fuzzed", bits)
    require(binary32_bits("fuzzed", number) == bits, "a number has one bit pattern")


def _check_key(text: str) -> None:
    text = text.encode(errors="replace").decode()  # Keys are made of what this package writes.
    key = conversion_key(text, {text: text})
    require(len(key) == 16 and set(key) <= set("0123456789abcdef"), "a key is 16 hex digits")


def _check_shown(text: str) -> None:
    decoded = decode_text("fuzzed", text.encode(errors="surrogatepass"))
    lines = shown(decoded).split("\n")
    require(all(line.isprintable() for line in lines), "nothing that is shown steers a terminal")


def _check_tensor_name(text: str) -> None:
    for family in SOURCE_FAMILIES.values():
        for stem in (*family.layer, *family.model):
            require(
                bool(family.gguf_name(stem if stem in family.model else f"layers.7.{stem}")), ""
            )
    require(text not in SOURCE_FAMILIES or text == SOURCE_FAMILIES[text].name, "one name")


def _check_reference(text: str) -> None:
    for spelling in (text, f"{PREFIX}{text}"):
        with contextlib.suppress(ArgumentError):
            reference = parse_reference(spelling)
            require(str(reference) == spelling, "a reference has one spelling")
            path = PureWindowsPath("folder", reference.file or "a.gguf")
            is_inside = path.is_relative_to("folder") and ".." not in path.parts
            require(is_inside and not path.is_reserved(), "a file of a hub stays in its folder")


def _check_size(text: str) -> None:
    with contextlib.suppress(typer.BadParameter):
        require(size_bytes(text) >= 0, "a size is a count of bytes")


def _check_origin(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "a.sslm"
        origin_path(model).write_bytes(text.encode(errors="surrogateescape"))
        origin = read_origin(model)
        require(all(isinstance(one, str) for one in origin.values()), "a note is of texts")
        origin_path(model).write_bytes(encode_origin(origin))
        require(read_origin(model) == origin, "a note comes back")


_CHECKS: Final[tuple[Callable[[str], None], ...]] = (
    _check_name,
    _check_file_name,
    _check_unknown,
    _check_threads,
    _check_stops,
    _check_date,
    _check_message,
    _check_number,
    _check_key,
    _check_shown,
    _check_tensor_name,
    _check_reference,
    _check_size,
    _check_origin,
)


@cache
def _cache() -> Cache:
    """Return an empty cache, in a folder that is never made."""
    return Cache(Path(tempfile.gettempdir()) / "sslm-fuzz-absent")


def _run_command(choices: Choices, outcomes: Outcomes) -> None:
    """Run a command whose model is not there: every option is parsed, and nothing is loaded."""
    text = choices.rest().decode(errors="surrogateescape")
    arguments = [choices.pick(_COMMANDS), *text.split("\n")]
    environment = {**_ENVIRONMENT, "SSLM_CACHE_DIR": str(_cache().folder)}
    saved = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(b""))
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = app.run(arguments)
    finally:
        sys.stdin = stdin
        for name, value in saved.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    require(code != INTERNAL, f"no command line is an internal error: {printed.getvalue()[-2000:]}")
    outcomes.reached(f"exit code {code}")


def run(data: bytes, outcomes: Outcomes) -> None:
    """Give a text to the parser that the first byte names, or words to a command."""
    choices = Choices(data)
    which = choices.below(len(_CHECKS) + 3)
    if which >= len(_CHECKS):
        _run_command(choices, outcomes)
        return
    text = choices.rest().decode(errors="surrogateescape")
    with outcomes.refusals(ArgumentError, ArtifactError):
        _CHECKS[which](text)
        outcomes.reached(_CHECKS[which].__name__.removeprefix("_check_"))


TARGET: Final = Target(
    name="options",
    subject="texts to the parsers of names, numbers, dates, stop strings and command lines",
    run=run,
    modules=(
        "sslm.catalog.hub_reference",
        "sslm.catalog.names",
        "sslm.catalog.origins",
        "sslm.catalog.resolving",
        "sslm.cli.app",
        "sslm.cli.failures",
        "sslm.cli.options.model",
        "sslm.cli.screen.output",
        "sslm.cli.options.text_input",
        "sslm.cli.commands.tokenize",
        "sslm.arguments",
        "sslm.answering.request",
        "sslm.text.message",
        "sslm.text.templates.date",
    ),
    size_bytes_max=256,
    reaches=("name", "reference", "origin", "exit code 0"),
    dictionary=tuple(
        word.encode()
        for word in (
            *("cores", "system", "user", "assistant", "tool", "con", "nul", "aux", "com1", ".."),
            *(
                "%d %b %Y",
                "%-d",
                "%%",
                "smollm2-135m",
                "hf:",
                "llama",
                "--json",
                "--decode",
                "--ids",
            ),
            *("--threads", "--tier", "--backend", "--max-tokens", "--stop", "--sha256", "--date"),
            *("--context-tokens", "--memory-bytes", "--offline", "--system", "--help", "--", "-"),
            *("hf:org/repo@main/a.gguf", "500M", "2GiB", "--deadline-s", "-q", "-v", "{}"),
            *("2024-02-29", "0x10", "1_0", "\u0661", "1e9", "-1", ".sslm", ".gguf", "C:\\"),
        )
    ),
)
