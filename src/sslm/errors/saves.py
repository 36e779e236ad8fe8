"""What can be wrong with a saved sequence, and with restoring one."""

from sslm.errors.base import ArtifactError
from sslm.errors.status import Status

# The bytes.


class NotASaveError(ArtifactError):
    """The bytes do not begin as a saved sequence does."""

    status = Status.SAVE_MAGIC
    message = "this is no saved sequence: it begins with {found}, not with b'SSLMSAVE'"
    found: bytes


class SaveVersionError(ArtifactError):
    """The save has another version of the format."""

    status = Status.SAVE_VERSION
    message = (
        "the version of the save is {found}, only {expected} is read here; restore it with the "
        "release that wrote it, save with kv=False and restore that"
    )
    found: int
    expected: int


class SaveFeatureError(ArtifactError):
    """The save holds something that this release does not know."""

    status = Status.SAVE_FEATURE
    message = "the save has {names}, which is not read here; restore it with a newer release"
    names: str


class SaveSizeError(ArtifactError):
    """The save states another size than it has: it was cut, or something was appended."""

    status = Status.SAVE_SIZE
    message = "the save says that it has {stated_bytes} bytes, it has {found_bytes}"
    stated_bytes: int
    found_bytes: int


class SaveIntegrityError(ArtifactError):
    """The hash in the save is not that of its content."""

    status = Status.SAVE_INTEGRITY
    message = "the save is damaged: its content has the hash {found}, it states {stated}"
    found: str
    stated: str


class SaveStateKindError(ArtifactError):
    """A state of the save is of a kind that does not exist."""

    status = Status.SAVE_STATE_KIND
    message = "state {index} of the save is of kind {found}, which is not known"
    index: int
    found: int


# Whose save it is.


class SaveModelError(ArtifactError):
    """The save was made with another model."""

    status = Status.SAVE_MODEL
    message = "the save was made with the model {found}, not with {expected}; load that model"
    found: str
    expected: str


class SaveArithmeticError(ArtifactError):
    """The save was made with another version of the arithmetic."""

    status = Status.SAVE_ARITHMETIC
    message = "the save was made with version {found} of the arithmetic, this is {expected}"
    found: int
    expected: int


class SaveAdapterError(ArtifactError):
    """The save was made with another adapter."""

    status = Status.SAVE_ADAPTER
    message = "the save was made with the adapter {found}, the sequence has {expected}"
    found: str
    expected: str


class SaveStatesError(ArtifactError):
    """The save's sequence remembers something else than the model's do."""

    status = Status.SAVE_STATES
    message = "state {index} of the save is {found}, expected {expected}"
    index: int
    found: str
    expected: str


class SaveRowsError(ArtifactError):
    """The chunk in progress has more rows than chunks of the sequence may have."""

    status = Status.SAVE_ROWS
    message = (
        "the chunk in progress has {found} rows and the sequence's have at most {at_most}; make it "
        "with chunk_tokens={found}"
    )
    found: int
    at_most: int


class SaveLogitsError(ArtifactError):
    """The chunk in progress scores more rows than the sequence has memory for."""

    status = Status.SAVE_LOGITS
    message = (
        "the chunk in progress scores {found} rows and the sequence keeps the scores of one; make "
        "it with has_all_logits"
    )
    found: int


class SaveScoresError(ArtifactError):
    """The saved sequence chooses by scores, for which the restored one has no memory."""

    status = Status.SAVE_SCORES
    message = "the saved sequence chooses by scores; make the one that restores it with chooses"


# What cannot be: these states are ones that no sequence was ever in.


class SavePartSizeError(ArtifactError):
    """A part of the save is not as large as the tokens it is for."""

    status = Status.SAVE_PART_SIZE
    message = "{part!r} has {found_bytes} bytes, expected {expected_bytes}"
    part: str
    found_bytes: int
    expected_bytes: int


class SaveTokenError(ArtifactError):
    """A saved token id is not one of the model's."""

    status = Status.SAVE_TOKEN
    message = "token id {found} at index {index} of {part!r}, expected 0 to {largest}"
    part: str
    index: int
    found: int
    largest: int


class SaveSelectionError(ArtifactError):
    """The save has a chosen token where there can be none."""

    status = Status.SAVE_SELECTION
    message = "the save chose token {found}, expected {expected}"
    found: int
    expected: str


class SaveChoiceError(ArtifactError):
    """The save says that tokens are chosen as they cannot be."""

    status = Status.SAVE_CHOICE
    message = "{option} of the save's choice is {found}, expected {expected}"
    option: str
    found: str
    expected: str


class SaveSchemaError(ArtifactError):
    """The save's answer follows a schema that is not the one at hand."""

    status = Status.SAVE_SCHEMA
    message = (
        "the save follows the schema with the digest {found}, and the one at hand is {expected}; "
        "restore it with the schema that it was saved with"
    )
    found: str
    expected: str


class SaveSchemaStateError(ArtifactError):
    """The save's answer stands in its schema where no answer can stand."""

    status = Status.SAVE_SCHEMA_STATE
    message = "{what} of the save's schema is {found}, expected {expected}"
    what: str
    found: int
    expected: str


class SaveChunkError(ArtifactError):
    """The chunk in progress stands where no chunk can stand."""

    status = Status.SAVE_CHUNK
    message = "the next segment of the chunk in progress is {found}, expected 1 to {highest}"
    found: int
    highest: int


class SaveCounterError(ArtifactError):
    """A counter is beyond what the saved tokens can have counted."""

    status = Status.SAVE_COUNTER
    message = "{what} is {found}, at most {at_most} is possible"
    what: str
    found: int
    at_most: int


class SaveLinkError(ArtifactError):
    """The save has no computed position, and yet another beginning of the chain of digests."""

    status = Status.SAVE_LINK
    message = "without positions the digest is {found}, expected {expected}"
    found: str
    expected: str


class SaveCodeError(ArtifactError):
    """A saved key or value is beyond the bound that no sum may overflow for."""

    status = Status.SAVE_CODE
    message = "a code of state {state!r} is {found}, expected -{largest} to {largest}"
    state: str
    found: int
    largest: int


class SaveExponentError(ArtifactError):
    """A saved exponent is beyond the bound that no sum may overflow for."""

    status = Status.SAVE_EXPONENT
    message = "an exponent of state {state!r} is {found}, expected 0 to {largest}"
    state: str
    found: int
    largest: int


class SaveValueError(ArtifactError):
    """A saved 32-bit value is the one that occurs nowhere, -2**31."""

    status = Status.SAVE_VALUE
    message = "{part!r} holds -2147483648 at index {index}; values are above it"
    part: str
    index: int


class SaveAbsentRowError(ArtifactError):
    """A position that does not exist has values, which must be zero."""

    status = Status.SAVE_ABSENT_ROW
    message = "the values beside the last position are not zero, which does not exist"


# Conversations.


class NotASavedSessionError(ArtifactError):
    """The bytes do not begin as a saved conversation does."""

    status = Status.SAVE_SESSION_MAGIC
    message = "this is no saved conversation: it begins with {found}, not with b'SSLMCHAT'"
    found: bytes


class SavedSessionValueError(ArtifactError):
    """A saved conversation holds what nobody can have said."""

    status = Status.SAVE_SESSION_VALUE
    message = "{what} of the saved conversation cannot be: {reason}"
    what: str
    reason: str
