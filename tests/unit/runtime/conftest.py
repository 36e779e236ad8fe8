"""The small models on each backend."""

from collections.abc import Iterator

import pytest

from tests.backends.backends import open_named
from tests.runtime_cases import Case
from tests.sequences import LONGEST, MODELS, reference_plan, small_model

BACKENDS = {"reference": "reference", "native": "auto"}


@pytest.fixture(scope="session", params=BACKENDS)
def paged_case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Case]:
    """A model with keys and values."""
    yield from _cases(request.param, "odd llama", tmp_path_factory)


@pytest.fixture(
    scope="session", params=[f"{backend}-{model}" for model in MODELS for backend in BACKENDS]
)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Case]:
    """That one, and one whose states have the same size however many tokens there are."""
    backend, _, model = request.param.partition("-")
    yield from _cases(backend, model, tmp_path_factory)


def _cases(backend: str, name: str, folders: pytest.TempPathFactory) -> Iterator[Case]:
    model = small_model(name, folders.mktemp("model"))
    plan = open_named(BACKENDS[backend]).compile(
        model.program, model.tensors, row_count_max=64, context_tokens=LONGEST
    )
    reference = reference_plan(name, folders.mktemp("reference"))
    yield Case(plan, reference, model.tensors)
    plan.close()
