"""The definition of a right answer: NumPy, slow and obvious."""

from sslm.memory import require_numpy_memory

# Before anything imports NumPy.
require_numpy_memory()

from sslm.backends.reference.backend import ReferenceBackend  # noqa: E402

__all__ = ["ReferenceBackend"]
