"""Expecting an error by its cause: by a class, or by a number where one class has many."""

from typing import Any

import pytest

from sslm.errors.base import SslmError
from sslm.errors.causes import ManyCausesError
from sslm.errors.status import Status

Kind = type[BaseException] | Status
"""A class, or the number of one cause of a class that has many."""


def kind_of(error: BaseException) -> Kind:
    """Return the number of an error whose class has many causes, and the class of another."""
    return error.status if isinstance(error, ManyCausesError) else type(error)


def raises(*kinds: Kind, match: str | None = None) -> "pytest.RaisesExc[Any]":
    """Expect an error of one of these kinds, as :func:`pytest.raises` does.

    A number stands for its class too: tests/test_errors_table.py checks that no two have it.
    """
    classes = tuple(kind for kind in kinds if not isinstance(kind, Status))
    has_numbers = len(classes) < len(kinds)

    def is_expected(error: BaseException) -> bool:
        return isinstance(error, classes) or kind_of(error) in kinds

    expected = (*classes, SslmError) if has_numbers else classes
    return pytest.raises(expected, match=match, check=is_expected)
