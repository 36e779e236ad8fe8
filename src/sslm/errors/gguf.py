"""What can be wrong with a GGUF file."""

from sslm.errors.base import ArtifactError
from sslm.errors.status import Status


class GgufMagicError(ArtifactError):
    """The file does not start as a GGUF file does."""

    status = Status.GGUF_MAGIC
    message = "not a GGUF file: it starts with {found!r}, expected b'GGUF'"
    found: bytes


class GgufVersionError(ArtifactError):
    """The file has a version of the format that is not read here."""

    status = Status.GGUF_VERSION
    message = "GGUF version {found} is not supported, only 2 and 3 are; convert the file again"
    found: int


class GgufBigEndianError(ArtifactError):
    """The file was written for a big-endian machine."""

    status = Status.GGUF_BIG_ENDIAN
    message = "this GGUF file is big-endian (version {version}); only little-endian files are read"
    version: int


class GgufKeyError(ArtifactError):
    """A metadata key is empty or not printable ASCII."""

    status = Status.GGUF_KEY
    message = "metadata key {key!r} before byte {offset_bytes} is not a run of printable ASCII"
    key: str
    offset_bytes: int


class GgufDuplicateKeyError(ArtifactError):
    """A metadata key occurs twice."""

    status = Status.GGUF_DUPLICATE_KEY
    message = "metadata key {key!r} occurs again before byte {offset_bytes}"
    key: str
    offset_bytes: int


class GgufUnknownValueTypeError(ArtifactError):
    """A metadata value is of a type that the format does not define."""

    status = Status.GGUF_UNKNOWN_VALUE_TYPE
    message = (
        "metadata key {key!r} has a value of type {type_id} at byte {offset_bytes}; 0 to 12 exist"
    )
    key: str
    type_id: int
    offset_bytes: int


class GgufNestedArrayError(ArtifactError):
    """A metadata array contains arrays."""

    status = Status.GGUF_NESTED_ARRAY
    message = (
        "metadata key {key!r} is an array of arrays (byte {offset_bytes}), which is not supported"
    )
    key: str
    offset_bytes: int


class GgufBoolError(ArtifactError):
    """A metadata truth value is neither 0 nor 1."""

    status = Status.GGUF_BOOL
    message = (
        "metadata key {key!r} has the truth value {found} at byte {offset_bytes}; 0 or 1 expected"
    )
    key: str
    found: int
    offset_bytes: int


class GgufAlignmentError(ArtifactError):
    """The declared alignment of the tensor data is not usable."""

    status = Status.GGUF_ALIGNMENT
    message = (
        "general.alignment is {found}; a power of two from {at_least} to {at_most} is expected"
    )
    found: int
    at_least: int
    at_most: int


class GgufTensorNameError(ArtifactError):
    """A tensor name is empty or holds control characters."""

    status = Status.GGUF_TENSOR_NAME
    message = "tensor name {name!r} before byte {offset_bytes} is empty or not printable"
    name: str
    offset_bytes: int


class GgufDuplicateTensorError(ArtifactError):
    """Two tensors have the same name."""

    status = Status.GGUF_DUPLICATE_TENSOR
    message = "tensor {name!r} is listed again before byte {offset_bytes}"
    name: str
    offset_bytes: int


class GgufDimensionCountError(ArtifactError):
    """A tensor has no dimension, or too many."""

    status = Status.GGUF_DIMENSION_COUNT
    message = "tensor {name!r} has {found} dimensions, 1 to {at_most} are accepted"
    name: str
    found: int
    at_most: int


class GgufEmptyDimensionError(ArtifactError):
    """A tensor has a dimension of size zero."""

    status = Status.GGUF_EMPTY_DIMENSION
    message = "tensor {name!r} has the shape {shape} (outermost first): a dimension is zero"
    name: str
    shape: tuple[int, ...]


class GgufTensorTooLargeError(ArtifactError):
    """A tensor has more elements than any file could hold."""

    status = Status.GGUF_TENSOR_TOO_LARGE
    message = "tensor {name!r} of shape {shape} has more than {at_most} elements"
    name: str
    shape: tuple[int, ...]
    at_most: int


class GgufUnknownTensorTypeError(ArtifactError):
    """A tensor is of a type whose layout is not known here."""

    status = Status.GGUF_UNKNOWN_TENSOR_TYPE
    message = "tensor {name!r} has the unknown type {type_id}; convert the model to a common type"
    name: str
    type_id: int


class GgufRemovedTensorTypeError(ArtifactError):
    """A tensor is of a type that was taken out of the format."""

    status = Status.GGUF_REMOVED_TENSOR_TYPE
    message = (
        "tensor {name!r} has type {type_id} ({type_name}), which was removed from GGUF; "
        "convert the model again"
    )
    name: str
    type_id: int
    type_name: str


class GgufUnsupportedTensorTypeError(ArtifactError):
    """A tensor is of a known type that cannot be turned into float32 here."""

    status = Status.GGUF_UNSUPPORTED_TENSOR_TYPE
    message = (
        "tensor {name!r} has type {type_id} ({type_name}), which is not supported as weights; "
        "use another quantization of the model"
    )
    name: str
    type_id: int
    type_name: str


class GgufPartialBlockError(ArtifactError):
    """A row of a tensor does not fill whole blocks of its type."""

    status = Status.GGUF_PARTIAL_BLOCK
    message = (
        "tensor {name!r} has rows of {row_elements} elements, "
        "but type {type_name} stores blocks of {block_elements}"
    )
    name: str
    row_elements: int
    type_name: str
    block_elements: int


class GgufTensorPastEndError(ArtifactError):
    """A tensor reaches past the end of the file."""

    status = Status.GGUF_TENSOR_PAST_END
    message = (
        "tensor {name!r} takes {size_bytes} bytes from byte {offset_bytes} on, "
        "but the file has {file_size_bytes}; it was cut off: get it again"
    )
    name: str
    offset_bytes: int
    size_bytes: int
    file_size_bytes: int


class GgufTensorOffsetError(ArtifactError):
    """A tensor does not start where the one listed before it ends, padding included."""

    status = Status.GGUF_TENSOR_OFFSET
    message = (
        "tensor {name!r} starts at byte {offset_bytes} of the file, but {before} is at byte "
        "{expected_bytes}: a type, shape or offset in the header is wrong; get the file again, or "
        "convert the model again"
    )
    name: str
    offset_bytes: int
    expected_bytes: int
    before: str


class GgufDataEndError(ArtifactError):
    """Bytes follow the last tensor that are not its padding."""

    status = Status.GGUF_DATA_END
    message = (
        "the last tensor, {name!r} ({type_name}), ends at byte {expected_bytes} of the file, "
        "padding included, but the file has {file_size_bytes}: a type or shape in the header is "
        "wrong, or something was appended; get the file again, or convert the model again"
    )
    name: str
    type_name: str
    expected_bytes: int
    file_size_bytes: int


class GgufMissingKeyError(ArtifactError):
    """A metadata key that is needed is not there."""

    status = Status.GGUF_MISSING_KEY
    message = "metadata key {key!r} is missing; {expected} is expected"
    key: str
    expected: str


class GgufWrongValueTypeError(ArtifactError):
    """A metadata value is of another type than the key needs."""

    status = Status.GGUF_WRONG_VALUE_TYPE
    message = "metadata key {key!r} holds {found}, {expected} is expected"
    key: str
    found: str
    expected: str


class GgufValueOutOfRangeError(ArtifactError):
    """A metadata value, its length or an item of it is outside the limits for the key."""

    status = Status.GGUF_VALUE_OUT_OF_RANGE
    message = "{what} of metadata key {key!r} is {found}; {at_least} to {at_most} is accepted"
    key: str
    what: str
    found: int | float
    at_least: int | float
    at_most: int | float


class GgufNonFiniteWeightError(ArtifactError):
    """A weight is infinite or not a number."""

    status = Status.GGUF_NON_FINITE_WEIGHT
    message = "tensor {name!r} holds {found} at index {index}; every weight must be finite"
    name: str
    index: tuple[int, ...]
    found: float


class GgufWeightTooLargeError(ArtifactError):
    """A weight is so large that no fraction bits suit the model."""

    status = Status.GGUF_WEIGHT_TOO_LARGE
    message = (
        "tensor {name!r} holds {found} at index {index}, too large for a trained model's integers; "
        "the file is damaged, or its tensor has another type: get it again"
    )
    name: str
    index: tuple[int, ...]
    found: float


class GgufSplitFileError(ArtifactError):
    """The file is one part of a model that was split into several."""

    status = Status.GGUF_SPLIT_FILE
    message = (
        "the model was split into {count} files, of which this is one; join them first "
        "(llama-gguf-split --merge) and give the joined file"
    )
    count: int
