"""The schema that a recorded answer follows."""

from typing import TYPE_CHECKING

from sslm.artifact import Artifact
from sslm.errors.records import RecordSchemaError, RecordSchemaMissingError, RecordValueError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import briefly
from sslm.formats.records.writer import RecordedSchema, SavedRecord
from sslm.progress import StageProgress, untold_stage
from sslm.schema.tokens.bound_schema import BoundSchema
from sslm.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from sslm.answer_schemas.binder import AnswerSchema, SchemaBinder


def schema_of_record(
    record: SavedRecord, artifact: Artifact, tokenizer: Tokenizer, source: object
) -> BoundSchema | None:
    """Return what a recorded answer follows, or None if it follows nothing.

    Args:
        record: Read.
        artifact: Its model.
        tokenizer: Of the model.
        source: The schema, as calls take it; None looks in the model's file by its name.

    Raises:
        OptionRangeError: If there is one, and the recorded answer follows none.
        SslmError: As :func:`answer_schema_of`.
        RecordValueError: If no answer has so few tokens as the recorded one may have.
    """
    wanted = record.schema
    if wanted is None:
        if source is not None:
            expected = "None, as the recorded answer follows no schema"
            raise OptionRangeError("schema", briefly(source), expected)
        return None
    # Only now, as what compiles schemas takes a while to import.
    from sslm.answer_schemas.binder import SchemaBinder

    end_ids = tokenizer.end_token_ids
    binder = SchemaBinder(artifact.schemas, tokenizer, end_ids=end_ids, is_pinned=False)
    bound = answer_schema_of(wanted, binder, source).bound
    most = most_tokens(record)
    if wanted.is_fitted and most < bound.shortest:
        what = f"an answer of at most {most} tokens"
        raise RecordValueError(what, f"the schema's shortest has {bound.shortest}")
    return bound


def answer_schema_of(
    wanted: RecordedSchema,
    binder: "SchemaBinder",
    source: object,
    report: "StageProgress" = untold_stage,
) -> "AnswerSchema":
    """Return what a recorded answer follows.

    Args:
        wanted: Of the record.
        binder: Of the model.
        source: As for :func:`schema_of_record`.
        report: Told how far making it is; what it raises ends that.

    Raises:
        RecordSchemaMissingError: If there is none, and the model's file has none of the name.
        RecordSchemaError: If it is another one.
        SslmError: As finding, compiling and checking a schema.
    """
    if source is None:
        if not binder.is_stored(wanted.name):
            raise RecordSchemaMissingError(wanted.name, wanted.digest.hex())
        source = wanted.name
    finish = "fit" if wanted.is_fitted else "cut"
    end_of_text = "allowed" if wanted.allows_ends else "never"
    found = binder.answer_schema(source, finish, end_of_text, report)
    if found.bound.schema_digest != wanted.digest:
        digests = wanted.digest.hex(), found.bound.schema_digest.hex()
        raise RecordSchemaError(wanted.name, *digests)
    return found


def most_tokens(record: SavedRecord) -> int:
    """Return how many tokens a recorded answer could have."""
    return min(record.max_tokens, record.context_tokens - len(record.prompt_ids))


def answer_tokens(record: SavedRecord) -> int | None:
    """Return within how many tokens a recorded answer is completed; None is any number."""
    is_fitted = record.schema is not None and record.schema.is_fitted
    return most_tokens(record) if is_fitted else None
