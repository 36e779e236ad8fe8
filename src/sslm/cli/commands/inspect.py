"""``sslm inspect``: what is in a model file, without running any of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sslm.cli.commands.model_facts import artifact_facts, gguf_facts
from sslm.cli.failures import about_file
from sslm.cli.options.local_model import local_model_path
from sslm.cli.options.model import CacheDirOption, JsonOption
from sslm.cli.screen.output import print_json, print_text, shown
from sslm.threads import open_file

if TYPE_CHECKING:
    from sslm.cli.commands.model_facts import Facts

_GGUF_MAGIC: Final = b"GGUF"


_EPILOG: Final = "Example: sslm inspect model.gguf"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("inspect", epilog=_EPILOG)(inspect)


def inspect(
    *,
    model: Annotated[
        str, typer.Argument(metavar="PATH", help="A .sslm or GGUF file, or a cached name.")
    ],
    cache_dir: CacheDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is in a .sslm or GGUF file; nothing of it is run or rendered.

    A .sslm file is checked as it is when it is opened to run. Of a GGUF file it is said whether it
    can be converted, and if not, why.
    """
    path = local_model_path(model, cache_dir)
    with about_file(str(path)):
        facts = gguf_facts(path) if _is_gguf(path) else artifact_facts(path)
    if as_json:
        print_json(facts)
    else:
        print_text("".join(f"{line}\n" for line in _lines(facts, indent="")))


def _is_gguf(path: Path) -> bool:
    """Tell the formats apart by their first bytes; the parser reports what is wrong."""
    try:
        if not path.is_file():
            return False
        with open_file(path, "rb") as file:
            return file.read(len(_GGUF_MAGIC)) == _GGUF_MAGIC
    except OSError:
        return False


def _lines(facts: "Facts", indent: str) -> list[str]:
    """Lay facts out for a person, tables of equal rows as one line each."""
    lines: list[str] = []
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        if isinstance(value, dict):
            lines += [f"{indent}{shown(name)}", *_lines(value, indent + "  ")]
        elif isinstance(value, list):
            lines += [f"{indent}{shown(name)}", *(f"{indent}  {_row(row)}" for row in value)]
        else:
            lines.append(f"{indent}{shown(name):<{width}}  {_shown(value)}")
    return lines


def _row(row: object) -> str:
    if isinstance(row, dict):
        return "  ".join(f"{_shown(value):<{_COLUMNS.get(name, 0)}}" for name, value in row.items())
    return _shown(row)


_COLUMNS: Final = {"name": 40, "encoding": 12, "type": 10, "shape": 16}


def _shown(value: object) -> str:
    """Show a value; whatever a file holds, no control character reaches the terminal."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " x ".join(map(str, value))
    return shown(str(value)).replace("\n", "\\n")
