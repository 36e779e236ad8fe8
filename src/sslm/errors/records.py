"""What can be wrong with a record of a request, and with replaying one."""

from sslm.errors.base import ArtifactError, SchemaError
from sslm.errors.status import Status

# How tokens were chosen, which saves hold too.


class SavedDecoderError(ArtifactError):
    """The tokens were chosen by a decoder that does not exist here."""

    status = Status.SAVED_DECODER
    message = "the decoder is number {found}, only 0 to {largest} are known here"
    found: int
    largest: int


class SavedBiasOrderError(ArtifactError):
    """The ids of biases do not ascend, or one has two."""

    status = Status.SAVED_BIAS_ORDER
    message = "bias {index} is of token id {found}, expected one above {before}"
    index: int
    found: int
    before: int


# The bytes.


class NotARecordError(ArtifactError):
    """The bytes do not begin as a record does."""

    status = Status.RECORD_MAGIC
    message = "this is no record of a request: it begins with {found}, not with b'SSLMRCRD'"
    found: bytes


class RecordVersionError(ArtifactError):
    """The record has another version of the format."""

    status = Status.RECORD_VERSION
    message = (
        "the version of the record is {found}, only {expected} is read here; replay it with the "
        "release that wrote it"
    )
    found: int
    expected: int


class RecordFeatureError(ArtifactError):
    """The record holds something that this release does not know."""

    status = Status.RECORD_FEATURE
    message = "the record has {names}, which is not read here; replay it with a newer release"
    names: str


class RecordSizeError(ArtifactError):
    """The record states another size than it has: it was cut, or something was appended."""

    status = Status.RECORD_SIZE
    message = "the record says that it has {stated_bytes} bytes, it has {found_bytes}"
    stated_bytes: int
    found_bytes: int


class RecordIntegrityError(ArtifactError):
    """The hash in the record is not that of its content."""

    status = Status.RECORD_INTEGRITY
    message = "the record is damaged: its content has the hash {found}, it states {stated}"
    found: str
    stated: str


class RecordValueError(ArtifactError):
    """A record holds what no request can have been or come to."""

    status = Status.RECORD_VALUE
    message = "{what} of the record cannot be: {reason}"
    what: str
    reason: str


# Whose record it is.


class RecordModelError(ArtifactError):
    """The record was made with another model than the one to replay it with."""

    status = Status.RECORD_MODEL
    message = "the record was made with the model {found}, not with {expected}; give that model"
    found: str
    expected: str


class RecordModelMissingError(ArtifactError):
    """No model was named, and none in the cache is the one that the record was made with."""

    status = Status.RECORD_MODEL_MISSING
    message = (
        "the record was made with the model {found}, which is not among the {count} models of the "
        "cache; name its .sslm file, as with `sslm replay RECORD -m FILE`"
    )
    found: str
    count: int


class RecordArithmeticError(ArtifactError):
    """The record was made with another version of the arithmetic."""

    status = Status.RECORD_ARITHMETIC
    message = (
        "the record was made with version {found} of the arithmetic, this is {expected}; replay it "
        "with a release of that version"
    )
    found: int
    expected: int


class RecordTokenError(ArtifactError):
    """A recorded token id is not one of the model's."""

    status = Status.RECORD_TOKEN
    message = "{part} of the record has token id {found} at index {index}, expected 0 to {largest}"
    part: str
    index: int
    found: int
    largest: int


class RecordSegmentsError(ArtifactError):
    """The record has digests of another number of segments than the model's."""

    status = Status.RECORD_SEGMENTS
    message = "the record has digests of {found} segments a token, the model has {expected}"
    found: int
    expected: int


class RecordSchemaError(SchemaError):
    """The recorded answer follows another schema than the one to replay it with."""

    status = Status.RECORD_SCHEMA
    message = (
        "the recorded answer follows the schema {name!r} with the digest {expected}, the one at "
        "hand has {found}; give the one that it was compiled to then"
    )
    name: str
    expected: str
    found: str


class RecordSchemaMissingError(SchemaError):
    """No schema was given, and the model's file has none of the name that the record has."""

    status = Status.RECORD_SCHEMA_MISSING
    message = (
        "the recorded answer follows the schema {name!r} with the digest {expected}, which the "
        "model's file does not have; give it, as with `sslm replay RECORD --schema FILE`"
    )
    name: str
    expected: str
