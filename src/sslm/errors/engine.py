"""Errors of opening and using a model."""

from sslm.errors.base import ArgumentError, ArtifactError
from sslm.errors.status import Status


class ModelHashMismatchError(ArtifactError):
    """The file is not the one that was asked for."""

    status = Status.MODEL_HASH_MISMATCH
    message = (
        "{path} has the SHA-256 {found}, expected {expected}; it was changed or is another one"
    )
    path: str
    found: str
    expected: str


class NotAnArtifactError(ArtifactError):
    """The file is a model, but not one that was converted."""

    status = Status.NOT_CONVERTED
    message = "{path} is a GGUF file; convert it first: sslm convert {path} -o MODEL.sslm"
    path: str


class NoGoldenRunsError(ArtifactError):
    """An artifact has no golden runs, so there is nothing to verify against."""

    status = Status.NO_GOLDEN_RUNS
    message = "{path} holds no golden runs; convert its source again with this version"
    path: str


class NoChatTemplateError(ArgumentError):
    """A model without a chat template was asked to chat."""

    status = Status.NO_CHAT_TEMPLATE
    message = "the model has no chat template; use generate with a prompt of your own"
