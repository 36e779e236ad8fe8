import ctypes
from typing import Any

import pytest

from sslm.native_library import TIERS
from tests.backends import hooks
from tests.backends.backends import BACKEND_NAMES, MISSING_NAMES
from tests.backends.random_program import RandomProgram
from tests.backends.wide_program import wide_model


def _parameters(names: tuple[str, ...]) -> list[Any]:
    missing = pytest.mark.skip(reason="this CPU does not run the tier")
    return [pytest.param(name, marks=[missing] if name in MISSING_NAMES else []) for name in names]


@pytest.fixture(params=_parameters(BACKEND_NAMES))
def backend_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=_parameters(TIERS))
def native_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def wide() -> RandomProgram:
    return wide_model()


@pytest.fixture(scope="session")
def c_hooks(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = hooks.compile_c(tmp_path_factory.mktemp("hooks"), hooks.C_HOOKS)
    return ctypes.CDLL(str(path))
