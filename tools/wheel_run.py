"""Installing a wheel and running a model with it, here or under qemu-user."""

import json
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.wheel_build import call, clean_environment, environment_python
from tools.wheel_targets import PINNED_DIGEST

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "tests" / "data" / "stories260K" / "stories260K-F32.gguf"
"""The small trained model that wheels are tried with."""


class DigestDiffersError(Exception):
    """A library computed something else, or was not the one to be tried."""


def run_native(wheel: Path, folder: Path, model: Path) -> dict[str, str]:
    """Install a wheel with its dependencies into a new environment, convert the model and run it.

    Args:
        wheel: Of this machine.
        folder: Where the environment is made.
        model: Where the artifact is written, for other wheels to read.

    Returns:
        The digests, by tier and threads.
    """
    venv.create(folder, with_pip=True)
    python = environment_python(folder)
    environment = clean_environment()
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    call("installing the wheel", [*pip, str(wheel)], environment)
    convert = ["-m", "sslm", "convert", str(SOURCE), "-o", str(model)]
    call("converting the model", [str(python), *convert], environment)
    return _digests([str(python)], environment, model, folder)


def run_emulated(wheel: Path, emulated: Path, folder: Path, model: Path) -> dict[str, str]:
    """Install a wheel into a folder as pip would on its own machine, and run the model with it.

    Args:
        wheel: For AArch64.
        emulated: What ``tools/emulated_python.py`` made.
        folder: Where the wheel is installed.
        model: An artifact.

    Returns:
        The digests, by tier and threads.
    """
    tag = wheel.stem.rpartition("-")[2]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--only-binary=:all:", "--platform", tag, "--python-version", "3.11"]
    call("installing the wheel", [*pip, "--target", str(folder), str(wheel)], clean_environment())
    python = [str(emulated / "bin" / "python")]
    return _digests(python, clean_environment(PYTHONPATH=str(folder)), model, folder)


def _digests(
    python: list[str], environment: dict[str, str], model: Path, folder: Path
) -> dict[str, str]:
    command = [*python, str(ROOT / "tools" / "digest_check.py"), str(model)]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise DigestDiffersError(f"{done.stdout}{done.stderr}".strip())
    report = json.loads(done.stdout)
    if not Path(report["library"]).is_relative_to(folder):
        raise DigestDiffersError(f"the library was {report['library']}, expected below {folder}")
    return check_digests(report["digests"])


def check_digests(digests: Mapping[str, str]) -> dict[str, str]:
    """Return the digests if there are any and all are the pinned one.

    Raises:
        DigestDiffersError: If not.
    """
    wrong = {way: digest for way, digest in digests.items() if digest != PINNED_DIGEST}
    if wrong or not digests:
        raise DigestDiffersError(f"expected {PINNED_DIGEST} of every tier, found {wrong or 'none'}")
    return dict(digests)
