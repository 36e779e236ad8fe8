"""Errors carry facts, build their message from them, and survive pickle."""

import copy
import pickle
from typing import Any

import pytest

from sslm.errors.base import ArgumentError, ArtifactError, SslmError, StateError
from sslm.errors.model import VocabSizeError
from sslm.errors.program import TensorShapeError
from sslm.errors.runtime import EmptyPromptError, ObjectClosedError, TokenIdRangeError
from sslm.errors.status import Status


def test_facts_are_positional_or_named() -> None:
    for error in (
        TokenIdRangeError(7, 0, 5),
        TokenIdRangeError(7, 0, largest=5),
        TokenIdRangeError(largest=5, token_id=7, index=0),
    ):
        assert (error.token_id, error.index, error.largest) == (7, 0, 5)
        assert error.args == (7, 0, 5)
        assert str(error) == "token id 7 at index 0, expected an integer from 0 to 5"
    assert EmptyPromptError().args == ()
    assert str(EmptyPromptError()).startswith("the prompt is empty")


def test_facts_of_a_base_come_with_it() -> None:
    error = VocabSizeError("vocab_size", 0, 1, at_most=9)
    assert (error.value, error.at_least, error.at_most) == (0, 1, 9)
    assert str(error) == "vocab_size is 0; it must be from 1 to 9"
    assert error.status is Status.VOCAB_SIZE


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((), {}),
        ((7, 0), {}),
        ((7, 0, 5, 1), {}),
        ((7, 0), {"smallest": 5}),
        ((7, 0, 5), {"smallest": 5}),
        ((7, 0, 5), {"largest": 6}),
        ((7, 0), {"index": 1, "largest": 5}),
    ],
)
def test_wrong_facts_are_a_type_error(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        TokenIdRangeError(*values, **named)


@pytest.mark.parametrize(
    "error",
    [
        EmptyPromptError(),
        TokenIdRangeError(1 << 70, 0, largest=5),
        VocabSizeError("é", 0, 1, 9),
        TensorShapeError("é", (1, 2), 3, 8),
    ],
)
def test_pickle_and_copy_keep_everything(error: SslmError) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is type(error)
        assert (other.args, str(other), vars(other)) == (error.args, str(error), vars(error))


def test_families_are_builtin_errors_too() -> None:
    with pytest.raises(ValueError, match="at index 0"):
        raise TokenIdRangeError(7, 0, 5)
    assert issubclass(TokenIdRangeError, ArgumentError)
    assert issubclass(VocabSizeError, ArtifactError)
    assert issubclass(ArtifactError, ValueError)
    assert issubclass(ObjectClosedError, StateError)
    assert issubclass(StateError, RuntimeError)
