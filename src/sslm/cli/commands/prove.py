"""``sslm prove``: one prompt, many ways, one digest."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from sslm.cli.cores import use_blas_threads
from sslm.cli.exit_codes import DIFFERENT
from sslm.cli.options.model import (
    DEFAULT_MODEL,
    CacheDirOption,
    JsonOption,
    ModelOption,
    NoProgressOption,
    OfflineOption,
    open_model,
)
from sslm.cli.options.text_input import argument_text
from sslm.cli.options.values import integer
from sslm.cli.screen.output import print_json, print_table, print_text, progress

if TYPE_CHECKING:
    from sslm.evidence.prove import ProofReport, Way

_MAX_TOKENS: Final = 24
_SHOWN_DIGEST_CHARS: Final = 12
_EPILOG: Final = 'Example: sslm prove "The capital of France is"'


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "prove",
        help="Compute one prompt in many ways (CPU tiers, threads, slices, chunks, beside a "
        "neighbour, on the reference): one digest. Exit 1 if not.",
        epilog=_EPILOG,
    )(prove_command)


def prove_command(
    *,
    prompt: Annotated[
        str,
        typer.Argument(
            parser=argument_text,
            metavar="PROMPT",
            help="The text to continue.",
            show_default=False,
        ),
    ],
    model: ModelOption = DEFAULT_MODEL,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", parser=integer, metavar="N", help="Tokens of the answer.")
    ] = _MAX_TOKENS,
    json: JsonOption = False,
    cache_dir: CacheDirOption = None,
    offline: OfflineOption = False,
    no_progress: NoProgressOption = False,
) -> int:
    """Continue a prompt in many ways and compare them; return the exit code."""
    from sslm.evidence.prove import prove

    use_blas_threads()
    with open_model(
        model, threads="1", cache_dir=cache_dir, offline=offline, no_progress=no_progress
    ) as opened:
        with progress(is_shown=not no_progress) as report:
            proof = prove(
                opened.artifact,
                opened.tokenizer,
                opened.tokenizer.encode(prompt),
                max_tokens=max_tokens,
                on_progress=lambda done, total: report("prove", done, total),
            )
        if json:
            print_json(_facts(proof, opened.model_id))
        else:
            _show(prompt, proof)
    return 0 if proof.ok else DIFFERENT


def _show(prompt: str, proof: "ProofReport") -> None:
    print_text(f"{prompt}{proof.text}\n\n")
    fewest, most = min(way.tokens for way in proof.ways), len(proof.token_ids)
    counts = sorted({fewest, most})
    head = ["way", "runs on", "threads", "ms", *(f"{count} tokens" for count in counts)]
    rows = [
        [
            way.name,
            way.tier if way.backend == "native" else way.backend,
            str(way.threads),
            str(way.ms),
            *(_digest_after(way, count) for count in counts),
        ]
        for way in proof.ways
    ]
    print_table(head, rows, right=("threads", "ms"))
    if proof.ok:
        ways = len(proof.ways)
        print_text(f"\n{ways} ways agree wherever they went. One digest: {proof.digest}\n")
    for way in proof.ways:
        if way.first_difference is not None:
            print_text(f"\nDIFFERENT: {way.name}, from token {way.first_difference + 1} on\n")


def _digest_after(way: "Way", count: int) -> str:
    return way.digests[count - 1][:_SHOWN_DIGEST_CHARS] if count <= way.tokens else ""


def _facts(proof: "ProofReport", model_id: str) -> dict[str, object]:
    return {
        "ok": proof.ok,
        "text": proof.text,
        "token_ids": list(proof.token_ids),
        "digest": proof.digest,
        "model_id": model_id,
        "ways": [
            {
                "name": way.name,
                "backend": way.backend,
                "tier": way.tier,
                "threads": way.threads,
                "tokens": way.tokens,
                "digest": way.digest,
                "first_difference": way.first_difference,
                "ms": way.ms,
            }
            for way in proof.ways
        ],
    }
