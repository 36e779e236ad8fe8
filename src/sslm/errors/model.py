"""Errors of model configurations, their source files and their evaluation."""

from sslm.errors.base import ArgumentError, ArtifactError
from sslm.errors.status import Status


class UnsupportedArchitectureError(ArtifactError):
    """The model is of an architecture that this package does not run."""

    status = Status.ARCHITECTURE_UNSUPPORTED
    message = "architecture {architecture!r} is not supported; supported are: {supported}"
    architecture: str
    supported: str


class _SizeError(ArtifactError):
    """One size of a configuration is outside its bounds."""

    # What the user's file calls it.
    name: str
    value: int
    at_least: int
    at_most: int


class VocabSizeError(_SizeError):
    """The vocabulary is empty or larger than the limit."""

    status = Status.VOCAB_SIZE
    message = "{name} is {value}; it must be from {at_least} to {at_most}"


class HiddenSizeError(_SizeError):
    """The width of a row is outside its limits."""

    status = Status.HIDDEN_SIZE
    message = "{name} is {value}; it must be from {at_least} to {at_most}"


class IntermediateSizeError(_SizeError):
    """The width of the feed-forward block is outside its limits."""

    status = Status.INTERMEDIATE_SIZE
    message = "{name} is {value}; it must be from {at_least} to {at_most}"


class LayerCountError(_SizeError):
    """The number of layers is outside its limits."""

    status = Status.LAYER_COUNT
    message = "{name} is {value}; it must be from {at_least} to {at_most}"


class HeadCountError(ArtifactError):
    """The attention heads are too few, too many, or not a multiple of the key/value heads."""

    status = Status.HEAD_COUNT
    message = (
        "{name} is {num_attention_heads} and {kv_name} is {num_key_value_heads}; the first must be "
        "from 1 to {at_most} and a multiple of the second"
    )
    # What the user's file calls the two.
    name: str
    num_attention_heads: int
    kv_name: str
    num_key_value_heads: int
    at_most: int


class HeadDimError(_SizeError):
    """The width of a head is outside its limits."""

    status = Status.HEAD_DIM
    message = "{name} is {value}; it must be from {at_least} to {at_most}"


class RotaryDimError(ArtifactError):
    """The rotated part of a head is odd, empty or wider than the head."""

    status = Status.ROTARY_DIM
    message = "{name} is {rotary_dim}; it must be even, from 2 to a head's width, {head_dim}"
    name: str
    rotary_dim: int
    head_dim: int


class ModelContextError(_SizeError):
    """The longest context that the model states is outside its limits."""

    status = Status.MODEL_CONTEXT
    message = "{name} is {value}; it must be from {at_least} to {at_most}"


class ModelNumberError(ArtifactError):
    """A real hyper-parameter is no binary32 number or lies outside its range."""

    status = Status.MODEL_NUMBER
    message = "{field} is {value}; expected {expected}"
    field: str
    value: str
    expected: str


class SourceTensorMissingError(ArtifactError):
    """A tensor that the configuration needs is not in the file."""

    status = Status.SOURCE_TENSOR_MISSING
    message = "tensor {tensor!r} is missing from the model file; its shape would be {expected}"
    tensor: str
    expected: tuple[int, ...]


class SourceTensorUnexpectedError(ArtifactError):
    """The file holds a tensor that the architecture does not know."""

    status = Status.SOURCE_TENSOR_UNEXPECTED
    message = (
        "tensor {tensor!r} does not belong to architecture {architecture!r} with this "
        "configuration; leaving it out would change what the model computes"
    )
    tensor: str
    architecture: str


class SourceTensorShapeError(ArtifactError):
    """A tensor's shape is not the one that the configuration implies."""

    status = Status.SOURCE_TENSOR_SHAPE
    message = "tensor {tensor!r} has shape {found}; the configuration needs {expected}"
    tensor: str
    found: tuple[int, ...]
    expected: tuple[int, ...]


class MixtureOfExpertsError(ArtifactError):
    """The model routes tokens to experts, which this package does not compute."""

    status = Status.MIXTURE_OF_EXPERTS
    message = "the model has {expert_count} experts; only dense models are supported"
    expert_count: int


class UnsupportedRopeScalingError(ArtifactError):
    """The model stretches its positions in a way that this package does not compute."""

    status = Status.ROPE_SCALING_UNSUPPORTED
    message = "rope scaling {kind!r} is not supported; supported are: {supported}"
    kind: str
    supported: str


class AttentionWidthError(_SizeError):
    """All heads together are wider than a linear sum may be long."""

    status = Status.ATTENTION_WIDTH
    message = (
        "{name} is {value}; it must be from {at_least} to {at_most}, "
        "so that the output projection's sums stay exact"
    )


class UnsupportedHyperparameterError(ArtifactError):
    """A key of the model file asks for a variant that this package does not compute."""

    status = Status.HYPERPARAMETER_UNSUPPORTED
    message = "{key} is {value}; {expected}"
    key: str
    value: str
    expected: str


class EvaluationWindowError(ArgumentError):
    """The windows of an evaluation are too short, or do not cover the text."""

    status = Status.EVALUATION_WINDOW
    message = (
        "the context is {context} and the stride {stride}, expected a context from "
        "{context_at_least} to {context_at_most} tokens and a stride from {stride_at_least} to the "
        "context"
    )
    context: int
    stride: int
    context_at_least: int
    context_at_most: int
    stride_at_least: int


class SourceMismatchError(ArgumentError):
    """An artifact is held against a source that it was not converted from."""

    status = Status.SOURCE_MISMATCH
    message = (
        "the artifact's {field} is {artifact} and the source's is {source}; give the file that the "
        "artifact was converted from"
    )
    field: str
    artifact: int
    source: int


class TextTooShortError(ArgumentError):
    """A text leaves no position to predict."""

    status = Status.TEXT_TOO_SHORT
    message = "the text has {tokens} tokens; predicting anything takes at least {at_least}"
    tokens: int
    at_least: int
