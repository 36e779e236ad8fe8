"""How many cores this process may compute on, and how many NumPy's products use."""

import os
from pathlib import Path
from typing import Final

_CPU_FOLDER: Final = Path("/sys/devices/system/cpu")
_VARIABLES: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def physical_cores(cpu_folder: Path = _CPU_FOLDER) -> int:
    """Return the number of cores, counting the two threads of one core once.

    Only CPUs that this process may run on count. Where the system does not say which CPUs share a
    core, every CPU counts.
    """
    if hasattr(os, "sched_getaffinity"):
        cpus = sorted(os.sched_getaffinity(0))
    else:
        cpus = list(range(os.cpu_count() or 1))
    return max(len({_core_of(cpu_folder, cpu) for cpu in cpus}), 1)


def _core_of(cpu_folder: Path, cpu: int) -> str:
    """Return a name that the CPUs of one core have in common."""
    topology_path = cpu_folder / f"cpu{cpu}" / "topology/thread_siblings_list"
    try:
        return topology_path.read_text(encoding="ascii").strip() or str(cpu)
    except (OSError, UnicodeDecodeError):
        return str(cpu)


def use_blas_threads(count: int = 1) -> None:
    """Say in how many threads the matrix products of this process may run.

    The reference backend multiplies a few rows at a time, also while a model is converted. Sharing
    so little work saves little, and where other programs want the cores too, waiting for each
    other's threads takes ten times as long as the work. What the user has set stays. Without
    effect once NumPy is loaded, and never on a result: the products are exact.
    """
    for name in _VARIABLES:
        os.environ.setdefault(name, str(count))
