"""Errors of conversion."""

from sslm.errors.base import NumericError
from sslm.errors.status import Status


class CalibrationError(NumericError):
    """No fraction bits were found that suit the calibration text."""

    status = Status.CALIBRATION
    message = (
        "the fraction bits did not settle in {rounds} runs over the calibration text; the weights "
        "are probably not those of a trained model"
    )
    rounds: int
