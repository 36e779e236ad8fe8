"""The calibration texts as token ids of a vocabulary."""

from collections.abc import Sequence
from typing import Final

from sslm.convert.calibration_text import CALIBRATION_TEXTS
from sslm.convert.inputs import inputs_size_bytes
from sslm.convert.int4_calibration_text import INT4_CALIBRATION_TEXTS
from sslm.errors.convert import NoCalibrationError
from sslm.errors.text import TextNotEncodableError
from sslm.limits import CALIBRATION_INPUTS_SIZE_BYTES_MAX
from sslm.model.config import ModelConfig
from sslm.text.tokenizer import Tokenizer

_TOKENS_MAX: Final = 128
_INT4_TOKENS_MAX: Final = 256


def calibration_ids(tokenizer: Tokenizer, config: ModelConfig) -> list[list[int]]:
    """Return the ids of every calibration text that the vocabulary can spell.

    Raises:
        NoCalibrationError: If there is none.
    """
    found = _ids(tokenizer, CALIBRATION_TEXTS, min(_TOKENS_MAX, config.max_position_embeddings))
    if not found:
        raise NoCalibrationError
    return found


def int4_calibration_ids(tokenizer: Tokenizer, config: ModelConfig) -> list[list[int]]:
    """Return the ids of further texts, each so short that their inputs fit the memory for them."""
    token_count = CALIBRATION_INPUTS_SIZE_BYTES_MAX // inputs_size_bytes(config)
    share = max(1, token_count // len(INT4_CALIBRATION_TEXTS))
    longest = min(_INT4_TOKENS_MAX, config.max_position_embeddings, share)
    return _ids(tokenizer, INT4_CALIBRATION_TEXTS, longest)


def _ids(tokenizer: Tokenizer, texts: Sequence[str], tokens_max: int) -> list[list[int]]:
    found = []
    for text in texts:
        try:
            found.append(tokenizer.encode(text)[:tokens_max])
        except TextNotEncodableError:
            continue
    return found
