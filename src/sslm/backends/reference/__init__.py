"""The definition of a right answer: NumPy, slow and obvious."""

from sslm.backends.reference.backend import ReferenceBackend

__all__ = ["ReferenceBackend"]
