from typing import Any

import pytest

from sslm.native_library import TIERS
from tests.backends.backends import BACKEND_NAMES, MISSING_NAMES


def _parameters(names: tuple[str, ...]) -> list[Any]:
    missing = pytest.mark.skip(reason="this CPU does not run the tier")
    return [pytest.param(name, marks=[missing] if name in MISSING_NAMES else []) for name in names]


@pytest.fixture(params=_parameters(BACKEND_NAMES))
def backend_name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=_parameters(TIERS))
def native_name(request: pytest.FixtureRequest) -> str:
    return request.param
