"""What can be wrong with a ``.sslm`` file, and with writing one."""

from sslm.errors.base import ArgumentError, ArtifactError, ResourceError
from sslm.errors.causes import ManyCausesError, causes_of
from sslm.errors.status import Status


class ContainerError(ManyCausesError, ArtifactError):
    """A ``.sslm`` file is not as the format says, or not one that this release reads."""

    causes = causes_of("""
        SSLM_MAGIC NotAnSslmFileError: this is not a model in an .sslm file: it begins with {found},
            as {looks_like} does; {remedy}
        SSLM_VERSION: the .sslm format version is {found}, only {expected} is read here; convert the
            model again, or use the release that wrote it
        SSLM_HEADER_SIZE: the header says that it has {found} bytes, it must have {expected}
        SSLM_FLAGS: the header's flags are {found:#x}; version 16 has none
        SSLM_RESERVED: {field!r} at byte {offset_bytes} is {found:#x}, it must be zero
        SSLM_FILE_SIZE: the header says {stated_bytes} bytes, the file has {found_bytes}; get the
            file again
        SSLM_INTEGRITY: the file is damaged: its content has the hash {found}, the header states
            {stated}; get the file again
        SECTION_TYPE: section {index} has the unknown type {found}
        SECTION_DUPLICATE DuplicateSectionError: section {index} is a second one of type {section}
        SECTION_ORDER: section {index} ({section}) follows {previous}, which has a larger type
            number
        SECTION_MISSING MissingSectionError: the file has no section {section}
        SECTION_DTYPE: section {section} has the element type {found}, it must be {expected}
        SECTION_ELEMENT_COUNT (section found size_bytes): section {section} has {size_bytes} bytes
            but states {found} elements
        SECTION_ALIGNMENT: section {section} states an alignment of {found} bytes, it must be
            {expected}
        SECTION_BOUNDS (section offset_bytes size_bytes file_bytes): section {section} has
            {size_bytes} bytes at byte {offset_bytes}, the file ends at byte {file_bytes}
        SECTION_OVERLAP: section {section} begins at byte {offset_bytes}, {previous} reaches to
            {end_bytes}
        SECTION_GAP: section {section} begins at byte {offset_bytes}, it must begin at
            {expected_bytes}
        SECTION_EMPTY EmptySectionError: section {section} is empty; a section without content is
            left out
        SECTION_SIZE: section {section} has {size_bytes} bytes, at most {at_most} are accepted
        SSLM_TENSOR_NAME TensorNameError: tensor {index} has the name {name!r}; names are letters,
            digits, '.' and '_'
        SSLM_TENSOR_NAME_SIZE TensorNameSizeError: the name of tensor {index} has {size_bytes}
            bytes, at most {at_most} are accepted
        SSLM_TENSOR_EXPONENT TensorExponentError: tensor {name!r} has the exponent {found}, it must
            be from -{bound} to {bound}
        SSLM_TENSOR_ORDER TensorOrderError: tensor {name!r} does not come after {previous!r}; names
            are sorted and unique
        SSLM_TENSOR_ENCODING TensorEncodingError: tensor {name!r} has the unknown encoding {found}
        SSLM_TENSOR_RANK TensorRankError: tensor {name!r} has {found} extents, its encoding allows
            {at_least} to {at_most}
        SSLM_TENSOR_EXTENT TensorExtentError (name extents rank): tensor {name!r} of rank {rank} has
            the extents {extents}; the rest must be 0, no other
        SSLM_TENSOR_PLACE TensorPlaceError: tensor {name!r} lies at byte {found_bytes} of the
            weights, it must be {expected_bytes}
        SSLM_TENSOR_SIZE TensorSizeError: tensor {name!r} of shape {shape} states {found_bytes}
            bytes, it has {expected_bytes}
        SSLM_TENSOR_ROLE TensorRoleError: the name of the int32 tensor {name!r} ends in none of:
            {known}
        SSLM_TENSOR_VALUE TensorValueError (name index found lowest highest): tensor {name!r} holds
            {found} at index {index}; allowed are {lowest} to {highest}
        SSLM_WEIGHT_CODE WeightCodeError: tensor {name!r} holds the code -128 at its byte
            {offset_bytes}; codes are ±127
        SSLM_INT4_CODE Int4CodeError: tensor {name!r} holds the int4 code -8 at its byte
            {offset_bytes}, expected codes from -7 to 7; convert the model's source again
        SSLM_GROUP_SCALE GroupScaleError (name offset_bytes found expected): tensor {name!r} holds
            the group scale {found} at its byte {offset_bytes}, expected {expected}; convert the
            model's source again
        SSLM_TENSOR_COLUMNS TensorColumnsError: tensor {name!r} has {found} columns of int4 weights,
            expected at most {highest}; convert the model's source with int8 weights
        SSLM_PANEL_PADDING PanelPaddingError: tensor {name!r}: the {what} that pad the panel at byte
            {offset_bytes} are not zero
        SSLM_WEIGHTS_SIZE WeightsSizeError: the tensors end at byte {end_bytes} of the weights, the
            section has {size_bytes}
        SSLM_TOKENIZER_FLAGS TokenizerFlagsError: the tokenizer's flags are {found:#x}; only those
            in {known:#x} have a meaning
        SSLM_TOKEN_SIZES TokenSizesError: the tokens take {stated} characters by their sizes, their
            text has {found}
        ARITHMETIC_VERSION: the file was made for arithmetic version {found}, this release runs
            {expected}; convert the model again, or use the release that wrote it
        SECTIONS_DISAGREE (place what found expected): {place} has {found} {what}, the configuration
            makes it {expected}
    """)


# The header and the section table.


# Tensors.


# What the sections say about one another.


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
