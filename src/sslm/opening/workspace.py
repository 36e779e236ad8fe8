"""How much scratch memory a model takes, before it is opened."""

import os

from sslm.arguments import checked_path
from sslm.opening.model_file import checked_threads, context_of, open_artifact
from sslm.opening.runner import build_program, open_backend
from sslm.program.parallel_for import ParallelFor
from sslm.program.spans import CHUNK_ROWS_MAX


def workspace_size_bytes(
    path: str | os.PathLike[str],
    *,
    backend: str = "auto",
    tier: str = "auto",
    threads: int = 1,
    parallel_for: ParallelFor | None = None,
    context_tokens: int | None = None,
) -> int:
    """Return the bytes that ``workspace`` of :class:`sslm.Model` must have for the same options.

    Nothing of that size is allocated, and no thread is started.

    Args:
        path: A ``.sslm`` file.
        backend: As for the model, like the others.
        tier: Resolved here as it is there: ``auto`` is the best of this machine.
        threads: More need more scratch.
        parallel_for: Only how many tasks it may have matters.
        context_tokens: A longer context needs more scratch.

    Raises:
        SslmError: As opening the model does.
    """
    threads = checked_threads(backend, tier, threads, parallel_for)
    with open_artifact(checked_path("path", path), mmap=True) as artifact:
        return open_backend(
            backend, tier=tier, threads=threads, parallel_for=parallel_for
        ).scratch_size_bytes(
            build_program(artifact),
            artifact.tensors,
            row_count_max=CHUNK_ROWS_MAX,
            context_tokens=context_of(artifact, context_tokens),
        )
