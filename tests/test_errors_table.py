"""Every exception has a number of its own, and survives the trip to another process."""

import copy
import importlib
import inspect
import pickle
import pkgutil
import types
import typing
from pathlib import Path, PurePath
from typing import Any, Literal

import pytest

import sslm.errors
from sslm.errors import base
from sslm.errors.base import SslmError
from sslm.errors.status import Status

for _module in pkgutil.iter_modules(sslm.errors.__path__):
    importlib.import_module(f"sslm.errors.{_module.name}")


def _subclasses(kind: type[SslmError]) -> list[type[SslmError]]:
    return [c for child in kind.__subclasses__() for c in (child, *_subclasses(child))]


FAMILIES = [kind for kind in _subclasses(SslmError) if kind.__module__ == base.__name__]
CAUSES = sorted(
    # A private class gathers the facts that several causes share; nobody raises it.
    (c for c in _subclasses(SslmError) if c not in FAMILIES and not c.__name__.startswith("_")),
    key=lambda kind: (kind.status, kind.__name__),
)

each_cause = pytest.mark.parametrize("kind", CAUSES, ids=lambda kind: kind.__name__)


def test_every_cause_has_a_number_of_its_own() -> None:
    numbers = [number for kind in CAUSES for number in _numbers(kind)]
    assert sorted(numbers) == sorted(set(numbers))
    # Success is no error, and what no class names is a defect of ours: the root's own number.
    assert set(Status) - set(numbers) == {Status.OK, SslmError.status}


def test_an_exception_has_the_number_of_its_own_cause() -> None:
    several = [kind for kind in CAUSES if kind.causes]
    assert several
    for kind in several:
        facts = _example(kind).facts()
        assert set(kind.causes) == set(typing.get_args(typing.get_type_hints(kind)["what"]))
        assert kind.status == next(iter(kind.causes.values()))
        for what, number in kind.causes.items():
            error = kind(**facts | {"what": what})
            assert error.status == pickle.loads(pickle.dumps(error)).status == number
            assert what in str(error)


@each_cause
def test_a_cause_states_itself(kind: type[SslmError]) -> None:
    assert {"status", "message", "__doc__"} <= set(vars(kind))
    assert sum(issubclass(kind, family) for family in FAMILIES) == 1


def test_the_first_digit_of_a_number_is_its_family() -> None:
    digits = {
        base.ArgumentError: "1",
        base.ArtifactError: "2",
        base.StateError: "3",
        base.ResourceError: "4",
        base.NumericError: "5",
        base.SchemaError: "6",
        base.NetworkError: "7",
    }
    assert set(digits) == set(FAMILIES)
    for kind in CAUSES:
        family = next(family for family in FAMILIES if issubclass(kind, family))
        for number in _numbers(kind):
            assert str(int(number))[0] == digits[family], kind


def test_exit_codes_cover_every_family() -> None:
    from sslm.cli.exit_codes import FAMILIES as CODES
    from sslm.cli.exit_codes import OUT_OF_BUDGET, USAGE, exit_code
    from sslm.errors.batches import BatchBusyError
    from sslm.errors.commands import BenchContextError
    from sslm.errors.model import EvaluationWindowError

    assert set(CODES) == set(FAMILIES)
    for kind in CAUSES:
        family = next(family for family in FAMILIES if issubclass(kind, family))
        # A wrong value of an option is misuse, wherever it is found.
        is_misuse = kind in (BenchContextError, EvaluationWindowError)
        # What another process has for a while is nobody's defect.
        expected = OUT_OF_BUDGET if kind is BatchBusyError else CODES[family]
        expected = USAGE if is_misuse else expected
        assert exit_code(_example(kind)) == expected


@each_cause
def test_a_message_tells_every_fact_it_names(kind: type[SslmError]) -> None:
    """A message that names no fact of its class could not be formatted at the worst moment."""
    assert str(_example(kind)).strip()


@each_cause
def test_an_exception_survives_pickle(kind: type[SslmError]) -> None:
    error = _example(kind)
    error.add_note("in row 3")
    copies = [copy.copy(error), copy.deepcopy(error)]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        copies.append(pickle.loads(pickle.dumps(error, protocol)))
        nested = pickle.loads(pickle.dumps({"error": [error]}, protocol))
        copies.append(nested["error"][0])
    for again in copies:
        assert type(again) is kind
        assert (str(again), again.status) == (str(error), error.status)
        assert again.args == error.args
        assert vars(again) == vars(error)
        assert again.__notes__ == ["in row 3"]


@pytest.mark.parametrize("kind", [SslmError, *FAMILIES], ids=lambda kind: kind.__name__)
def test_a_family_survives_pickle(kind: type[SslmError]) -> None:
    again = pickle.loads(pickle.dumps(kind()))
    assert (type(again), str(again), again.status) == (kind, str(kind()), kind.status)


def _numbers(kind: type[SslmError]) -> list[Status]:
    return list(kind.causes.values()) or [kind.status]


def _example(kind: type[SslmError]) -> SslmError:
    """Construct an exception with a distinct fact for every annotation."""
    hints = typing.get_type_hints(kind)
    names = [
        name
        for parent in reversed(kind.__mro__)
        if issubclass(parent, SslmError) and parent is not SslmError
        for name in inspect.get_annotations(parent)
        if typing.get_origin(hints[name]) is not typing.ClassVar
    ]
    facts = [_value(hints[name], index) for index, name in enumerate(dict.fromkeys(names), 1)]
    return kind(*facts)


def _value(hint: Any, seed: int) -> object:
    simple: dict[object, object] = {
        int: seed,
        float: seed + 0.5,
        str: f"text {seed}",
        bytes: bytes([seed]),
        bool: True,
        Path: PurePath(f"file {seed}"),
        type(None): None,
    }
    if hint in simple:
        return simple[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _value(arguments[0], seed)
    if origin is Literal:
        return arguments[0]
    if origin is tuple:
        return tuple(_value(item, seed) for item in arguments if item is not Ellipsis)
    if isinstance(hint, type) and issubclass(hint, Status):
        return Status.OK
    raise AssertionError(f"no example for a fact of type {hint}")
