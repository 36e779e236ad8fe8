"""The names that a user may import, all of which are found when they are first asked for."""

import importlib
import inspect
import pkgutil

import pytest

import sslm
import sslm.errors
from sslm.errors.base import SslmError


def _error_classes() -> dict[str, type[SslmError]]:
    found: dict[str, type[SslmError]] = {}
    for module in pkgutil.iter_modules(sslm.errors.__path__):
        members = vars(importlib.import_module(f"sslm.errors.{module.name}"))
        for name, member in members.items():
            is_own = inspect.isclass(member) and member.__module__.endswith(f".{module.name}")
            if is_own and issubclass(member, SslmError) and not name.startswith("_"):
                assert name not in found, "two classes have one name"
                found[name] = member
    return found


@pytest.mark.parametrize("name", sslm.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(sslm, name) is not None
    assert name in dir(sslm)


def test_every_error_is_found_in_one_place() -> None:
    classes = _error_classes()
    for name, kind in classes.items():
        assert getattr(sslm.errors, name) is kind
    assert set(classes) <= set(dir(sslm.errors))
    assert {*sslm.errors.MODULES, "showing"} == {
        module.name for module in pkgutil.iter_modules(sslm.errors.__path__)
    }


def test_public_errors_are_those_of_the_errors_package() -> None:
    for name in sslm.__all__:
        if name.endswith("Error"):
            assert getattr(sslm, name) is getattr(sslm.errors, name)


@pytest.mark.parametrize("module", [sslm, sslm.errors])
def test_other_names_are_missing_as_always(module: object) -> None:
    for name in ("Nothing", "NothingError", "__nothing__"):
        with pytest.raises(AttributeError, match=name):
            getattr(module, name)
