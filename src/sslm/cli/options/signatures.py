"""Commands that take options which are written down once for several of them."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Command = Callable[..., object]


def taking(
    command: Command,
    options: Mapping[str, tuple[object, object]],
    call: Callable[..., object],
    *,
    instead_of: Sequence[str] = (),
) -> Command:
    """Return a command that takes further options.

    Args:
        command: A function of keywords alone.
        options: By name, the annotation and the default of each.
        call: Called in place of the command, with all options.
        instead_of: Arguments of the command that *call* makes, and that are no options.
    """

    @functools.wraps(command)
    def taker(**given: Any) -> object:
        return call(**given)

    signature = inspect.signature(command)
    own = [one for name, one in signature.parameters.items() if name not in instead_of]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]
    taker.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    kinds = {name: kind for name, (kind, _) in options.items()}
    kept = {name: kind for name, kind in command.__annotations__.items() if name not in instead_of}
    taker.__annotations__ = kept | kinds
    return taker
