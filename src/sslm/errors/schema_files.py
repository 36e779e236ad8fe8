"""What can be wrong with a compiled schema that comes from a file."""

from sslm.errors.base import ArtifactError, SchemaError
from sslm.errors.status import Status

# The bytes.


class NotASchemaFileError(ArtifactError):
    """The bytes do not begin as a compiled schema does."""

    status = Status.SCHEMA_FILE_MAGIC
    message = (
        "this is no compiled schema: it begins with {found}, not with b'SSLMSCHM'; compile a JSON "
        "Schema with `sslm schema compile`"
    )
    found: bytes


class SchemaFileVersionError(ArtifactError):
    """The compiled schema has another version of the format."""

    status = Status.SCHEMA_FILE_VERSION
    message = (
        "the version of the compiled schema is {found}, only {expected} is read here; compile its "
        "JSON Schema again"
    )
    found: int
    expected: int


class SchemaFileSizeError(ArtifactError):
    """The file states another size than it has: it was cut, or something was appended."""

    status = Status.SCHEMA_FILE_SIZE
    message = "the compiled schema says that it has {stated} bytes, and has {found}"
    stated: int
    found: int


class SchemaFileIntegrityError(ArtifactError):
    """The content hash is not that of the bytes."""

    status = Status.SCHEMA_FILE_INTEGRITY
    message = (
        "the compiled schema is damaged: its hash is {found}, and says {expected}; compile it again"
    )
    found: str
    expected: str


class SchemaNumbersError(ArtifactError):
    """The numbers of an automaton, of its tables or of its masks are not those that can be."""

    status = Status.SCHEMA_FILE_NUMBERS
    message = "the {part} of the compiled schema is wrong at {index}: {problem}"
    part: str
    index: int
    problem: str


class SchemaAutomatonError(ArtifactError):
    """The automaton of a compiled schema is not one that compiling makes."""

    status = Status.SCHEMA_FILE_AUTOMATON
    message = "state {state} of the compiled schema {problem}"
    state: int
    problem: str


class SchemaTableFormError(ArtifactError):
    """The tables of a compiled schema do not belong to its automaton."""

    status = Status.SCHEMA_FILE_TABLES
    message = "the tables of the compiled schema are wrong for state {state}: {problem}"
    state: int
    problem: str


class SchemaMaskError(ArtifactError):
    """A mask of a compiled schema is not spelled as it has to be, or is not used."""

    status = Status.SCHEMA_FILE_MASK
    message = "mask {index} of the compiled schema {problem}"
    index: int
    problem: str


class StoredSchemaNameError(ArtifactError):
    """Schemas of a file are not named as they have to be, or not in the order of their names."""

    status = Status.SCHEMA_FILE_NAME
    message = "the schemas of the file are named wrongly: {name!r} {problem}"
    name: str
    problem: str


class SchemaDocumentError(ArtifactError):
    """The document or the options of a compiled schema are not what compiling writes."""

    status = Status.SCHEMA_FILE_DOCUMENT
    message = "the {part} of the compiled schema {problem}"
    part: str
    problem: str


# Whether it is what it says, and for whom.


class SchemaVocabularyError(ArtifactError):
    """A compiled schema is for another vocabulary: its token ids would mean other texts."""

    status = Status.SCHEMA_FILE_VOCABULARY
    message = (
        "the schema {name!r} was compiled for the vocabulary {found}, and this one is {expected}; "
        "compile its JSON Schema for this model"
    )
    name: str
    found: str
    expected: str


class SchemaTablesError(ArtifactError):
    """A compiled schema is not what its document and the vocabulary give."""

    status = Status.SCHEMA_FILE_CROSS_CHECK
    message = (
        "the schema {name!r} is not what its JSON Schema gives for this vocabulary: {what} of "
        "state {state} is another one; do not use it, and compile its JSON Schema again"
    )
    name: str
    what: str
    state: int


class SchemaNameError(SchemaError):
    """A name for a schema is not one that files have."""

    status = Status.SCHEMA_NAME
    message = (
        "{name!r} cannot name a schema; take 1 to {longest} of the letters a-z and A-Z, digits, "
        "'.', '_' and '-'"
    )
    name: str
    longest: int


class SchemaNameTakenError(SchemaError):
    """Two schemas of one file would have one name."""

    status = Status.SCHEMA_NAME_TAKEN
    message = "a schema named {name!r} is there already; give the other one another name"
    name: str


class UnknownSchemaError(SchemaError):
    """A model file holds no schema of a name."""

    status = Status.SCHEMA_UNKNOWN
    message = (
        "the model has no schema named {name!r}; it has {names}. `sslm schema add` puts schemas "
        "into a model file; a text is taken for a name: in Python, a file is a pathlib.Path and a "
        "JSON Schema a dict, and on the command line the name of a file ends in .json or .sslms, "
        "or has a separator"
    )
    name: str
    names: str


class SchemaSourceError(SchemaError):
    """What was given as a schema is none, or describes what has no JSON Schema here."""

    status = Status.SCHEMA_SOURCE
    message = "{what} cannot be taken as a schema: {hint}"
    what: str
    hint: str


class SchemaCapacityError(SchemaError):
    """A schema is larger than compiled schemas in files are."""

    status = Status.SCHEMA_CAPACITY
    message = "the compiled schema has {found} {what}, at most {most} can be kept in a file"
    what: str
    found: int
    most: int
