"""What can be wrong with a ``.sslm`` file, and with writing one."""

from sslm.errors.base import ArgumentError, ArtifactError, ResourceError
from sslm.errors.status import Status

# The header and the section table.


class NotAnSslmFileError(ArtifactError):
    """The file does not begin as a model does; a save begins with the same four letters."""

    status = Status.SSLM_MAGIC
    message = (
        "this is not a model in an .sslm file: it begins with {found}, as {looks_like} does; "
        "{remedy}"
    )
    found: bytes
    looks_like: str
    remedy: str


class SslmVersionError(ArtifactError):
    """The file has another version of the format."""

    status = Status.SSLM_VERSION
    message = (
        "the .sslm format version is {found}, only {expected} is read here; "
        "convert the model again, or use the release that wrote it"
    )
    found: int
    expected: int


class SslmHeaderSizeError(ArtifactError):
    """The header states another size than the format gives it."""

    status = Status.SSLM_HEADER_SIZE
    message = "the header says that it has {found} bytes, it must have {expected}"
    found: int
    expected: int


class SslmFlagsError(ArtifactError):
    """The header sets a flag that has no meaning."""

    status = Status.SSLM_FLAGS
    message = "the header's flags are {found:#x}; version 16 has none"
    found: int


class SslmReservedError(ArtifactError):
    """A reserved field is not zero."""

    status = Status.SSLM_RESERVED
    message = "{field!r} at byte {offset_bytes} is {found:#x}, it must be zero"
    field: str
    offset_bytes: int
    found: int


class SslmFileSizeError(ArtifactError):
    """The header states another size than the file has: it was cut, or something was appended."""

    status = Status.SSLM_FILE_SIZE
    message = "the header says {stated_bytes} bytes, the file has {found_bytes}; get the file again"
    stated_bytes: int
    found_bytes: int


class SslmIntegrityError(ArtifactError):
    """The hash in the header is not that of the content."""

    status = Status.SSLM_INTEGRITY
    message = (
        "the file is damaged: its content has the hash {found}, the header states {stated}; "
        "get the file again"
    )
    found: str
    stated: str


class SectionTypeError(ArtifactError):
    """A section has a type that this format version does not know."""

    status = Status.SECTION_TYPE
    message = "section {index} has the unknown type {found}"
    index: int
    found: int


class DuplicateSectionError(ArtifactError):
    """Two sections have the same type."""

    status = Status.SECTION_DUPLICATE
    message = "section {index} is a second one of type {section}"
    index: int
    section: str


class SectionOrderError(ArtifactError):
    """The sections do not stand in ascending order of their types."""

    status = Status.SECTION_ORDER
    message = "section {index} ({section}) follows {previous}, which has a larger type number"
    index: int
    section: str
    previous: str


class MissingSectionError(ArtifactError):
    """A section that every file needs is not there."""

    status = Status.SECTION_MISSING
    message = "the file has no section {section}"
    section: str


class SectionDtypeError(ArtifactError):
    """A section's element type is not the one fixed for its type."""

    status = Status.SECTION_DTYPE
    message = "section {section} has the element type {found}, it must be {expected}"
    section: str
    found: int
    expected: int


class SectionElementCountError(ArtifactError):
    """A section's element count does not match its size."""

    status = Status.SECTION_ELEMENT_COUNT
    message = "section {section} has {size_bytes} bytes but states {found} elements"
    section: str
    found: int
    size_bytes: int


class SectionAlignmentError(ArtifactError):
    """A section's alignment is not the one fixed for its type."""

    status = Status.SECTION_ALIGNMENT
    message = "section {section} states an alignment of {found} bytes, it must be {expected}"
    section: str
    found: int
    expected: int


class SectionBoundsError(ArtifactError):
    """A section reaches past the end of the file."""

    status = Status.SECTION_BOUNDS
    message = (
        "section {section} has {size_bytes} bytes at byte {offset_bytes}, "
        "the file ends at byte {file_bytes}"
    )
    section: str
    offset_bytes: int
    size_bytes: int
    file_bytes: int


class SectionOverlapError(ArtifactError):
    """A section begins before the previous one, or the table, ends."""

    status = Status.SECTION_OVERLAP
    message = "section {section} begins at byte {offset_bytes}, {previous} reaches to {end_bytes}"
    section: str
    offset_bytes: int
    previous: str
    end_bytes: int


class SectionGapError(ArtifactError):
    """A section does not begin at the first aligned byte after the previous one."""

    status = Status.SECTION_GAP
    message = "section {section} begins at byte {offset_bytes}, it must begin at {expected_bytes}"
    section: str
    offset_bytes: int
    expected_bytes: int


class EmptySectionError(ArtifactError):
    """A section has no bytes."""

    status = Status.SECTION_EMPTY
    message = "section {section} is empty; a section without content is left out"
    section: str


class SectionSizeError(ArtifactError):
    """A section is larger than the limit for its type."""

    status = Status.SECTION_SIZE
    message = "section {section} has {size_bytes} bytes, at most {at_most} are accepted"
    section: str
    size_bytes: int
    at_most: int


# Tensors.


class TensorNameError(ArtifactError):
    """A tensor's name is empty or has characters that names may not have."""

    status = Status.SSLM_TENSOR_NAME
    message = "tensor {index} has the name {name!r}; names are letters, digits, '.' and '_'"
    index: int
    name: str


class TensorNameSizeError(ArtifactError):
    """A tensor's name is too long."""

    status = Status.SSLM_TENSOR_NAME_SIZE
    message = "the name of tensor {index} has {size_bytes} bytes, at most {at_most} are accepted"
    index: int
    size_bytes: int
    at_most: int


class TensorExponentError(ArtifactError):
    """A tensor's exponent is too large or too small to make sense."""

    status = Status.SSLM_TENSOR_EXPONENT
    message = "tensor {name!r} has the exponent {found}, it must be from -{bound} to {bound}"
    name: str
    found: int
    bound: int


class TensorOrderError(ArtifactError):
    """The tensors are not sorted by name, or two have the same name."""

    status = Status.SSLM_TENSOR_ORDER
    message = "tensor {name!r} does not come after {previous!r}; names are sorted and unique"
    name: str
    previous: str


class TensorEncodingError(ArtifactError):
    """A tensor's elements lie in a way that this version does not know."""

    status = Status.SSLM_TENSOR_ENCODING
    message = "tensor {name!r} has the unknown encoding {found}"
    name: str
    found: int


class TensorRankError(ArtifactError):
    """A tensor has more or fewer extents than its encoding allows."""

    status = Status.SSLM_TENSOR_RANK
    message = "tensor {name!r} has {found} extents, its encoding allows {at_least} to {at_most}"
    name: str
    found: int
    at_least: int
    at_most: int


class TensorExtentError(ArtifactError):
    """An extent of a tensor is zero, or one beyond its rank is not."""

    status = Status.SSLM_TENSOR_EXTENT
    message = (
        "tensor {name!r} of rank {rank} has the extents {extents}; the rest must be 0, no other"
    )
    name: str
    extents: tuple[int, ...]
    rank: int


class TensorPlaceError(ArtifactError):
    """A tensor does not lie at the first aligned byte after the one before it."""

    status = Status.SSLM_TENSOR_PLACE
    message = (
        "tensor {name!r} lies at byte {found_bytes} of the weights, it must be {expected_bytes}"
    )
    name: str
    found_bytes: int
    expected_bytes: int


class TensorSizeError(ArtifactError):
    """A tensor's size is not the one that its encoding and extents give."""

    status = Status.SSLM_TENSOR_SIZE
    message = "tensor {name!r} of shape {shape} states {found_bytes} bytes, it has {expected_bytes}"
    name: str
    shape: tuple[int, ...]
    found_bytes: int
    expected_bytes: int


class TensorRoleError(ArtifactError):
    """An int32 tensor's name does not say what its numbers are, so they cannot be checked."""

    status = Status.SSLM_TENSOR_ROLE
    message = "the name of the int32 tensor {name!r} ends in none of: {known}"
    name: str
    known: str


class TensorValueError(ArtifactError):
    """A number of a tensor is out of the bounds that the arithmetic relies on."""

    status = Status.SSLM_TENSOR_VALUE
    message = "tensor {name!r} holds {found} at index {index}; allowed are {lowest} to {highest}"
    name: str
    index: int
    found: int
    lowest: int
    highest: int


class WeightCodeError(ArtifactError):
    """A weight has the code -128, which the arithmetic has no room for."""

    status = Status.SSLM_WEIGHT_CODE
    message = "tensor {name!r} holds the code -128 at its byte {offset_bytes}; codes are ±127"
    name: str
    offset_bytes: int


class Int4CodeError(ArtifactError):
    """A weight of four bits has the code -8, which the arithmetic has no room for."""

    status = Status.SSLM_INT4_CODE
    message = (
        "tensor {name!r} holds the int4 code -8 at its byte {offset_bytes}, expected codes from "
        "-7 to 7; convert the model's source again"
    )
    name: str
    offset_bytes: int


class GroupScaleError(ArtifactError):
    """The scale of a group of int4 weights is out of its bounds."""

    status = Status.SSLM_GROUP_SCALE
    message = (
        "tensor {name!r} holds the group scale {found} at its byte {offset_bytes}, expected "
        "{expected}; convert the model's source again"
    )
    name: str
    offset_bytes: int
    found: int
    expected: str


class TensorColumnsError(ArtifactError):
    """A matrix has more columns than its arithmetic can sum exactly."""

    status = Status.SSLM_TENSOR_COLUMNS
    message = (
        "tensor {name!r} has {found} columns of int4 weights, expected at most {highest}; convert "
        "the model's source with int8 weights"
    )
    name: str
    found: int
    highest: int


class PanelPaddingError(ArtifactError):
    """A row or column that only pads a panel is not zero."""

    status = Status.SSLM_PANEL_PADDING
    message = "tensor {name!r}: the {what} that pad the panel at byte {offset_bytes} are not zero"
    name: str
    what: str
    offset_bytes: int


class WeightsSizeError(ArtifactError):
    """The tensors do not fill the section of the weights."""

    status = Status.SSLM_WEIGHTS_SIZE
    message = "the tensors end at byte {end_bytes} of the weights, the section has {size_bytes}"
    end_bytes: int
    size_bytes: int


class TokenizerFlagsError(ArtifactError):
    """The tokenizer sets a flag that has no meaning."""

    status = Status.SSLM_TOKENIZER_FLAGS
    message = "the tokenizer's flags are {found:#x}; only those in {known:#x} have a meaning"
    found: int
    known: int


class TokenSizesError(ArtifactError):
    """The tokens' sizes do not add up to the size of their text."""

    status = Status.SSLM_TOKEN_SIZES
    message = "the tokens take {stated} characters by their sizes, their text has {found}"
    stated: int
    found: int


# What the sections say about one another.


class ArithmeticVersionError(ArtifactError):
    """The file was made for an arithmetic that this release does not run."""

    status = Status.ARITHMETIC_VERSION
    message = (
        "the file was made for arithmetic version {found}, this release runs {expected}; "
        "convert the model again, or use the release that wrote it"
    )
    found: int
    expected: int


class SectionsDisagreeError(ArtifactError):
    """Two sections state different numbers for the same thing."""

    status = Status.SECTIONS_DISAGREE
    message = "{place} has {found} {what}, the configuration makes it {expected}"
    place: str
    what: str
    found: int
    expected: int


# Writing.


class TensorSupplyError(ArgumentError):
    """The tensors given to the writer are not those that were announced."""

    status = Status.TENSOR_SUPPLY
    message = "expected tensor {expected}, was given {found}"
    expected: str
    found: str


class UnwritableFileError(ArgumentError):
    """The operating system does not let us write the file."""

    status = Status.UNWRITABLE_FILE
    message = "cannot write {path!r}: {reason}"
    path: str
    reason: str


class DiskFullError(ResourceError):
    """The disk, or the quota on it, has no room for the file."""

    status = Status.DISK_FULL
    message = "no room for {path!r}: {reason}; free some space and try again"
    path: str
    reason: str


class StorageFailedError(ResourceError):
    """The storage, or what the system has to reach it, failed; the file's name is not at fault."""

    status = Status.STORAGE_FAILED
    message = (
        "cannot write {path!r}, as the storage or the system fails: {reason}; see to that and try "
        "again, or write elsewhere"
    )
    path: str
    reason: str


class CopyMemoryError(ResourceError):
    """The system has not enough memory for a copy of the file."""

    status = Status.COPY_MEMORY
    message = "no memory for a copy of {path!r}, {size_bytes} bytes; map the file instead"
    path: str
    size_bytes: int
