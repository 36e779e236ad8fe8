"""Errors of conversion."""

from sslm.errors.base import ArtifactError, NumericError
from sslm.errors.status import Status


class CalibrationError(NumericError):
    """No fraction bits were found that suit the calibration text."""

    status = Status.CALIBRATION
    message = (
        "{rounds} runs over the calibration text found no fraction bits that suit its values; the "
        "weights are probably not those of a trained model"
    )
    rounds: int


class NoCalibrationError(ArtifactError):
    """The vocabulary cannot spell any calibration text."""

    status = Status.NO_CALIBRATION
    message = "the vocabulary spells none of the calibration texts; it is too small to convert"


class ConversionDiffersError(NumericError):
    """This machine does not compute from the artifact what the reference computed."""

    status = Status.CONVERSION_DIFFERS
    message = "the finished artifact fails verification on tier {tier}: {first_difference}"
    tier: str
    first_difference: str
