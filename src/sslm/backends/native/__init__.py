"""Plans over the C kernels: a whole range of segments in one foreign call, without NumPy."""

from sslm.backends.native.backend import NativeBackend
from sslm.backends.native.op_timings import OpTimings
from sslm.backends.native.plan import NativePlan

__all__ = ["NativeBackend", "NativePlan", "OpTimings"]
