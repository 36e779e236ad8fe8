"""How NumPy's matrix products use the cores."""

import os
from typing import Final

_VARIABLES: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def use_blas_threads(count: int = 1) -> None:
    """Say in how many threads the matrix products of this process may run.

    The reference backend multiplies a few rows at a time, also while a model is converted. Sharing
    so little work saves little, and where other programs want the cores too, waiting for each
    other's threads takes ten times as long as the work. What the user has set stays. Without
    effect once NumPy is loaded, and never on a result: the products are exact.
    """
    for name in _VARIABLES:
        os.environ.setdefault(name, str(count))
