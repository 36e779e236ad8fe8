"""The options by which a command is told how tokens are chosen."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sslm.cli.options.signatures import Command, taking
from sslm.cli.options.values import integer, refusal, whole_number
from sslm.errors.showing import briefly


def _decimal(name: str, help_text: str, metavar: str = "F") -> object:
    """Return an option that is a decimal, which stays the text that was typed."""
    return Annotated[str | None, typer.Option(name, metavar=metavar, help=help_text)]


def _whole(name: str, help_text: str) -> object:
    return Annotated[int | None, typer.Option(name, parser=integer, metavar="N", help=help_text)]


def _bias(text: str) -> str:
    """Return the text of a bias, which is ``ID=VALUE``."""
    token_id, equals, _ = text.partition("=")
    if not equals or whole_number(token_id, 0) is None:
        raise refusal(f"it is {briefly(text)}", "ID=VALUE, such as 42=-1.5")
    return text


CHOOSING: Final[Mapping[str, object]] = {
    "temperature": _decimal("--temperature", "0 is greedy, the default; 0.01 to 100 samples."),
    "top_k": _whole("--top-k", "Sample among the so many most likely tokens; 0 for all."),
    "top_p": _decimal("--top-p", "Sample among the most likely that have this probability."),
    "min_p": _decimal("--min-p", "Sample among those with this part of the highest one."),
    "seed": _whole("--seed", "Of the draws; the same seed gives the same answer.  [default: 0]"),
    "repetition_penalty": _decimal(
        "--repetition-penalty", "Above 1, what prompt or answer have becomes less likely."
    ),
    "presence_penalty": _decimal(
        "--presence-penalty", "Subtracted from the logits of what the answer has, -2 to 2."
    ),
    "frequency_penalty": _decimal(
        "--frequency-penalty", "Subtracted each time that the answer has it, -2 to 2."
    ),
    "logit_bias": Annotated[
        list[str] | None,
        typer.Option(
            "--logit-bias",
            parser=_bias,
            metavar="ID=VALUE",
            help="Added to the logit of a token, -100 to 100; repeatable.",
        ),
    ],
    "damping": _decimal(
        "--damping", "Damped greedy: keep the answer from repeating itself, 0 to 31.9.", "ALPHA"
    ),
    "damping_order": _whole("--damping-order", "Its longest n-gram.  [default: 2]"),
    "damping_top_k": _whole("--damping-top-k", "Among how many it chooses.  [default: 6]"),
    "schema": Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="FILE|NAME",
            help="Answer with JSON that satisfies a JSON Schema: a .json or .sslms file, or the "
            "name of one in the model's file.",
        ),
    ],
    "finish": Annotated[
        str | None,
        typer.Option(
            "--finish",
            metavar="fit|cut",
            help="Whether such an answer is completed within --max-tokens, or cut off.  "
            "[default: fit]",
        ),
    ],
    "end_of_text": Annotated[
        str | None,
        typer.Option(
            "--end-of-text",
            metavar="allowed|never",
            help="Whether such an answer may end wherever the schema lets it, or goes on while it "
            "can.  [default: allowed]",
        ),
    ],
    "logprobs": _whole(
        "--logprobs", "Tell the log-probability of each token, and of the N most likely ones."
    ),
}
"""Options of commands that answer, by the names that calls have for them."""

AnswersOption = Annotated[
    int | None,
    typer.Option(
        "--n",
        parser=integer,
        metavar="N",
        help="Give several answers, which share the computation of the prompt.  [default: 1]",
    ),
]


def takes_choosing(command: Command) -> Command:
    """Return a command that has these options, and gets those that were given as *choosing*."""

    def choose(**given: Any) -> object:
        asked = {name: given.pop(name) for name in CHOOSING}
        options = {name: value for name, value in asked.items() if value is not None}
        if "logit_bias" in options:
            options["logit_bias"] = _biases(options["logit_bias"])
        if "schema" in options:
            options["schema"] = schema_source(options["schema"])
        return command(**given, choosing=options)

    options = {name: (kind, None) for name, kind in CHOOSING.items()}
    return taking(command, options, choose, instead_of=["choosing"])


def schema_source(text: str) -> str | Path:
    """Return a name as it is, and the name of a file as a path."""
    path = Path(text)
    has_separator = any(one in text for one in (os.sep, os.altsep) if one)
    return path if has_separator or path.suffix.lower() in (".json", ".sslms") else text


def _biases(texts: Sequence[str]) -> dict[int, str]:
    biases: dict[int, str] = {}
    for text in texts:
        token_id, _, value = text.partition("=")
        if int(token_id) in biases:
            found = f"it has the id {int(token_id)} twice"
            raise refusal(found, "each once", param_hint="--logit-bias")
        biases[int(token_id)] = value
    return biases
