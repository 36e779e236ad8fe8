"""Every exception has a number of its own, and survives the trip to another process."""

import ast
import copy
import importlib
import inspect
import pickle
import pkgutil
import string
import types
import typing
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, Final, Literal, NamedTuple

import pytest

import sslm.errors
from sslm.errors import base
from sslm.errors.base import SslmError
from sslm.errors.causes import ManyCausesError
from sslm.errors.status import Status

SOURCES: Final = Path(__file__).parents[1] / "src" / "sslm"
PUBLISHED: Final = Path(__file__).with_name("published_causes.txt")

for _module in pkgutil.iter_modules(sslm.errors.__path__):
    importlib.import_module(f"sslm.errors.{_module.name}")


def _subclasses(kind: type[SslmError]) -> list[type[SslmError]]:
    return [c for child in kind.__subclasses__() for c in (child, *_subclasses(child))]


FAMILIES = [kind for kind in _subclasses(SslmError) if kind.__module__ == base.__name__]
KINDS = [
    # A private class gathers the facts that several causes share; nobody raises it.
    kind
    for kind in dict.fromkeys(_subclasses(SslmError))
    if kind not in (*FAMILIES, ManyCausesError) and not kind.__name__.startswith("_")
]
TABLES = {kind.__name__: kind for kind in KINDS if issubclass(kind, ManyCausesError)}
"""Classes that have a table of causes."""


def _numbers(kind: type[SslmError]) -> list[Status]:
    return list(kind.causes) if issubclass(kind, ManyCausesError) else [kind.status]


class Raised(NamedTuple):
    """One cause: a class that is raised, and a number of it."""

    kind: type[SslmError]
    number: Status


CAUSES = sorted(
    (Raised(kind, number) for kind in KINDS for number in _numbers(kind)),
    key=lambda cause: cause.number,
)
LISTED = [cause for cause in CAUSES if cause.kind.__name__ in TABLES]

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
each_cause = pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.number.name)
each_listed_cause = pytest.mark.parametrize("cause", LISTED, ids=lambda cause: cause.number.name)


def test_every_cause_has_a_number_of_its_own() -> None:
    numbers = [cause.number for cause in CAUSES]
    assert sorted(numbers) == sorted(set(numbers))
    # Success is no error, and what no class names is a defect of ours: the root's own number.
    assert set(Status) - set(numbers) == {Status.OK, SslmError.status}


@each_kind
def test_a_class_states_itself(kind: type[SslmError]) -> None:
    stated = {"causes"} if kind.__name__ in TABLES else {"status", "message"}
    assert {"__doc__", *stated} <= set(vars(kind))
    assert sum(issubclass(kind, family) for family in FAMILIES) == 1


@each_cause
def test_an_exception_has_the_number_of_its_own_cause(cause: Raised) -> None:
    error = _example(cause)
    assert error.status is cause.number
    if cause.kind.__name__ not in TABLES:
        assert error.cause == cause.kind.__name__


@each_listed_cause
def test_a_listed_cause_takes_its_facts_and_no_others(cause: Raised) -> None:
    error = _example(cause)
    facts = error.facts()
    assert {name: getattr(error, name) for name in facts} == facts
    assert str(error) == error.template().format(**facts)
    fields = {field for _, field, _, _ in string.Formatter().parse(error.template()) if field}
    assert set(facts) == fields
    for name in facts:
        others = {other: fact for other, fact in facts.items() if other != name}
        with pytest.raises(TypeError, match="takes the facts"):
            cause.kind(cause.number, **others)
        with pytest.raises(TypeError, match="takes the facts"):
            cause.kind(cause.number, **others, **{f"{name}_": facts[name]})
    with pytest.raises(TypeError, match="takes the facts"):
        cause.kind(cause.number, **facts, another=1)


@pytest.mark.parametrize("kind", TABLES.values(), ids=TABLES)
def test_a_number_of_another_class_is_refused(kind: type[SslmError]) -> None:
    for number in {*Status} - set(_numbers(kind)):
        with pytest.raises(TypeError, match="has no cause"):
            kind(number)


def test_every_raise_of_a_listed_cause_names_its_facts() -> None:
    """No type checker knows which facts a number has."""
    places = [
        f"{path.relative_to(SOURCES)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted(SOURCES.rglob("*.py"))
        for node in _misused(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert places == []


@pytest.mark.parametrize(
    "line",
    [
        "GgufError(Status.GGUF_MAGIC)",
        "GgufError(Status.GGUF_MAGIC, found=magic, other=1)",
        "GgufError(Status.GGUF_MAGIC, magic)",
        "GgufError(Status.GGUF_MAGIC, **facts)",
        "GgufError(Status.GGUF_KEY, found=magic)",
        "GgufError(Status.SAVE_MAGIC, found=magic)",
        "GgufError(number, found=magic)",
        "partial(GgufError, Status.GGUF_MAGIC)",
    ],
)
def test_a_raise_that_does_not_is_found(line: str) -> None:
    assert list(_misused(ast.parse(line)))
    assert not list(_misused(ast.parse("GgufError(Status.GGUF_MAGIC, found=magic)")))


def _misused(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield what makes an error of many causes, other than with the facts of its number."""
    sound: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id=name),
                args=[ast.Attribute(value=ast.Name(id="Status"), attr=number)],
                keywords=keywords,
            ) if name in TABLES:
                cause = TABLES[name].causes.get(Status[number])
                if cause and sorted(cause.facts) == sorted(str(word.arg) for word in keywords):
                    sound.add(node.func)
            case ast.ExceptHandler(type=ast.expr() as kind):
                sound.update(ast.walk(kind))
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
                sound.update(ast.walk(kind))
            case ast.FunctionDef(returns=ast.expr() as kind):
                sound.update(ast.walk(kind))
            case ast.arg(annotation=ast.expr() as kind):
                sound.update(ast.walk(kind))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in TABLES and node not in sound:
            yield node


def test_names_and_facts_are_those_that_were_published() -> None:
    """JSON output and batch lines have them. A number goes on with its name, facts and order."""
    now = {int(cause.number): _published(cause) for cause in CAUSES}
    rows = [line for line in PUBLISHED.read_text().splitlines() if not line.startswith("#")]
    assert len(rows) >= 348
    assert [now.get(int(row.split()[0])) for row in rows] == rows


def _published(cause: Raised) -> str:
    error = _example(cause)
    return " ".join([str(int(cause.number)), error.cause, *error.facts()])


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
    for kind, number in CAUSES:
        family = next(family for family in FAMILIES if issubclass(kind, family))
        assert str(int(number))[0] == digits[family], kind


def test_exit_codes_cover_every_family() -> None:
    from sslm.cli.exit_codes import FAMILIES as CODES
    from sslm.cli.exit_codes import OUT_OF_BUDGET, USAGE, exit_code
    from sslm.errors.batches import BatchBusyError
    from sslm.errors.commands import BenchContextError
    from sslm.errors.model import EvaluationWindowError

    assert set(CODES) == set(FAMILIES)
    for cause in CAUSES:
        kind = cause.kind
        family = next(family for family in FAMILIES if issubclass(kind, family))
        # A wrong value of an option is misuse, wherever it is found.
        is_misuse = kind in (BenchContextError, EvaluationWindowError)
        # What another process has for a while is nobody's defect.
        expected = OUT_OF_BUDGET if kind is BatchBusyError else CODES[family]
        expected = USAGE if is_misuse else expected
        assert exit_code(_example(cause)) == expected


@each_cause
def test_a_message_tells_every_fact_it_names(cause: Raised) -> None:
    """A message that names no fact of its class could not be formatted at the worst moment."""
    assert str(_example(cause)).strip()


@each_cause
def test_an_exception_survives_pickle(cause: Raised) -> None:
    error = _example(cause)
    error.add_note("in row 3")
    copies = [copy.copy(error), copy.deepcopy(error)]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        copies.append(pickle.loads(pickle.dumps(error, protocol)))
        nested = pickle.loads(pickle.dumps({"error": [error]}, protocol))
        copies.append(nested["error"][0])
    for again in copies:
        assert type(again) is cause.kind
        assert (str(again), again.status) == (str(error), error.status)
        assert (again.cause, again.facts()) == (error.cause, error.facts())
        assert again.args == error.args == tuple(error.facts().values())
        assert vars(again) == vars(error)
        assert again.__notes__ == ["in row 3"]


@pytest.mark.parametrize("kind", [SslmError, *FAMILIES], ids=lambda kind: kind.__name__)
def test_a_family_survives_pickle(kind: type[SslmError]) -> None:
    again = pickle.loads(pickle.dumps(kind()))
    assert (type(again), str(again), again.status) == (kind, str(kind()), kind.status)


def _example(cause: Raised) -> SslmError:
    """Construct an exception with a distinct fact for every name."""
    kind = cause.kind
    if issubclass(kind, ManyCausesError):
        # Some messages have a format that only numbers have.
        facts_of_cause = kind.causes[cause.number].facts
        numbered = {name: index for index, name in enumerate(facts_of_cause, 1)}
        return kind(cause.number, **numbered)
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
