"""Every backend and tier that this machine runs."""

from sslm.backends.native import NativeBackend
from sslm.backends.reference import ReferenceBackend
from sslm.native_library import TIERS, available_tiers
from sslm.program.plan import Backend

BACKEND_NAMES = ("reference", *TIERS)
"""The reference backend, and the native one once for each of its tiers."""

MISSING_NAMES = tuple(tier for tier in TIERS if tier not in available_tiers())


def open_named(name: str, *, threads: int = 1) -> Backend:
    """Open a backend by a name of ``BACKEND_NAMES``."""
    if name == "reference":
        return ReferenceBackend()
    return NativeBackend(name, threads=threads)
