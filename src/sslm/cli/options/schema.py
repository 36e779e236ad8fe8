"""How commands are told to compile a schema."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sslm import limits
from sslm.cli.options.signatures import Command, taking
from sslm.cli.options.values import number, word_option
from sslm.progress import StageProgress

if TYPE_CHECKING:
    from sslm.answer_schemas.schema import Schema
    from sslm.schema.documents.refusals import Unsupported
    from sslm.text.tokenizer import Tokenizer


_FreeLevelsOption = Annotated[
    int,
    typer.Option(
        "--free-levels",
        parser=number(0, limits.SCHEMA_FREE_LEVELS_MAX),
        metavar="N",
        help="Lists and objects in each other where the schema says nothing.",
    ),
]
_RecursionLevelsOption = Annotated[
    int,
    typer.Option(
        "--recursion-levels",
        parser=number(1, limits.SCHEMA_RECURSION_MAX),
        metavar="N",
        help="How often a recursive part may contain itself.",
    ),
]
_UnknownKeywordsOption = Annotated[
    str,
    word_option(
        "--unknown-keywords",
        "refuse",
        "ignore",
        about="What becomes of keywords that nobody knows.",
    ),
]
_FormatsOption = Annotated[
    str,
    word_option(
        "--formats",
        "assert",
        "exact",
        "annotate",
        about="Whether format is enforced, without a few valid texts or with them, or says "
        "nothing.",
    ),
]
_FreeKeysOption = Annotated[
    str,
    word_option(
        "--free-keys",
        "allow",
        "omit",
        about="Whether objects may have keys that the schema does not name.",
    ),
]
_SpacingOption = Annotated[
    str,
    word_option(
        "--spacing",
        "compact",
        "spaced",
        "flexible",
        about="White space in answers: none, a blank behind commas and colons, or as printers do.",
    ),
]
_OPTIONS: Final = {
    "free_levels": (_FreeLevelsOption, 2),
    "recursion_levels": (_RecursionLevelsOption, 4),
    "unknown_keywords": (_UnknownKeywordsOption, "refuse"),
    "formats": (_FormatsOption, "assert"),
    "free_keys": (_FreeKeysOption, "allow"),
    "spacing": (_SpacingOption, "compact"),
}
"""With the defaults of :class:`sslm.schema.documents.options.SchemaOptions`."""


@dataclass(frozen=True, slots=True)
class SchemaChoices:
    """The values of these options, by their names in Python."""

    values: dict[str, Any]

    def check(self, source: object, on_progress: StageProgress) -> "list[Unsupported]":
        """Return what cannot be enforced."""
        from sslm.answer_schemas.schema import Schema

        return Schema.check(source, on_progress=on_progress, **self.values)

    def state_count(self, source: object, on_progress: StageProgress) -> int:
        """Compile as far as no vocabulary is needed; return the states of the automaton."""
        from sslm.answer_schemas.sources import schema_document
        from sslm.schema.documents.options import SchemaOptions
        from sslm.schema.schema_compiler import compile_schema

        options = SchemaOptions(**self.values)
        compiled = compile_schema(schema_document(source), options, report=on_progress)
        return compiled.automaton.state_count

    def compile(self, source: object, tokenizer: "Tokenizer", **options: Any) -> "Schema":
        """Compile a schema."""
        from sslm.answer_schemas.schema import Schema

        return Schema.compile(source, tokenizer=tokenizer, **options, **self.values)


def with_schema_options(command: Command) -> Command:
    """Return a command that takes these options instead of its argument ``choices``."""

    def call(**given: Any) -> object:
        values = {name: given.pop(name) for name in _OPTIONS}
        return command(choices=SchemaChoices(values), **given)

    return taking(command, _OPTIONS, call, instead_of=("choices",))
