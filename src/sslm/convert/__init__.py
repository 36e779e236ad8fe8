"""Source weights to artifact: the one part of the package where floats live."""

from sslm.memory import require_numpy_memory

require_numpy_memory()
