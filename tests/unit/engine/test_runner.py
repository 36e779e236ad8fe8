"""Memory is admitted before it is taken."""

from contextlib import closing
from typing import Any

import pytest

from sslm.artifact import read_artifact
from sslm.backends.native import NativeBackend
from sslm.backends.reference import ReferenceBackend
from sslm.engine.runner import Runner
from sslm.errors.runtime import MemoryBudgetError
from sslm.program.plan import Backend
from tests.converted import stories_artifact


class CountingBackend(NativeBackend):
    """Counts the plans that it compiles."""

    compiled_count = 0

    def compile(self, *arguments: Any, **options: Any) -> Any:
        """Count, and compile."""
        self.compiled_count += 1
        return super().compile(*arguments, **options)


def test_a_model_beyond_the_bound_is_refused_before_a_plan_is_opened() -> None:
    backend = CountingBackend(threads=2)
    with read_artifact(stories_artifact()) as artifact:
        with closing(Runner(artifact, backend, context_tokens=64)) as runner:
            needed = artifact.file_size_bytes + runner.scratch_size_bytes
        backend.compiled_count = 0
        with pytest.raises(MemoryBudgetError) as caught:
            Runner(artifact, backend, context_tokens=64, memory_bytes=needed - 1)
        assert caught.value.needed_bytes == needed
        assert backend.compiled_count == 0
        Runner(artifact, backend, context_tokens=64, memory_bytes=needed).close()


@pytest.mark.parametrize(
    "backend", [ReferenceBackend(), NativeBackend("scalar"), NativeBackend(threads=3)]
)
@pytest.mark.parametrize("row_count_max", [1, 64, 200])
def test_the_size_said_beforehand_is_what_the_plan_holds(
    backend: Backend, row_count_max: int
) -> None:
    with read_artifact(stories_artifact()) as artifact:
        options = {"row_count_max": row_count_max, "context_tokens": 100}
        runner = Runner(artifact, backend, **options)
        with closing(backend.compile(runner.program, artifact.tensors, **options)) as plan:
            assert runner.scratch_size_bytes == plan.scratch_size_bytes
        runner.close()
