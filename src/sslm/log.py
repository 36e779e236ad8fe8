"""The package's logger, which is silent unless a program attaches a handler."""

import logging
from typing import Final

LOGGER: Final = logging.getLogger("sslm")
"""Counts and times at INFO, progress at DEBUG; never a prompt, an answer or their ids."""

LOGGER.addHandler(logging.NullHandler())
