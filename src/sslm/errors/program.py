"""Errors of programs: shapes that disagree, bounds that do not hold."""

from sslm.errors.base import ArgumentError, ArtifactError, NumericError
from sslm.errors.status import Status


class TensorShapeError(ArgumentError):
    """A tensor's bytes do not fit its shape."""

    status = Status.TENSOR_SHAPE
    message = "tensor {name!r} of shape {shape} has {size_bytes} bytes, expected {expected_bytes}"
    name: str
    shape: tuple[int, ...]
    size_bytes: int
    expected_bytes: int


class TensorMissingError(ArgumentError):
    """A program names a tensor that was not given."""

    status = Status.TENSOR_MISSING
    message = "the program needs the tensor {name!r}, which was not given"
    name: str


class OpShapeError(ArgumentError):
    """Two operands of an op disagree about a size."""

    status = Status.OP_SHAPE
    message = "{op}: {what} is {found}, expected {expected}"
    op: str
    what: str
    found: str
    expected: str


class AccumulatorBoundError(NumericError):
    """An op cannot prove that its sums fit, so exact results cannot be promised."""

    status = Status.ACCUMULATOR_BOUND
    message = "{op}: {what} is {found}, allowed are {lowest} to {highest}"
    op: str
    what: str
    found: int
    lowest: int
    highest: int


class LogitRangeError(NumericError):
    """Log-probabilities were asked for, and a logit is larger than scores can be."""

    status = Status.LOGIT_RANGE
    message = (
        "the largest logit is 2048 or more, or -2048 or less, and scores end there: "
        "log-probabilities cannot be told"
    )


class SegmentRangeError(ArgumentError):
    """A run asked for segments that the program does not have."""

    status = Status.SEGMENT_RANGE
    message = "segments {first} to {last} are not a range of the program's {count} segments"
    first: int
    last: int
    count: int


class TierUnavailableError(ArgumentError):
    """A forced CPU tier does not exist, or does not run on this machine or backend."""

    status = Status.TIER_UNAVAILABLE
    message = "tier {tier!r} is not usable {where}; usable are: {usable}"
    tier: str
    where: str
    usable: str


class BackendUnavailableError(ArgumentError):
    """A forced backend does not exist, or does not run on this machine."""

    status = Status.BACKEND_UNAVAILABLE
    message = "backend {backend!r} is not known; known are: {known}"
    backend: str
    known: str


class ProgramArithmeticError(ArgumentError):
    """A program is for another arithmetic than the backends compute."""

    status = Status.PROGRAM_ARITHMETIC
    message = (
        "the program is for the arithmetic {found}, expected {expected}: build it with this "
        "version of the package"
    )
    found: str
    expected: str


class TensorSetError(ArtifactError):
    """An artifact's tensors are not those of its architecture."""

    status = Status.TENSOR_SET
    message = "tensor {name!r} is {found}; the architecture has {expected}"
    name: str
    found: str
    expected: str
