"""Which exit code each family of errors gives."""

import re
from typing import Final

from sslm.errors.base import (
    ArgumentError,
    ArtifactError,
    NetworkError,
    NumericError,
    ResourceError,
    SchemaError,
    SslmError,
    StateError,
)
from sslm.errors.batches import BatchBusyError
from sslm.errors.choosing import ChoiceConflictError
from sslm.errors.commands import BenchContextError
from sslm.errors.model import EvaluationWindowError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import presentable
from sslm.errors.text import TextUnicodeError

DIFFERENT: Final = 1
"""Verified, and not the same."""
USAGE: Final = 2
BAD_INPUT_FILE: Final = 3
REQUEST_REFUSED: Final = 4
OUT_OF_BUDGET: Final = 5
NETWORK: Final = 6
INTERNAL: Final = 7
SIGNALLED: Final = 128
"""Added to the number of the signal that ended the command, as shells do."""
INTERRUPTED: Final = 130
"""By Ctrl-C: signal 2 on every system."""

FAMILIES: Final[dict[type[SslmError], int]] = {
    ArgumentError: REQUEST_REFUSED,
    ArtifactError: BAD_INPUT_FILE,
    NumericError: BAD_INPUT_FILE,
    ResourceError: OUT_OF_BUDGET,
    SchemaError: REQUEST_REFUSED,
    NetworkError: NETWORK,
    StateError: INTERNAL,
}
"""Exit code of every family; the exact ``Status`` is in the JSON output."""


_OPTIONS: Final = frozenset(
    {
        *("context", "context_tokens", "deadline_s", "max_tokens", "memory_bytes", "sha256"),
        "text_bytes",
        *("stop", "threads", "weights", "state_bytes", "checkpoint_bytes", "temperature", "top_k"),
        *("top_p", "min_p", "seed", "repetition_penalty", "presence_penalty", "frequency_penalty"),
        *("logit_bias", "damping", "damping_order", "damping_top_k", "logprobs", "n"),
    }
)
"""Options of functions that are options of commands too, with dashes in their names."""

_OPTION_IN_TEXT: Final = re.compile(
    "(?<![{\\w])(?:" + "|".join(name for name in sorted(_OPTIONS) if "_" in name) + ")(?!\\w)"
)
"""Such a name in a message, but not a fact's; names of one word can be any word."""

_NO_UTF8: Final = range(0xDC80, 0xDD00)
"""What stands for the bytes of an argument that are no UTF-8."""

_BENCH_OPTIONS: Final = {"prompts": "--n-prompt", "generations": "--n-gen", "depths": "--n-depth"}


def option_name(error: SslmError) -> str | None:
    """Return the option of a command whose value is what is wrong, as it is typed, or None."""
    if isinstance(error, (OptionRangeError, ChoiceConflictError)) and error.option in _OPTIONS:
        return _as_typed(error.option)
    if isinstance(error, BenchContextError):
        return _BENCH_OPTIONS.get(error.option)
    return None


def message_as_typed(error: SslmError) -> str:
    """Return an error's message with options named as they are typed, ``--memory-bytes``."""
    if type(error).__str__ is not SslmError.__str__:
        return str(error)
    facts = {name: presentable(fact) for name, fact in error.facts().items()}
    if isinstance(error, TextUnicodeError) and error.code_point in _NO_UTF8:
        byte = error.code_point & 0xFF
        return (
            f"{error.what} is not valid UTF-8: the byte 0x{byte:02x} at character {error.position}"
        )
    if option := option_name(error):
        facts["option"] = option
    return _OPTION_IN_TEXT.sub(lambda found: _as_typed(found[0]), error.template()).format(**facts)


def _as_typed(option: str) -> str:
    return "--" + option.replace("_", "-")


def exit_code(error: SslmError) -> int:
    """Return the exit code of an error's family."""
    if option_name(error) or isinstance(error, (BenchContextError, EvaluationWindowError)):
        return USAGE
    if isinstance(error, BatchBusyError):
        # Of another process, which will not have it for ever: the same command may do later.
        return OUT_OF_BUDGET
    return next((code for family, code in FAMILIES.items() if isinstance(error, family)), INTERNAL)
