"""Put a Python for another CPU into a folder, to run it under qemu-user on this machine.

    python tools/emulated_python.py --cpu aarch64 FOLDER

Needs Debian's apt-get and dpkg-deb, pip, and the network for both; ``qemu-user-static`` to run the
result. Nothing is installed into this machine: apt-get works on lists of its own inside FOLDER, as
if for an empty machine of the other architecture. FOLDER then holds ``sysroot`` (CPython 3.11, its
C library), ``site`` (what the package depends on, from wheels) and ``bin/python``, which is called
like any other Python.
"""

import argparse
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PYTHON: Final = "3.11"
PACKAGES: Final = ("python3.11", "libstdc++6", "ca-certificates")
"""Debian packages; what they depend on comes too."""


class Cpu(NamedTuple):
    """How one CPU is called by everybody: Debian, the tags of wheels, and qemu."""

    debian: str
    wheels: str
    qemu: str


CPUS: Final = {"aarch64": Cpu("arm64", "aarch64", "qemu-aarch64-static")}

GLIBC_MINORS: Final = (36, 35, 34, 31, 28, 27, 24, 17)
"""Minor numbers of manylinux_2_N tags, newest first: up to the C library of Debian 12."""

APT_CONFIG: Final = """\
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Sandbox::User "root";
Dir::State "{apt}/state";
Dir::State::status "{apt}/status";
Dir::Cache "{apt}/cache";
Dir::Etc::sourcelist "{sources}";
Dir::Etc::sourceparts "-";
"""

LAUNCHER: Final = """\
#!/bin/sh
# Python {version} for {cpu}. QEMU_CPU chooses the CPU's model; by default it has everything.
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
QEMU_CPU=${{QEMU_CPU:-max}}
PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$here/site"
PYTHONNOUSERSITE=1
SSLM_EMULATED_PYTHON="$here/bin/python"
export QEMU_CPU PYTHONPATH PYTHONNOUSERSITE SSLM_EMULATED_PYTHON
exec {qemu} -L "$here/sysroot" "$here/sysroot/usr/bin/python{version}" "$@"
"""

CUSTOMIZATION: Final = '''\
"""Let what this Python starts with ``sys.executable`` be emulated too."""

import os
import sys

sys.executable = os.environ.get("SSLM_EMULATED_PYTHON", sys.executable)
'''


def default_sources() -> Path:
    """Return the file in which this machine keeps the address of a Debian mirror."""
    for path in (
        Path("/etc/apt/sources.list.d/debian.sources"),
        Path("/etc/apt/sources.list"),
    ):
        if path.is_file():
            return path
    sys.exit("no list of Debian mirrors found: name one with --apt-sources FILE")


def fetch_sysroot(folder: Path, cpu: Cpu, sources: Path) -> None:
    """Download CPython with all it depends on, and unpack it below ``folder/sysroot``."""
    apt = folder / "apt"
    for name in ("state/lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True)
    (apt / "status").touch()
    # apt tells the two formats of lists apart by their names.
    sources_copy = apt / f"mirrors{'.sources' if sources.suffix == '.sources' else '.list'}"
    shutil.copyfile(sources, sources_copy)
    config = apt / "apt.conf"
    config.write_text(
        APT_CONFIG.format(architecture=cpu.debian, apt=apt, sources=sources_copy),
        encoding="utf-8",
    )
    environment = {"APT_CONFIG": str(config), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    subprocess.run(["apt-get", "-q", "update"], env=environment, check=True)
    install = ["apt-get", "-q", "install", "--yes", "--download-only", "--no-install-recommends"]
    subprocess.run([*install, *PACKAGES], env=environment, check=True)
    for package in sorted((apt / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(package), str(folder / "sysroot")], check=True)
    shutil.rmtree(apt)


def run_time_dependencies() -> list[str]:
    """Return what pyproject.toml says the package needs to run."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return list(tomllib.load(file)["project"]["dependencies"])


def fetch_site(folder: Path, cpu: Cpu, more: list[str]) -> None:
    """Install the dependencies' wheels for that CPU below ``folder/site``."""
    tags = [f"manylinux_2_{minor}_{cpu.wheels}" for minor in GLIBC_MINORS]
    tags.append(f"manylinux2014_{cpu.wheels}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder / "site")]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}"]
    command += [word for tag in tags for word in ("--platform", tag)]
    subprocess.run([*command, *run_time_dependencies(), *more], check=True)
    (folder / "site" / "sitecustomize.py").write_text(CUSTOMIZATION, encoding="utf-8")


def write_launcher(folder: Path, name: str, cpu: Cpu) -> Path:
    """Write ``folder/bin/python`` and return its path."""
    launcher = folder / "bin" / "python"
    launcher.parent.mkdir()
    text = LAUNCHER.format(version=PYTHON, cpu=name, qemu=cpu.qemu)
    launcher.write_text(text, encoding="utf-8")
    launcher.chmod(0o755)
    return launcher


def main() -> None:
    """Make the folder, whole or not at all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="must not exist")
    parser.add_argument("--cpu", choices=CPUS, default="aarch64")
    parser.add_argument("--apt-sources", type=Path, default=None, metavar="FILE")
    parser.add_argument("--with", dest="more", action="append", default=[], metavar="REQUIREMENT")
    options = parser.parse_args()
    folder = options.folder.absolute()
    if folder.exists():
        parser.error(f"{folder} exists already: remove it first, or name another folder")
    cpu = CPUS[options.cpu]
    for program in ("apt-get", "dpkg-deb", cpu.qemu):
        if shutil.which(program) is None:
            parser.error(f"{program} not found: Debian's package qemu-user-static has qemu-user")
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(parents=True)
        fetch_sysroot(unfinished, cpu, options.apt_sources or default_sources())
        fetch_site(unfinished, cpu, options.more)
        write_launcher(unfinished, options.cpu, cpu)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    probe = "import cffi, numpy, platform, tokenizers; print(platform.machine(), numpy.__version__)"
    subprocess.run([str(folder / "bin" / "python"), "-c", probe], check=True)


if __name__ == "__main__":
    main()
