"""What can be wrong with a GGUF file."""

from sslm.errors.base import ArtifactError
from sslm.errors.causes import ManyCausesError, causes_of


class GgufError(ManyCausesError, ArtifactError):
    """A GGUF file is not as the format says, or holds what is not read here."""

    causes = causes_of("""
        GGUF_MAGIC: not a GGUF file: it starts with {found!r}, expected b'GGUF'
        GGUF_VERSION: GGUF version {found} is not supported, only 2 and 3 are; convert the file
            again
        GGUF_BIG_ENDIAN: this GGUF file is big-endian (version {version}); only little-endian files
            are read
        GGUF_KEY: metadata key {key!r} before byte {offset_bytes} is not a run of printable ASCII
        GGUF_DUPLICATE_KEY: metadata key {key!r} occurs again before byte {offset_bytes}
        GGUF_UNKNOWN_VALUE_TYPE: metadata key {key!r} has a value of type {type_id} at byte
            {offset_bytes}; 0 to 12 exist
        GGUF_NESTED_ARRAY: metadata key {key!r} is an array of arrays (byte {offset_bytes}), which
            is not supported
        GGUF_BOOL: metadata key {key!r} has the truth value {found} at byte {offset_bytes}; 0 or 1
            expected
        GGUF_ALIGNMENT: general.alignment is {found}; a power of two from {at_least} to {at_most} is
            expected
        GGUF_TENSOR_NAME: tensor name {name!r} before byte {offset_bytes} is empty or not printable
        GGUF_DUPLICATE_TENSOR: tensor {name!r} is listed again before byte {offset_bytes}
        GGUF_DIMENSION_COUNT: tensor {name!r} has {found} dimensions, 1 to {at_most} are accepted
        GGUF_EMPTY_DIMENSION: tensor {name!r} has the shape {shape} (outermost first): a dimension
            is zero
        GGUF_TENSOR_TOO_LARGE: tensor {name!r} of shape {shape} has more than {at_most} elements
        GGUF_UNKNOWN_TENSOR_TYPE: tensor {name!r} has the unknown type {type_id}; convert the model
            to a common type
        GGUF_REMOVED_TENSOR_TYPE: tensor {name!r} has type {type_id} ({type_name}), which was
            removed from GGUF; convert the model again
        GGUF_UNSUPPORTED_TENSOR_TYPE: tensor {name!r} has type {type_id} ({type_name}), which is not
            supported as weights; use another quantization of the model
        GGUF_PARTIAL_BLOCK: tensor {name!r} has rows of {row_elements} elements, but type
            {type_name} stores blocks of {block_elements}
        GGUF_TENSOR_PAST_END (name offset_bytes size_bytes file_size_bytes): tensor {name!r} takes
            {size_bytes} bytes from byte {offset_bytes} on, but the file has {file_size_bytes}; it
            was cut off: get it again
        GGUF_TENSOR_OFFSET (name offset_bytes expected_bytes before): tensor {name!r} starts at byte
            {offset_bytes} of the file, but {before} is at byte {expected_bytes}: a type, shape or
            offset in the header is wrong; get the file again, or convert the model again
        GGUF_DATA_END: the last tensor, {name!r} ({type_name}), ends at byte {expected_bytes} of the
            file, padding included, but the file has {file_size_bytes}: a type or shape in the
            header is wrong, or something was appended; get the file again, or convert the model
            again
        GGUF_MISSING_KEY: metadata key {key!r} is missing; {expected} is expected
        GGUF_WRONG_VALUE_TYPE: metadata key {key!r} holds {found}, {expected} is expected
        GGUF_VALUE_OUT_OF_RANGE (key what found at_least at_most): {what} of metadata key {key!r} is
            {found}; {at_least} to {at_most} is accepted
        GGUF_NON_FINITE_WEIGHT (name index found): tensor {name!r} holds {found} at index {index};
            every weight must be finite
        GGUF_WEIGHT_TOO_LARGE (name index found): tensor {name!r} holds {found} at index {index},
            too large for a trained model's integers; the file is damaged, or its tensor has another
            type: get it again
        GGUF_SPLIT_FILE: the model was split into {count} files, of which this is one; join them
            first (llama-gguf-split --merge) and give the joined file
    """)
