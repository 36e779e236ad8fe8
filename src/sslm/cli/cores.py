"""How many cores this process may compute on."""

import os
from pathlib import Path
from typing import Final

_CPU_FOLDER: Final = Path("/sys/devices/system/cpu")


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
