"""Where the tests find real models, texts and suites."""

import os
from pathlib import Path

_DATA = Path(os.environ.get("SSLM_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


def shared_data(relative: str) -> Path:
    """Return the path of a file of the shared test data; fail loudly if it is not there."""
    path = _DATA / relative
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: set SSLM_TEST_DATA to the test data folder")
    return path
