"""``sslm schema list``, ``sslm schema show``: the compiled schemas of a file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sslm.cli.failures import about_file
from sslm.cli.options.local_model import local_model_path, local_tokenizer
from sslm.cli.options.model import CacheDirOption, JsonOption, NoProgressOption
from sslm.cli.options.values import refusal
from sslm.cli.screen.output import note, print_json, print_table, print_text, progress, shown
from sslm.cli.screen.unmeasured import unmeasured

if TYPE_CHECKING:
    from sslm.answer_schemas.schema import Schema

_COLUMNS: Final = ("states", "masks", "bytes", "shortest answer")


def register(group: typer.Typer) -> None:
    """Add the commands to the group."""
    group.command("list", epilog="Example: sslm schema list model.sslm")(list_command)
    group.command("show", epilog="Example: sslm schema show model.sslm order")(show)


_ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="The path of a .sslm file, or a cached name.", show_default=False
    ),
]


def list_command(
    *, model: _ModelArgument, cache_dir: CacheDirOption = None, as_json: JsonOption = False
) -> None:
    """List the compiled schemas of a model file."""
    path = local_model_path(model, cache_dir)
    schemas = _schemas_of(path)
    if as_json:
        print_json({"path": str(path), "schemas": [facts_of(one) for one in schemas]})
        return
    if not schemas:
        note(f"{shown(str(path))} has no schemas; `sslm schema add` makes a file that has some")
        return
    rows = [
        [
            one.name,
            str(one.state_count),
            str(one.mask_count),
            str(one.size_bytes),
            f"{one.shortest_tokens} tokens",
        ]
        for one in schemas
    ]
    print_table(["name", *_COLUMNS], rows, right=_COLUMNS)


def show(
    *,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|FILE",
            help="A .sslm file, a cached name, or a .sslms file.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Which schema, if the model has several."),
    ] = None,
    for_model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="Of a .sslms file: the model that it is for, so that it is cross-checked.",
        ),
    ] = None,
    cache_dir: CacheDirOption = None,
    as_json: JsonOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Show a compiled schema: its size, its shortest answer, and its JSON Schema.

    It is compiled again and compared, for which a .sslms file needs its model.
    """
    from sslm.answer_schemas.schema import Schema

    path = Path(model)
    if is_schema_file(path):
        if name is not None:
            raise refusal("it is given", "nothing beside a .sslms file", param_hint="NAME")
        tokenizer_path = None if for_model is None else local_model_path(for_model, cache_dir)
        with about_file(str(path)):
            schema = Schema.load(path)
    else:
        if for_model is not None:
            raise refusal("it is given", "nothing beside a model", param_hint="--model")
        path = tokenizer_path = local_model_path(model, cache_dir)
        schema = _named(path, name)
    if tokenizer_path is not None:
        with (
            progress(is_shown=not no_progress) as report,
            unmeasured(report, "compiling the schema again") as tell,
            about_file(str(path)),
        ):
            schema.cross_check(local_tokenizer(tokenizer_path), on_progress=tell)
    _print(schema, path, is_checked=tokenizer_path is not None, is_json=as_json)


def facts_of(schema: "Schema") -> dict[str, object]:
    """Return what is known of a schema as JSON output carries it."""
    prepared = schema.prepared
    options = prepared.options
    return {
        "name": schema.name,
        "digest": schema.digest,
        "vocabulary_sha256": prepared.vocabulary_sha256.hex(),
        "states": schema.state_count,
        "masks": schema.mask_count,
        "size_bytes": schema.size_bytes,
        "shortest_tokens": schema.shortest_tokens,
        "states_without_choice": sum(token >= 0 for token in schema.tables.only.tokens),
        "canonical_spans": prepared.has_canonical_spans,
        "free_levels": options.free_levels,
        "recursion_levels": options.recursion_levels,
        "unknown_keywords": options.unknown_keywords,
        "formats": options.formats,
        "free_keys": options.free_keys,
        "spacing": options.spacing,
        "compiler_version": prepared.compiler_version,
    }


def lines_of(schema: "Schema") -> str:
    """Return what is known of a schema for a person, a line each."""
    facts = facts_of(schema)
    spans = "as the tokenizer does" if facts["canonical_spans"] else "in any way"
    rows = {
        "name": schema.name,
        "digest": schema.digest,
        "for": f"the vocabulary {facts['vocabulary_sha256']}",
        "states": f"{schema.state_count}, {facts['states_without_choice']} without a choice",
        "masks": f"{schema.mask_count}",
        "size": f"{schema.size_bytes} bytes",
        "shortest": f"{schema.shortest_tokens} tokens",
        "spans": f"text without a choice is split {spans}",
    }
    if added := schema.prepared.options.added_choices:
        rows["options"] = ", ".join(f"{name} {value}" for name, value in added.items())
    return "".join(f"  {name:8}  {shown(text)}\n" for name, text in rows.items())


def _print(schema: "Schema", path: Path, *, is_checked: bool, is_json: bool) -> None:
    if is_json:
        facts = {"path": str(path), **facts_of(schema), "is_cross_checked": is_checked}
        print_json({**facts, "document": schema.document})
        return
    checked = "compiled again, and the same" if is_checked else "not compiled again (see -m)"
    document = shown(_indented(schema.document))
    print_text(f"{shown(str(path))}\n{lines_of(schema)}  {'checked':8}  {checked}\n{document}\n")


def _indented(document: str) -> str:
    """Lay a document out, unless the numbers in it have more digits than can be kept then."""
    read = json.loads(document)
    is_kept = json.dumps(read, ensure_ascii=False, separators=(",", ":")) == document
    return json.dumps(read, ensure_ascii=False, indent=2) if is_kept else document


def _schemas_of(path: Path) -> "list[Schema]":
    from sslm.answer_schemas.schema import Schema
    from sslm.artifact import read_artifact

    with about_file(str(path)), read_artifact(path) as artifact:
        return [Schema(artifact.schemas[name]) for name in artifact.schemas]


def _named(path: Path, name: str | None) -> "Schema":
    """Return the schema of a name, or the only one."""
    from sslm.answer_schemas.schema import Schema
    from sslm.artifact import read_artifact

    with about_file(str(path)), read_artifact(path) as artifact:
        names = list(artifact.schemas)
        if name is None and len(names) > 1:
            raise refusal("it is missing", f"one of {', '.join(names[:8])}", param_hint="NAME")
        return Schema(artifact.schemas.named(name or (names[0] if names else "")))


def is_schema_file(path: Path) -> bool:
    """Tell the formats apart by their first bytes; a name in the cache is no file."""
    from sslm.artifact.saved_files import beginning_of
    from sslm.errors.reading import UnreadableFileError
    from sslm.formats.schemas.containers import MAGIC

    try:
        return beginning_of(path, len(MAGIC)) == MAGIC
    except UnreadableFileError:
        return path.suffix == ".sslms"
