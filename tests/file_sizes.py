"""A bound on the sizes of files, which stands for a disk without room."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def file_size_limit(size_bytes: int) -> Iterator[None]:
    """Let no file of this process and its children grow beyond *size_bytes*; not on Windows."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
