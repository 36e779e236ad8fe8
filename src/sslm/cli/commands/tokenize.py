"""``sslm tokenize``: text to token ids, or back."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from sslm import limits
from sslm.cli.options.model import (
    DEFAULT_MODEL,
    CacheDirOption,
    JsonOption,
    ModelOption,
    NoProgressOption,
    OfflineOption,
    open_model,
)
from sslm.cli.options.text_input import argument_text, read_stdin
from sslm.cli.options.values import refusal, whole_number
from sslm.cli.screen.output import print_json, print_text
from sslm.errors.showing import briefly, int_range

if TYPE_CHECKING:
    from sslm.text.tokenizer import Tokenizer

_STDIN = "-"


_EPILOG: Final = "Example: sslm tokenize 'Hello world'; or: sslm tokenize --decode 19556 905"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("tokenize", epilog=_EPILOG)(tokenize)


def tokenize(
    *,
    words: Annotated[
        list[str],
        typer.Argument(
            parser=argument_text,
            metavar="TEXT",
            help="The text, or '-' for stdin; with --decode, ids.",
        ),
    ],
    decode: Annotated[
        bool, typer.Option("--decode", help="Turn token ids, given as TEXT, into their text.")
    ] = False,
    ids_only: Annotated[
        bool, typer.Option("--ids", help="Print the ids alone, as --decode takes them.")
    ] = False,
    model: ModelOption = DEFAULT_MODEL,
    cache_dir: CacheDirOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Show the token ids of a text with their pieces, or with --decode the text of token ids.

    Control tokens in the text are literal, as they are in a prompt.
    """
    if decode and ids_only:
        raise typer.BadParameter("it prints ids, and --decode takes them", param_hint="--ids")
    if not decode and len(words) > 1:
        raise typer.BadParameter(f"{len(words)} were given; quote the text", param_hint="TEXT")
    given = words if words != [_STDIN] else [read_stdin()]
    token_ids = _token_ids(given) if decode else []
    # The tokenizer needs no kernels, so it also works where they do not.
    with open_model(
        model,
        backend="reference",
        text_bytes=None,
        threads="1",
        cache_dir=cache_dir,
        offline=offline,
        no_progress=no_progress,
    ) as opened:
        tokenizer = opened.tokenizer
    if decode:
        _print_text(tokenizer.decode(token_ids), token_ids, as_json=as_json)
    else:
        _print_ids(tokenizer, tokenizer.encode(given[0]), as_json=as_json, ids_only=ids_only)


def _token_ids(words: list[str]) -> list[int]:
    parts = [part for word in words for part in word.split()]
    for part in parts:
        if whole_number(part, 0, limits.VOCAB_SIZE_MAX - 1) is None:
            expected = f"token ids, each {int_range(0, limits.VOCAB_SIZE_MAX - 1)}"
            raise refusal(f"it has {briefly(part)}", expected, param_hint="TEXT")
    return [int(part) for part in parts]


def _print_text(text: str, token_ids: list[int], *, as_json: bool) -> None:
    if as_json:
        print_json({"text": text, "token_ids": token_ids})
    else:
        print_text(text + "\n")


def _print_ids(
    tokenizer: "Tokenizer", token_ids: list[int], *, as_json: bool, ids_only: bool
) -> None:
    pieces = [_piece(tokenizer, token_id) for token_id in token_ids]
    if as_json:
        print_json({"token_ids": token_ids, "pieces": pieces, "tokens": len(token_ids)})
    elif ids_only:
        print_text(" ".join(map(str, token_ids)) + "\n")
    else:
        lines = zip(token_ids, pieces, strict=True)
        print_text("".join(f"{token_id:>7}  {piece!r}\n" for token_id, piece in lines))


def _piece(tokenizer: "Tokenizer", token_id: int) -> str:
    """Return a token's text; bytes that are no whole character in hexadecimal."""
    data = tokenizer.token_bytes(token_id)
    return data.decode(errors="backslashreplace") if data else tokenizer.spelling(token_id)
